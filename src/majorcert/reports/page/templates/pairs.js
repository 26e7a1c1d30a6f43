// The room of double masking: the label under every pair of masks, and so which masks prove it. It mirrors majorcert's
// defences/masking.py and reports/mask_rows.py, and is tested to give the same numbers.

// For each mask, the labels under it and each second mask that are not the image's own; -1 where nobody looked. The page
// holds only these: a bit for each pair, row by row of the upper triangle, and the labels in the same order.
function rowsOf(bits, others, nMasks) {
  const rows = Array.from({ length: nMasks }, () => new Map());
  for (let first = 0, pair = 0, found = 0; first < nMasks; first++)
    for (let second = first; second < nMasks; second++, pair++) {
      if (!((bits[pair >> 3] >> (7 - (pair & 7))) & 1)) continue;
      rows[first].set(second, others[found]);
      rows[second].set(first, others[found++]);
    }
  return rows;
}

// One image under a patch.
class MaskedRows {
  constructor(rows, label, { grid, boxes }, covering, nLefts) {
    Object.assign(this, { rows, label, grid, boxes, nLefts, nAblations: rows.length, ...covering });
    const singles = rows.map((_, mask) => this.under(mask, mask));
    // Drawn like ballots: the label under each mask alone, and another one from its row.
    this.planes = [singles, rows.map((row, mask) => this.another(row, singles[mask]))];
    this.listed = DETECTION ? [...new Set(singles)].sort((a, b) => a - b) : [label];
    this.counts = new Map();
    for (const each of singles) this.counts.set(each, (this.counts.get(each) ?? 0) + 1);
    for (const row of rows)
      for (const each of row.values()) if (each >= 0 && !this.counts.has(each)) this.counts.set(each, 0);
    this.proving = this.regionsOf.map((masks) => masks.filter((mask) => !rows[mask].size).length);
  }

  under(mask, second) {
    return this.rows[mask].get(second) ?? this.label;
  }

  another(row, single) {
    return [...row.values()].find((each) => each >= 0 && each !== single) ?? (single === this.label ? -1 : this.label);
  }

  // The masks that hide the whole patch; drawn like touched ballots.
  touched(top, left) {
    return this.regionsOf[this.cellOf[top * this.nLefts + left]];
  }

  // Those of them that the promise rests on: of detection, the first.
  relied(top, left) {
    return DETECTION ? this.touched(top, left).slice(0, 1) : this.touched(top, left);
  }

  holds(mask) {
    return DETECTION ? this.planes[0][mask] === this.label : this.rows[mask].size === 0;
  }

  // The label alone where a covering mask has a row of nothing else; every label elsewhere. Of detection: the label under
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

  // The second masks under which the label is another, the mask alone first.
  dissenters(mask) {
    const seconds = [...this.rows[mask].keys()].filter((second) => this.under(mask, second) >= 0);
    return seconds.sort((a, b) => (b === mask) - (a === mask) || a - b);
  }

  row(mask) {
    const dissent = this.dissenters(mask).map((second) => {
      return { second: this.corner(second), label: this.under(mask, second) };
    });
    const nUnseen = this.rows[mask].size - dissent.length;
    return { mask: this.corner(mask), alone: this.under(mask, mask), nSeconds: this.nAblations, dissent, nUnseen };
  }

  corner(mask) {
    return this.boxes[mask].slice(0, 2);
  }

  tell(top, left) {
    const [covering, proving] = [this.touched(top, left), this.proving[this.cellOf[top * this.nLefts + left]]];
    const cover = `${covering.length} of ${this.nAblations} masks cover the patch`;
    const remark = `${cover}; under ${proving} of them no second mask changes the label`;
    return { tallies: [], nTouched: 0, nAblations: 0, remark, rows: covering.map((mask) => this.row(mask)) };
  }
}

ROOMS.pairs = {
  async load(defender, { number, place, patch }, label) {
    const { at, boxes } = defender;
    const names = ["differs", "others", "ends"].map((name) => `${name}${at}.${number}`);
    const [[bits, others, ends], covering] = await Promise.all([
      Promise.all(names.map(block)),
      regionsOf(defender, patch, patch[0] * patch[1]),
    ]);
    const nBytes = Math.ceil((boxes.length * (boxes.length + 1)) / 16);
    const mine = others.subarray(ends[place - 1] ?? 0, ends[place]);
    const rows = rowsOf(bits.subarray(place * nBytes, (place + 1) * nBytes), mine, boxes.length);
    return new MaskedRows(rows, label, defender, covering, WIDTH - patch[1] + 1);
  },

  lay() {},

  fill(card, told, member, explorer) {
    card.querySelector(".remark").textContent = `${told.remark}.`;
    ROOMS.reach.fill(card, told);
    const masks = card.querySelector(".masks");
    masks.setAttribute("aria-label", `Masks of ${told.name}: ${told.remark}`);
    drawBallots(masks, member, explorer.at, explorer.colours, explorer.isolated);
    if (!DETECTION) fillRows(card, told, member, explorer);
  },
};
