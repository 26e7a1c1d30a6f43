// The room of every kind that the page knows by its label and its reach alone.

// The recorded reach of one image, at every placement of one patch.
class RecordedReach {
  constructor(cells, listed, members, below, place, nTops) {
    const [nSlots, nRows, nColumns] = cells;
    const nCells = nRows * nColumns;
    Object.assign(this, { nRows, nColumns });
    this.rowCell = cells.subarray(3, 3 + nTops);
    this.columnCell = cells.subarray(3 + nTops);
    const nBytes = Math.ceil((nSlots * nCells) / 8);
    this.members = members.subarray(place * nBytes, (place + 1) * nBytes);
    this.below = below.subarray(place * nCells, (place + 1) * nCells);
    this.listed = Array.from(listed.subarray(place * nSlots, (place + 1) * nSlots)).filter((each) => each >= 0);
    this.counts = new Map();
  }

  reachAt(top, left) {
    const cell = this.rowCell[top] * this.nColumns + this.columnCell[left];
    const members = this.listed.map((_, slot) => {
      const bit = slot * this.nRows * this.nColumns + cell;
      return ((this.members[bit >> 3] >> (7 - (bit & 7))) & 1) === 1;
    });
    return { listed: this.listed, members, below: this.below[cell] };
  }

  tell() {
    return { tallies: [], nTouched: 0, nAblations: 0, remark: "", rows: [] };
  }
}

ROOMS.reach = {
  async load({ at }, { number, place, patch }) {
    const names = ["cells", "listed", "members", "below"].map((name) => `${name}${at}.${number}.${patch.join("x")}`);
    return new RecordedReach(...(await Promise.all(names.map(block))), place, HEIGHT - patch[0] + 1);
  },

  lay() {},

  fill(card, told) {
    const names = told.canSay.slice(0, 6).map((label) => CLASS_NAMES[label]);
    const more = told.canSay.length - names.length;
    card.querySelector(".reach-list").textContent = names.join(", ") + (more > 0 ? ` and ${more} more` : "");
  },
};
