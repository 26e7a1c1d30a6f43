// The room of double masking: the label under every mask, and whether a second mask can change it. It mirrors majorcert's
// defences/masking.py, and is tested to give the same numbers.

// One image under a patch. `planes`: the label under each mask alone, and another one from its row, -1 if there is none.
class MaskedRows {
  constructor(planes, label, grid, covering, nLefts) {
    const listed = DETECTION ? [...new Set(planes[0])].sort((a, b) => a - b) : [label];
    Object.assign(this, { planes, grid, nLefts, nAblations: planes[0].length, listed, ...covering });
    this.counts = new Map();
    for (const each of planes[0]) this.counts.set(each, (this.counts.get(each) ?? 0) + 1);
    for (const each of planes[1]) if (each >= 0 && !this.counts.has(each)) this.counts.set(each, 0);
    this.proving = this.regionsOf.map((masks) => masks.filter((mask) => planes[1][mask] < 0).length);
  }

  // The masks that hide the whole patch; drawn like touched ballots.
  touched(top, left) {
    return this.regionsOf[this.cellOf[top * this.nLefts + left]];
  }

  // The label alone where a covering mask has a row of one label; every label elsewhere. Of detection: the label under
  // the first mask that covers.
  reachAt(top, left) {
    if (DETECTION) {
      const [first] = this.touched(top, left);
      const unknown = first === undefined;
      const members = this.listed.map((each) => unknown || each === this.planes[0][first]);
      return { listed: this.listed, members, below: unknown ? N_CLASSES : 0 };
    }
    const proved = this.proving[this.cellOf[top * this.nLefts + left]] > 0;
    return { listed: this.listed, members: [true], below: proved ? 0 : N_CLASSES };
  }

  tell(top, left) {
    const [covering, proving] = [this.touched(top, left).length, this.proving[this.cellOf[top * this.nLefts + left]]];
    const remark = `${covering} of ${this.nAblations} masks cover the patch; under ${proving} of them no second mask changes the label`;
    return { tallies: [], nTouched: 0, nAblations: 0, remark };
  }
}

ROOMS.pairs = {
  async load(defender, where, label) {
    const all = where.patch[0] * where.patch[1];
    const [planes, covering] = await Promise.all([planesOf(defender, where), regionsOf(defender, where.patch, all)]);
    return new MaskedRows(planes, label, defender.grid, covering, WIDTH - where.patch[1] + 1);
  },

  lay() {},

  fill(card, told, member, { at, colours, isolated }) {
    card.querySelector(".remark").textContent = `${told.remark}.`;
    ROOMS.reach.fill(card, told);
    const canvas = card.querySelector("canvas");
    canvas.setAttribute("aria-label", `Masks of ${told.name}: ${told.remark}`);
    drawBallots(canvas, member, at, colours, isolated);
  },
};
