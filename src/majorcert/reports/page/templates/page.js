// The page as a whole: what is shown now, the address that leads back to it, the keys, the theme.

const GIVEN = manifest.patches.map((patch) => patch.join("x"));

function parsePatch(text) {
  const match = /^(\d+)x(\d+)$/.exec(text ?? "");
  const patch = match && [Number(match[1]), Number(match[2])];
  const fits = patch && patch[0] >= 1 && patch[1] >= 1 && patch[0] <= HEIGHT && patch[1] <= WIDTH;
  return fits && (GIVEN.includes(text) || anyPatch) ? patch : null;
}

// Ballots answer for every patch; a recorded reach only for those it was recorded at.
const { anyPatch } = manifest;

// Every image here has a number, its place in the data set; positions count the images of this page.
function positionOf(facts, number) {
  return facts.image.indexOf(number);
}

function showFindings(size) {
  for (const part of document.querySelectorAll("[data-patch]")) part.hidden = part.dataset.patch !== size;
  for (const choice of document.querySelectorAll("#patch-choice input")) choice.checked = choice.value === size;
}

function switchTheme() {
  const root = document.documentElement;
  const systemDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : systemDark;
  root.dataset.theme = dark ? "light" : "dark";
}

async function start() {
  const facts = await loadFacts();
  const gallery = new Gallery(facts, loadEnsemble);
  const select = document.getElementById("explorer-patch");
  let writing = false;
  let resting;

  // Browsers slow down pages that rewrite their address all the time, so it follows once the patch rests.
  const writeAddress = () => {
    const [top, left] = explorer.at;
    const number = facts.image[explorer.position];
    history.replaceState(null, "", `#image=${number}&patch=${explorer.patch.join("x")}&at=${top},${left}`);
  };

  const explorer = new Explorer(facts, () => {
    const size = explorer.patch.join("x");
    if (select.value !== size) {
      if (![...select.options].some((option) => option.value === size)) select.add(new Option(size, size));
      select.value = size;
    }
    clearTimeout(resting);
    if (writing) resting = setTimeout(writeAddress, 150);
  });

  const setPatch = async (patch) => {
    const size = patch.join("x");
    if (GIVEN.includes(size)) {
      showFindings(size);
      if (gallery.patch.join("x") !== size || !gallery.chosen.length) gallery.show(patch);
    }
    if (explorer.ensemble && explorer.patch.join("x") !== size) {
      const centre = explorer.at.map((at, side) => at + explorer.patch[side] / 2);
      await explorer.open(explorer.position, patch, centre.map((at, side) => Math.floor(at - patch[side] / 2)));
    }
  };

  const follow = async (address) => {
    clearTimeout(resting);
    const asked = new URLSearchParams(new URL(address).hash.slice(1));
    if (!asked.has("image")) return false;
    const position = positionOf(facts, Number(asked.get("image")));
    if (position < 0) return false;
    const patch = parsePatch(asked.get("patch")) ?? explorer.patch ?? manifest.patches[0];
    const at = /^(\d+),(\d+)$/.exec(asked.get("at") ?? "");
    if (GIVEN.includes(patch.join("x"))) await setPatch(patch);
    await explorer.open(position, patch, at && [Number(at[1]), Number(at[2])]);
    writing = true;
    document.getElementById("explorer").scrollIntoView();
    explorer.stage.focus({ preventScroll: true });
    return true;
  };

  const step = (by) => {
    const order = gallery.chosen.length ? gallery.chosen : [explorer.position];
    const here = order.indexOf(explorer.position);
    const next = order[here < 0 ? 0 : Math.min(Math.max(here + by, 0), order.length - 1)];
    writing = true;
    return explorer.open(next, explorer.patch);
  };

  const arrows = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  // What a key does, or undefined. Keys that scroll the page do so everywhere but in the explorer.
  const action = ({ key, shiftKey }, inExplorer) => {
    if (key in arrows && inExplorer)
      return () => {
        writing = true;
        explorer.move(...explorer.at.map((at, side) => at + (shiftKey ? 5 : 1) * arrows[key][side]));
      };
    if (key === "j" || (key === "PageDown" && inExplorer)) return () => step(1);
    if (key === "k" || (key === "PageUp" && inExplorer)) return () => step(-1);
    if (key === "n") return () => explorer.nextUnsafe();
    if (key === "/") return () => document.getElementById("query").focus();
    const patch = /^[1-9]$/.test(key) && parsePatch(`${key}x${key}`);
    return patch ? () => setPatch(patch) : undefined;
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest("input:not([type=checkbox], [type=radio]), select");
    if (typing && event.key === "Escape") typing.blur();
    if (typing || event.target.type === "radio") return;
    const act = action(event, document.getElementById("explorer").contains(document.activeElement));
    if (!act) return;
    event.preventDefault();
    act();
  });

  document.getElementById("patch-choice").addEventListener("change", (event) => setPatch(parsePatch(event.target.value)));
  select.addEventListener("change", () => setPatch(parsePatch(select.value)));
  document.getElementById("image-back").addEventListener("click", () => step(-1));
  document.getElementById("image-on").addEventListener("click", () => step(1));
  explorer.stage.addEventListener("pointerdown", () => (writing = true));
  const redraw = () => {
    forgetTheme();
    explorer.draw();
    gallery.draw();
  };
  document.getElementById("theme").addEventListener("click", () => {
    switchTheme();
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  // Paper is light, and what is on a canvas does not follow the style sheet.
  const root = document.documentElement;
  let themeOnScreen;
  window.addEventListener("beforeprint", () => {
    themeOnScreen = root.dataset.theme;
    root.dataset.theme = "light";
    redraw();
  });
  window.addEventListener("afterprint", () => {
    if (themeOnScreen) root.dataset.theme = themeOnScreen;
    else delete root.dataset.theme;
    redraw();
  });
  // The event knows where the link led to, even when the address was rewritten in between.
  window.addEventListener("hashchange", (event) => follow(event.newURL));

  // A browser that comes back to the page fills in the filter and the patch of last time, and the filter may fit no image.
  showFindings(GIVEN[0]);
  gallery.show(manifest.patches[0]);
  if (!(await follow(location.href))) await explorer.open(gallery.chosen[0] ?? 0, manifest.patches[0]);

  // For the console and for tests: the same numbers as plain data, by image number.
  const ensembleOf = (number, size) => loadEnsemble(positionOf(facts, number), parsePatch(size));
  return {
    scene: async (number, size, top, left) => sceneAt(await ensembleOf(number, size), top, left),
    sentence: async (number, size, top, left) => sentenceOf(sceneAt(await ensembleOf(number, size), top, left)),
    unsafe: async (number, size) => Array.from((await ensembleOf(number, size)).unsafe()),
    chosen: () => gallery.chosen.map((position) => facts.image[position]),
  };
}

window.majorcert = { ready: start().then((answers) => Object.assign(window.majorcert, answers) && true) };
