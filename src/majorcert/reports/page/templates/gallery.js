// The gallery: which images are chosen, in which order, and their tiles, a page at a time.

const TILES = 48;

class Gallery {
  constructor(facts, loadEnsemble) {
    Object.assign(this, { facts, loadEnsemble, page: 0, chosen: [], patch: manifest.patches[0], drawing: 0 });
    this.form = document.getElementById("gallery-form");
    this.list = document.getElementById("tiles");
    this.form.addEventListener("input", () => this.choose());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    document.getElementById("page-back").addEventListener("click", () => this.turn(-1));
    document.getElementById("page-on").addEventListener("click", () => this.turn(1));
  }

  show(patch) {
    this.patch = patch;
    this.choose();
  }

  fact(name, position) {
    return this.facts[`${name} ${this.patch.join("x")}`][position];
  }

  certified(position) {
    return this.fact("by", position) > 0;
  }

  correct(position) {
    return this.facts.predicted[position] === this.facts.truth[position];
  }

  // The chosen positions, in order. Search words must all match: an image number, or a part of a label's name.
  choose() {
    const { filter, sort, query } = Object.fromEntries(new FormData(this.form));
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const few = Math.max(1, Math.round(0.05 * (HEIGHT - this.patch[0] + 1) * (WIDTH - this.patch[1] + 1)));
    const filters = {
      all: () => true,
      certified: (at) => this.certified(at),
      open: (at) => !this.certified(at),
      proved: (at) => this.certified(at) && this.correct(at),
      danger: (at) => this.certified(at) && !this.correct(at),
      unproved: (at) => !this.certified(at) && this.correct(at),
      wrong: (at) => !this.certified(at) && !this.correct(at),
      nearly: (at) => !this.certified(at) && this.fact("unsafe", at) <= few,
      theorem2: (at) => manifest.by[this.fact("by", at)] === "theorem2",
    };
    const keys = {
      index: (at) => at,
      few: (at) => this.fact("unsafe", at),
      many: (at) => -this.fact("unsafe", at),
      largest: (at) => -this.facts.largest[at],
      smallest: (at) => this.facts.largest[at],
      label: (at) => this.facts.predicted[at],
    };
    const every = Array.from({ length: manifest.nShown }, (_, at) => at);
    this.chosen = every.filter((at) => filters[filter](at) && words.every((word) => this.matches(at, word)));
    this.chosen.sort((a, b) => keys[sort](a) - keys[sort](b) || a - b);
    this.page = 0;
    this.draw();
  }

  matches(position, word) {
    const [, side, text] = /^(?:(says|truth):)?(.*)$/.exec(word);
    const labels = [];
    if (side !== "truth") labels.push(this.facts.predicted[position]);
    if (side !== "says" && manifest.hasTruth) labels.push(this.facts.truth[position]);
    if (/^\d+$/.test(text)) {
      if (!side && this.facts.image[position] === Number(text)) return true;
      return labels.some((label) => CLASS_NAMES[label].toLowerCase() === text);
    }
    return labels.some((label) => CLASS_NAMES[label].toLowerCase().includes(text));
  }

  turn(step) {
    this.page = Math.min(Math.max(this.page + step, 0), Math.max(Math.ceil(this.chosen.length / TILES) - 1, 0));
    this.draw();
  }

  draw() {
    const start = this.page * TILES;
    const positions = this.chosen.slice(start, start + TILES);
    this.list.replaceChildren(...positions.map((position) => this.tile(position)));
    const [n, end] = [this.chosen.length, start + positions.length];
    const count = document.getElementById("gallery-count");
    count.textContent = n ? `${(start + 1).toLocaleString("en")}–${end.toLocaleString("en")} of ${n.toLocaleString("en")} images` : "No image fits. Choose another filter or clear the search.";
    document.getElementById("page-back").disabled = start === 0;
    document.getElementById("page-on").disabled = end >= n;
    this.drawTiles(positions);
  }

  tile(position) {
    const number = this.facts.image[position];
    const nUnsafe = this.fact("unsafe", position);
    const certified = this.certified(position);
    const wrong = manifest.hasTruth && !this.correct(position);
    const says = CLASS_NAMES[this.facts.predicted[position]];
    const open = `${nUnsafe.toLocaleString("en")} unsafe`;
    const raised = DETECTION && this.fact("alert", position) ? "alert" : "no alert";
    const status = DETECTION ? raised + (certified ? "" : `, ${open}`) : certified ? "certified" : open;
    const link = make("a", { className: "tile", href: `#image=${number}&patch=${this.patch.join("x")}` });
    link.dataset.position = position;
    const canvas = make("canvas", { width: 96, height: Math.round((96 * HEIGHT) / WIDTH) });
    canvas.setAttribute("aria-hidden", "true");
    const truth = wrong ? `truth: ${CLASS_NAMES[this.facts.truth[position]]}` : "";
    link.append(
      canvas,
      make("span", { className: "tile-number", textContent: `#${number}` }),
      make("bdi", { className: "tile-label", textContent: says, title: says }),
      make("bdi", { className: "tile-truth", textContent: truth, title: truth }),
      make("span", { className: certified ? (wrong ? "badge danger" : "badge proved") : "badge open", textContent: status }),
    );
    const item = make("li");
    item.append(link);
    return item;
  }

  // Pictures and maps come after the tiles, a few at a time, so that the page stays responsive.
  async drawTiles(positions) {
    const drawing = ++this.drawing;
    const canvases = this.list.querySelectorAll("canvas");
    for (const withMap of [false, true]) {
      let since = performance.now();
      for (const [i, position] of positions.entries()) {
        if (withMap && this.certified(position)) continue;
        const ensemble = withMap ? await this.loadEnsemble(position, this.patch) : null;
        const picture = await pictureOf(position);
        if (performance.now() - since > 12) {
          await new Promise((done) => setTimeout(done));
          since = performance.now();
        }
        if (drawing !== this.drawing) return;
        drawThumbnail(canvases[i], picture, ensemble, this.patch);
      }
    }
  }
}
