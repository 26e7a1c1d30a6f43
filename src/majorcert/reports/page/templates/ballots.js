// The room of voting defenders: their ballots, what a patch leaves of them, and so what it can make of them. It mirrors
// majorcert's core/tally.py, and is tested to give the same numbers.

const MOST_TALLIES = 8;
const LEFT = !DETECTION ? "can win" : SLACK ? "may be left" : "is left";

// Which regions hold at least so many pixels of a patch: one, and it touches them; all, and they cover it. Placements with
// the same ones share a cell: {cellOf: its number for each placement, regionsOf: those of each cell}.
function regionsUnder(regions, nRegions, [height, width], least) {
  const [nTops, nLefts, across] = [HEIGHT - height + 1, WIDTH - width + 1, WIDTH + 1];
  const nBytes = Math.ceil((HEIGHT * WIDTH) / 8);
  const lists = Array.from({ length: nTops * nLefts }, () => []);
  const held = new Int32Array((HEIGHT + 1) * across); // pixels of the region above and to the left of each corner
  for (let region = 0; region < nRegions; region++) {
    const bits = regions.subarray(region * nBytes, (region + 1) * nBytes);
    for (let y = 0, pixel = 0; y < HEIGHT; y++)
      for (let x = 0, inRow = 0; x < WIDTH; x++, pixel++) {
        inRow += (bits[pixel >> 3] >> (7 - (pixel & 7))) & 1;
        held[(y + 1) * across + x + 1] = held[y * across + x + 1] + inRow;
      }
    for (let top = 0, at = 0; top < nTops; top++)
      for (let left = 0; left < nLefts; left++, at++) {
        const [above, below] = [top * across + left, (top + height) * across + left];
        if (held[below + width] - held[below] - held[above + width] + held[above] >= least) lists[at].push(region);
      }
  }
  const found = new Map();
  const regionsOf = [];
  const cellOf = lists.map((list) => {
    const key = list.join();
    if (!found.has(key)) found.set(key, regionsOf.push(list) - 1);
    return found.get(key);
  });
  return { cellOf, regionsOf };
}

const regionsCache = new Map();

// The same for the defender at that place, worked out once for each patch.
async function regionsOf({ at, ablations }, patch, least) {
  const [key, regions] = [`${at} ${patch.join("x")}`, await block(`regions${at}`)];
  if (!regionsCache.has(key)) regionsCache.set(key, regionsUnder(regions, ablations, patch, least));
  return regionsCache.get(key);
}

// The ballots of one image: the first vote of every ablation, the second, ...; -1 is no vote.
async function planesOf({ at, votes, ablations }, { number, place, inBlock }) {
  const cast = await block(`votes${at}.${number}`);
  const from = (vote) => (vote * inBlock + place) * ablations;
  return Array.from({ length: votes }, (_, vote) => cast.subarray(from(vote), from(vote) + ablations));
}

// One image of a voting defender under a patch.
class Tallies {
  constructor(planes, grid, touched, nLefts) {
    Object.assign(this, { planes, grid, nLefts, nAblations: planes[0].length, ...touched });
    const counts = new Int32Array(N_CLASSES);
    for (const plane of planes) for (const label of plane) if (label >= 0) counts[label]++;
    const winner = counts.indexOf(Math.max(...counts));
    this.listed = Array.from(counts.keys()).filter((label) => counts[label] > 0 || label === winner);
    this.counts = new Map(this.listed.map((label) => [label, counts[label]]));
    this.slots = [];
    this.listed.forEach((label, slot) => (this.slots[label] = slot));
    this.firstUnlisted = smallestMissing(this.listed);
    this.kept = this.regionsOf.map((ablations) => this.keptVotes(ablations));
  }

  // The votes for each listed label that are left when these ablations are touched.
  keptVotes(ablations) {
    const kept = Int32Array.from(this.counts.values());
    for (const plane of this.planes)
      for (const ablation of ablations) if (plane[ablation] >= 0) kept[this.slots[plane[ablation]]]--;
    return kept;
  }

  touched(top, left) {
    return this.regionsOf[this.cellOf[top * this.nLefts + left]];
  }

  // A label is in reach iff its kept votes and all touched ballots together beat the kept votes of every other label;
  // of detection, iff its kept votes alone do, or with the slack.
  reachAt(top, left) {
    const { listed, firstUnlisted } = this;
    const kept = this.kept[this.cellOf[top * this.nLefts + left]];
    const gain = N_CLASSES * (DETECTION ? SLACK : this.touched(top, left).length);
    const lower = listed.map((label, slot) => standing(kept[slot], label));
    const best = Math.max(standing(0, firstUnlisted), ...lower);
    return {
      listed,
      members: lower.map((each) => each >= best - gain),
      below: Math.min(Math.max(gain + N_CLASSES - best, 0), N_CLASSES),
    };
  }

  // What is told of it beside its label and its reach: votes, kept and at most, the most votes first.
  tell(top, left) {
    const kept = this.kept[this.cellOf[top * this.nLefts + left]];
    const nTouched = this.touched(top, left).length;
    const tallies = this.listed.map((label, slot) => {
      return { label, votes: this.counts.get(label), kept: kept[slot], most: kept[slot] + nTouched };
    });
    const voted = tallies.filter(({ votes }) => votes > 0).sort((a, b) => b.votes - a.votes || a.label - b.label);
    return { tallies: voted, nTouched, nAblations: this.nAblations, remark: "", rows: [] };
  }
}

