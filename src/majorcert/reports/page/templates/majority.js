// The exact arithmetic of an ensemble: it mirrors majorcert's core/reach.py and core/majority.py, and is tested to give the
// same numbers. A reach is {listed, members, below}: a label is in it if listed as a member, or unlisted and under `below`.

// One integer by which labels are compared: more votes first, then the smaller label.
function standing(nVotes, label) {
  return nVotes * N_CLASSES + (N_CLASSES - 1 - label);
}

function smallestMissing(labels) {
  const present = new Set(labels);
  let label = 0;
  while (present.has(label)) label++;
  return label;
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

// Under the promise of detection a reach holds what a defender says without all that the patch could touch.
const DETECTION = manifest.promise === "detection";

// With a slack, which is of one defender: what it says if some label is given so many votes or points more.
const SLACK = manifest.slack;

// An ensemble on one image with one patch: `members` come from the rooms of their kinds, `labels` are what each says unattacked.
class Ensemble {
  constructor(members, labels, nTops, nLefts) {
    Object.assign(this, { members, labels, nTops, nLefts });
    const votes = new Map();
    for (const label of labels) votes.set(label, (votes.get(label) ?? 0) + 1);
    this.clean = labels.reduce((a, b) => (standing(votes.get(b), b) > standing(votes.get(a), a) ? b : a));
    const listed = new Set([...labels, ...members.flatMap((each) => each.listed)]);
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
    const alert = DETECTION && !(SLACK ? has(reaches[0], this.clean) : safe);
    return { safe, alert, rival, nClean, nRival, reaches };
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
      this.alert = false;
      for (let top = 0; top < this.nTops; top++)
        for (let left = 0; left < this.nLefts; left++) {
          const { safe, alert } = this.judge(top, left);
          this.map[top * this.nLefts + left] = safe ? 0 : 1;
          this.alert ||= alert;
        }
    }
    return this.map;
  }

  // Is there an alert, from any placement?
  alerts() {
    this.unsafe();
    return this.alert;
  }
}
