// The explorer: one image, one patch, one placement, and what every defender can be made to say there.

// The evidence of one image under one patch, unpacked and counted by the room of each defender's kind.
async function loadEnsemble(position, patch) {
  const number = Math.floor(position / manifest.imagesPerBlock);
  const place = position % manifest.imagesPerBlock;
  const inBlock = Math.min(manifest.imagesPerBlock, manifest.nShown - number * manifest.imagesPerBlock);
  const facts = await loadFacts();
  const labels = manifest.defenders.map((_, at) => facts[`label${at}`][position]);
  const where = { number, place, inBlock, patch };
  const load = (defender, at) => ROOMS[defender.room].load({ ...defender, at }, where, labels[at]);
  const members = await Promise.all(manifest.defenders.map(load));
  return new Ensemble(members, labels, HEIGHT - patch[0] + 1, WIDTH - patch[1] + 1);
}

class Explorer {
  constructor(facts, changed) {
    Object.assign(this, { facts, changed, isolated: null, pointed: null, asked: 0 });
    this.stage = document.getElementById("stage");
    this.cards = manifest.defenders.map((_, place) => document.getElementById(`defender-${place}`));
    this.showMap = document.getElementById("show-map");
    this.showMap.addEventListener("change", () => this.draw());
    this.stage.addEventListener("pointermove", (event) => this.follow(event));
    this.stage.addEventListener("pointerdown", (event) => this.follow(event));
    document.getElementById("next-unsafe").addEventListener("click", () => this.nextUnsafe());
  }

  // Show an image; without a placement, its first unsafe one, or the middle when there is none.
  async open(position, patch, placement = null) {
    const asked = ++this.asked;
    const [ensemble, picture] = await Promise.all([loadEnsemble(position, patch), pictureOf(position)]);
    if (asked !== this.asked) return;
    if (position !== this.position) this.isolated = null;
    Object.assign(this, { position, patch, ensemble, picture });
    const firstUnsafe = ensemble.unsafe().indexOf(1);
    const start =
      firstUnsafe < 0
        ? [Math.floor(ensemble.nTops / 2), Math.floor(ensemble.nLefts / 2)]
        : [Math.floor(firstUnsafe / ensemble.nLefts), firstUnsafe % ensemble.nLefts];
    this.describe();
    this.move(...(placement ?? start));
  }

  move(top, left) {
    const { nTops, nLefts } = this.ensemble;
    this.at = [Math.min(Math.max(top, 0), nTops - 1), Math.min(Math.max(left, 0), nLefts - 1)];
    this.pointed = null;
    this.draw();
    this.changed();
  }

  // Look at a pair of masks: {member, mask, second}.
  point(pair) {
    this.pointed = pair;
    this.draw();
  }

  // The patch's centre goes where the pointer is.
  follow(event) {
    if (!this.ensemble) return;
    const box = this.stage.getBoundingClientRect();
    const y = ((event.clientY - box.top) / box.height) * HEIGHT - this.patch[0] / 2;
    const x = ((event.clientX - box.left) / box.width) * WIDTH - this.patch[1] / 2;
    this.move(Math.round(y), Math.round(x));
  }

  nextUnsafe() {
    const map = this.ensemble.unsafe();
    const here = this.at[0] * this.ensemble.nLefts + this.at[1];
    const next = map.indexOf(1, here + 1);
    const found = next >= 0 ? next : map.indexOf(1);
    if (found >= 0) this.move(Math.floor(found / this.ensemble.nLefts), found % this.ensemble.nLefts);
  }

  // What does not depend on the placement: the facts of the image, the legend, the rows of the tallies.
  describe() {
    const { facts, position, ensemble } = this;
    const size = this.patch.join("x");
    const nUnsafe = ensemble.unsafe().reduce((n, one) => n + one, 0);
    const by = manifest.by[facts[`by ${size}`]?.[position]];
    const set = (name, text) => (document.getElementById(`fact-${name}`).textContent = text);
    set("image", `#${facts.image[position]}`);
    set("says", CLASS_NAMES[ensemble.clean]);
    if (manifest.hasTruth) set("truth", CLASS_NAMES[facts.truth[position]]);
    const why = by && !DETECTION && manifest.defenders.length > 1 ? `, by theorem ${by.at(-1)}` : "";
    const alert = DETECTION ? (ensemble.alerts() ? "alert, " : "no alert, ") : "";
    set("verdict", nUnsafe ? `${alert}not certified against ${size}` : `${alert}certified against ${size}${why}`);
    set("unsafe", `${nUnsafe.toLocaleString("en")} of ${(ensemble.nTops * ensemble.nLefts).toLocaleString("en")}`);
    const largest = facts.largest[position];
    if (!DETECTION) set("largest", largest ? `${largest}x${largest}` : "none");
    document.getElementById("facts").dataset.state = nUnsafe ? "open" : "proved";
    document.getElementById("next-unsafe").disabled = nUnsafe === 0;

    const totals = new Map();
    for (const { counts } of ensemble.members)
      for (const [label, votes] of counts) totals.set(label, (totals.get(label) ?? 0) + votes);
    for (const label of ensemble.labels) if (!totals.has(label)) totals.set(label, 0);
    const occurring = [...totals.keys()].sort((a, b) => totals.get(b) - totals.get(a) || a - b);
    this.colours = labelColours(occurring);
    this.legend(occurring.slice(0, manifest.palette.length), occurring.length);
    this.scene = sceneAt(ensemble, 0, 0);
    this.cards.forEach((card, place) => this.layCard(card, this.scene.testimonies[place], place));
  }

  legend(labels, n) {
    const items = labels.map((label) => {
      const button = make("button", { type: "button", className: "key" });
      const pressed = this.isolated === label;
      button.setAttribute("aria-pressed", String(pressed));
      const swatch = make("span", { className: "swatch" });
      swatch.style.background = this.colours.get(label);
      button.append(swatch, make("bdi", { textContent: CLASS_NAMES[label] }));
      button.addEventListener("click", () => {
        this.isolated = this.isolated === label ? null : label;
        for (const other of document.querySelectorAll("#legend .key"))
          other.setAttribute("aria-pressed", String(other === button && this.isolated !== null));
        this.draw();
      });
      return button;
    });
    if (manifest.defenders.some(({ room }) => room === "ballots")) {
      const blank = make("span", { className: "key still" });
      blank.append(make("span", { className: "swatch blank" }), "no vote");
      items.push(blank);
    }
    if (n > labels.length) items.push(make("span", { className: "key still", textContent: `${n - labels.length} more labels in grey` }));
    document.getElementById("legend").replaceChildren(...items);
  }

  layCard(card, told, place) {
    Object.assign(card.querySelector(".says"), { textContent: CLASS_NAMES[told.label], title: CLASS_NAMES[told.label] });
    this.room(place).lay(card, told, this.colours);
  }

  room(place) {
    return ROOMS[manifest.defenders[place].room];
  }

  draw() {
    if (!this.ensemble) return;
    this.scene = sceneAt(this.ensemble, ...this.at);
    drawStage(this.stage, this.picture, this.ensemble, this.patch, this.at, this.showMap.checked, this.pointed);
    const verdict = document.getElementById("verdict");
    verdict.textContent = isolated(sentenceOf(this.scene));
    verdict.dataset.state = this.scene.safe ? "proved" : "open";
    document.getElementById("placement").textContent = `top ${this.at[0]}, left ${this.at[1]}`;
    this.cards.forEach((card, place) =>
      this.room(place).fill(card, this.scene.testimonies[place], this.ensemble.members[place], this),
    );
  }
}