ROOMS.ballots = {
  async load(defender, where) {
    const [planes, touched] = await Promise.all([planesOf(defender, where), regionsOf(defender, where.patch, 1)]);
    return new Tallies(planes, defender.grid, touched, WIDTH - where.patch[1] + 1);
  },

  // One line for each label with votes; the numbers are filled in by `fill`.
  lay(card, told, colours) {
    const rows = told.tallies.slice(0, MOST_TALLIES).map(({ label }) => {
      const row = make("tr");
      const head = make("th", { scope: "row" });
      const swatch = make("span", { className: "swatch" });
      swatch.style.background = colours.get(label) ?? "var(--line)";
      head.append(swatch, make("bdi", { textContent: CLASS_NAMES[label], title: CLASS_NAMES[label] }));
      const range = make("span", { className: "range" });
      range.append(...["sure", "unsure", "need"].map((className) => make("span", { className })));
      head.append(range);
      row.append(head, ...["kept", "most", "reach"].map((className) => make("td", { className })));
      return row;
    });
    card.querySelector("tbody").replaceChildren(...rows);
  },

  fill(card, told, member, { at, colours, isolated }) {
    const reach = new Set(told.canSay);
    card.querySelector(".touched").textContent = `${told.nTouched} of ${told.nAblations} ablations touched`;
    const rows = card.querySelectorAll("tbody tr");
    const share = (votes) => `${(100 * Math.min(votes, told.nAblations)) / told.nAblations}%`;
    const need = share(Math.max(0, ...told.tallies.map(({ kept }) => kept)));
    told.tallies.slice(0, MOST_TALLIES).forEach(({ label, kept, most }, i) => {
      const row = rows[i];
      row.querySelector(".sure").style.width = share(kept);
      row.querySelector(".unsure").style.width = share(most - kept);
      row.querySelector(".need").style.left = `min(${need}, calc(100% - 2px))`;
      row.querySelector(".kept").textContent = kept;
      row.querySelector(".most").textContent = most;
      row.querySelector(".reach").textContent = reach.has(label) ? LEFT : "";
      row.classList.toggle("in-reach", reach.has(label));
    });
    const listed = told.tallies.slice(0, MOST_TALLIES).filter(({ label }) => reach.has(label)).length;
    const others = told.canSay.length - listed;
    const can = DETECTION ? `without a vote ${LEFT}` : LEFT;
    const none = DETECTION ? "Cells inside the outline are left out." : "No other label can win";
    card.querySelector(".others").textContent = others ? `${others} other label${others > 1 ? "s" : ""} ${can}` : none;
    const canvas = card.querySelector("canvas");
    canvas.setAttribute("aria-label", `Ballots of ${told.name}: ${told.nTouched} of ${told.nAblations} are touched`);
    drawBallots(canvas, member, at, colours, isolated);
  },
};

// The ballots of one defender in the order of its ablations; those that the patch touches are bright and outlined.
function drawBallots(canvas, member, [top, left], colourOf, isolated) {
  const [nRows, nColumns] = member.grid;
  const theme = themeColours();
  const side = 480;
  const context = sized(canvas, side, Math.round(side / manifest.ballotsRatio));
  const [cellWidth, cellHeight] = [canvas.width / nColumns, canvas.height / nRows];
  const gap = Math.min(cellWidth, cellHeight) >= 7 ? 1 : 0;
  const ablations = new Set(member.touched(top, left));
  const touched = (i, j) => j >= 0 && j < nColumns && ablations.has(i * nColumns + j);
  context.strokeStyle = theme.ink;
  context.lineWidth = 3;
  context.beginPath();
  for (let i = 0; i < nRows; i++)
    for (let j = 0; j < nColumns && i * nColumns + j < member.nAblations; j++) {
      const [x, y] = [j * cellWidth, i * cellHeight];
      const labels = member.planes.map((plane) => plane[i * nColumns + j]).filter((label) => label >= 0);
      const lit = touched(i, j);
      drawBallot(context, labels, [x, y, cellWidth - gap, cellHeight - gap], lit, colourOf, isolated, theme);
      if (!lit) continue;
      if (!touched(i - 1, j)) line(context, x, y, x + cellWidth, y);
      if (!touched(i + 1, j)) line(context, x, y + cellHeight, x + cellWidth, y + cellHeight);
      if (!touched(i, j - 1)) line(context, x, y, x, y + cellHeight);
      if (!touched(i, j + 1)) line(context, x + cellWidth, y, x + cellWidth, y + cellHeight);
    }
  context.globalAlpha = 1;
  context.stroke();
}

function line(context, x, y, toX, toY) {
  context.moveTo(x, y);
  context.lineTo(toX, toY);
}

// One ballot: a part of its cell for each label it names; blank when it abstains.
function drawBallot(context, labels, [x, y, width, height], lit, colourOf, isolated, theme) {
  const wide = width >= height;
  const n = Math.max(labels.length, 1);
  for (let part = 0; part < n; part++) {
    const label = labels[part];
    const faint = isolated !== null && isolated !== label;
    context.globalAlpha = label === undefined ? 1 : faint ? 0.08 : lit ? 1 : 0.6;
    context.fillStyle = label === undefined ? theme.blank : (colourOf.get(label) ?? theme.line);
    if (wide) context.fillRect(x + (width / n) * part, y, width / n, height);
    else context.fillRect(x, y + (height / n) * part, width, height / n);
  }
}
