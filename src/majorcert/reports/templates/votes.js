// The exact arithmetic of the certificate on the embedded integers. It mirrors majorcert's tally.py, reach.py and
// certify/majority.py, and is tested to give the same numbers.

// One integer by which labels are compared: more votes first, then the smaller label.
function standing(nVotes, label) {
  return nVotes * N_CLASSES + (N_CLASSES - 1 - label);
}

// For each position of a patch along one side: the runs that show at least one pixel under it.
function touchedRuns(visible, nPixels, length) {
  const touched = [];
  for (let position = 0; position + length <= nPixels; position++) {
    const runs = [];
    for (let run = 0; run * nPixels < visible.length; run++) {
      const pixels = visible.subarray(run * nPixels + position, run * nPixels + position + length);
      if (pixels.includes(1)) runs.push(run);
    }
    touched.push(runs);
  }
  return touched;
}

function smallestMissing(labels) {
  const present = new Set(labels);
  let label = 0;
  while (present.has(label)) label++;
  return label;
}

// One image of a voting defender. `planes`: the first vote of every ablation, the second, ...; -1 is no vote.
class Votes {
  constructor(planes) {
    this.planes = planes;
    this.counts = new Int32Array(N_CLASSES);
    for (const plane of planes) for (const label of plane) if (label >= 0) this.counts[label]++;
    this.label = 0;
    for (let label = 1; label < N_CLASSES; label++) if (this.counts[label] > this.counts[this.label]) this.label = label;
    this.listed = [];
    for (let label = 0; label < N_CLASSES; label++)
      if (this.counts[label] > 0 || label === this.label) this.listed.push(label);
    this.firstUnlisted = smallestMissing(this.listed);
  }
}

// The votes of one image under a patch at every placement: what is kept, and so what can be reached.
class Tallies {
  constructor(votes, rows, columns, nColumns) {
    Object.assign(this, { votes, rows, columns, nColumns });
    this.slots = new Map(votes.listed.map((label, slot) => [label, slot]));
    this.kept = votes.listed.map((label) => this.keptVotes(label));
  }

  keptVotes(label) {
    const { rows, columns, nColumns } = this;
    const lost = new Int32Array(rows.length * nColumns);
    const nBallots = this.votes.planes[0].length;
    const cast = new Uint8Array(nBallots);
    for (const plane of this.votes.planes) for (let i = 0; i < nBallots; i++) if (plane[i] === label) cast[i] = 1;
    for (let top = 0; top < rows.length; top++)
      for (const row of rows[top])
        for (let j = 0; j < nColumns; j++) lost[top * nColumns + j] += cast[row * nColumns + j];
    const kept = new Int32Array(rows.length * columns.length);
    for (let top = 0; top < rows.length; top++)
      for (let left = 0; left < columns.length; left++) {
        let n = this.votes.counts[label];
        for (const column of columns[left]) n -= lost[top * nColumns + column];
        kept[top * columns.length + left] = n;
      }
    return kept;
  }

  nTouched(top, left) {
    return this.rows[top].length * this.columns[left].length;
  }

  keptAt(label, top, left) {
    const slot = this.slots.get(label);
    return slot === undefined ? 0 : this.kept[slot][top * this.columns.length + left];
  }

  // A label is in reach iff its kept votes and all touched ballots together beat the kept votes of every other label.
  reachAt(top, left) {
    const { listed, firstUnlisted } = this.votes;
    const at = top * this.columns.length + left;
    const gain = N_CLASSES * this.nTouched(top, left);
    const lower = listed.map((label, slot) => standing(this.kept[slot][at], label));
    let best = standing(0, firstUnlisted);
    for (const each of lower) best = Math.max(best, each);
    return {
      listed,
      members: lower.map((each) => each >= best - gain),
      below: Math.min(Math.max(gain + N_CLASSES - best, 0), N_CLASSES),
    };
  }
}

// The recorded reach of one image of any other defender, at every placement of one patch.
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
  }

  reachAt(top, left) {
    const cell = this.rowCell[top] * this.nColumns + this.columnCell[left];
    const members = this.listed.map((_, slot) => {
      const bit = slot * this.nRows * this.nColumns + cell;
      return ((this.members[bit >> 3] >> (7 - (bit & 7))) & 1) === 1;
    });
    return { listed: this.listed, members, below: this.below[cell] };
  }
}

function has(reach, label) {
  const slot = reach.listed.indexOf(label);
  return slot >= 0 ? reach.members[slot] : label < reach.below;
}

function nMembers(reach) {
  let n = reach.below;
  reach.listed.forEach((label, slot) => (n += Number(reach.members[slot]) - Number(label < reach.below)));
  return n;
}

function only(reach, label) {
  return has(reach, label) && nMembers(reach) === 1;
}

// All labels in reach, ascending.
function labelsOf(reach) {
  const labels = [];
  for (let label = 0; label < N_CLASSES; label++) if (has(reach, label)) labels.push(label);
  return labels;
}

// An ensemble on one image with one patch: `members` are Tallies or RecordedReach, `labels` what each says unattacked.
class Ensemble {
  constructor(members, labels, nTops, nLefts) {
    Object.assign(this, { members, labels, nTops, nLefts });
    const votes = new Map();
    for (const label of labels) votes.set(label, (votes.get(label) ?? 0) + 1);
    this.clean = labels.reduce((a, b) => (standing(votes.get(b), b) > standing(votes.get(a), a) ? b : a));
    const listed = new Set([...labels, ...members.flatMap((each) => each.votes?.listed ?? each.listed)]);
    const rest = smallestMissing(listed);
    if (rest < N_CLASSES) listed.add(rest);
    this.rivals = [...listed].filter((label) => label !== this.clean).sort((a, b) => a - b);
  }

  // Theorem 2 at one placement: the clean label beats every rival when it has only the votes that cannot be moved.
  judge(top, left) {
    const reaches = this.members.map((each) => each.reachAt(top, left));
    const nClean = reaches.filter((reach) => only(reach, this.clean)).length;
    let rival = -1;
    let nRival = 0;
    for (const label of this.rivals) {
      const said = reaches.filter((reach) => has(reach, label)).length;
      if (rival < 0 || standing(said, label) > standing(nRival, rival)) [rival, nRival] = [label, said];
    }
    const safe = standing(nClean, this.clean) > standing(nRival, rival);
    return { safe, rival, nClean, nRival, reaches };
  }

  // What each defender is made to say in the worst case.
  forced({ rival, reaches }) {
    return reaches.map((reach) =>
      has(reach, rival) ? rival : (this.rivals.find((label) => has(reach, label)) ?? this.clean),
    );
  }

  // 1 for each placement that is not safe, row after row.
  unsafe() {
    if (!this.map) {
      this.map = new Uint8Array(this.nTops * this.nLefts);
      for (let top = 0; top < this.nTops; top++)
        for (let left = 0; left < this.nLefts; left++)
          this.map[top * this.nLefts + left] = this.judge(top, left).safe ? 0 : 1;
    }
    return this.map;
  }
}
