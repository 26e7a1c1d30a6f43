// The rows of the masks that cover the patch, as they are looked at: a grid for each, laid out as the masks lie on the image.

// Where the row of each covering mask is drawn: in tiles of the image's shape, side by side as these masks lie.
function rowTiles(canvas, member, at) {
  const [nRows, nColumns] = member.grid;
  const masks = member.touched(...at);
  const places = [(mask) => Math.floor(mask / nColumns), (mask) => mask % nColumns];
  const [down, across] = places.map((place) => [...new Set(masks.map(place))]);
  const nSide = Math.max(down.length, across.length);
  const gap = nSide > 1 ? 8 : 0;
  const [width, height] = [(canvas.width + gap) / nSide, (canvas.height + gap) / nSide];
  return masks.map((mask) => ({
    mask,
    x: across.indexOf(mask % nColumns) * width,
    y: down.indexOf(Math.floor(mask / nColumns)) * height,
    cellWidth: (width - gap) / nColumns,
    cellHeight: (height - gap) / nRows,
  }));
}

// The box of a second mask in the row of a tile.
function cellOf({ x, y, cellWidth, cellHeight }, nColumns, second) {
  return [x + (second % nColumns) * cellWidth, y + Math.floor(second / nColumns) * cellHeight, cellWidth, cellHeight];
}

function inside([x, y, width, height], atX, atY) {
  return atX >= x && atX < x + width && atY >= y && atY < y + height;
}

// {mask, second} under the pointer, or null.
function pairUnder(canvas, member, at, event) {
  const box = canvas.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * canvas.width;
  const y = ((event.clientY - box.top) / box.height) * canvas.height;
  for (const tile of rowTiles(canvas, member, at))
    for (let second = 0; second < member.nAblations; second++)
      if (inside(cellOf(tile, member.grid[1], second), x, y)) return { mask: tile.mask, second };
  return null;
}

// Every cell in the colour of the label under the covering mask and that second one; struck out where it is another.
function drawRows(canvas, member, { at, colours, isolated, pointed }) {
  const theme = themeColours();
  const context = sized(canvas, 720, Math.round(720 / manifest.ballotsRatio));
  for (const tile of rowTiles(canvas, member, at)) {
    const gap = Math.min(tile.cellWidth, tile.cellHeight) >= 7 ? 1 : 0;
    for (let second = 0; second < member.nAblations; second++) {
      const label = member.under(tile.mask, second);
      const [x, y, width, height] = cellOf(tile, member.grid[1], second);
      const differs = member.rows[tile.mask].has(second);
      const box = [x, y, width - gap, height - gap];
      drawBallot(context, label < 0 ? [] : [label], box, differs, colours, isolated, theme);
      if (differs && label >= 0) strike(context, box);
    }
    frame(context, cellOf(tile, member.grid[1], tile.mask), theme.ink, 2);
    if (pointed?.member === member && pointed.mask === tile.mask)
      for (const [colour, thickness] of [[theme.surface, 9], [theme.ink, 5]])
        frame(context, cellOf(tile, member.grid[1], pointed.second), colour, thickness);
  }
}

// Dark on light and light on dark, so that it is seen on every colour.
function strike(context, [x, y, width, height]) {
  for (const [colour, thickness] of [["#fff", 5], ["#14171a", 12]]) {
    Object.assign(context, { globalAlpha: 1, strokeStyle: colour, lineWidth: Math.max(1, width / thickness) });
    context.beginPath();
    line(context, x, y + height, x + width, y);
    context.stroke();
  }
}

function frame(context, box, colour, thickness, dashes = []) {
  Object.assign(context, { globalAlpha: 1, strokeStyle: colour, lineWidth: thickness });
  context.setLineDash(dashes);
  context.strokeRect(...box);
  context.setLineDash([]);
}

// On the image: the masks that cover the patch; or what is hidden by the two that are pointed at.
function drawMasks(context, member, at, scale, pointed) {
  const theme = themeColours();
  const two = pointed?.member === member ? [pointed.mask, pointed.second] : null;
  for (const mask of two ?? member.relied(...at)) {
    const [top, left, height, width] = member.boxes[mask].map((side) => side * scale);
    const box = [left, top, width, height];
    if (two) {
      Object.assign(context, { globalAlpha: 0.85, fillStyle: theme.blank });
      context.fillRect(...box);
    }
    frame(context, box, theme.surface, 7);
    const holds = two ? member.under(...two) === member.label : member.holds(mask);
    frame(context, box, holds ? theme.accent : theme.unsafe, 4, two ? [] : [14, 8]);
  }
}

// The grids, what is pointed at, and the same in words.
function fillRows(card, told, member, explorer) {
  const canvas = card.querySelector(".rows");
  drawRows(canvas, member, explorer);
  canvas.onpointermove = canvas.onpointerdown = (event) => {
    const pair = pairUnder(canvas, member, explorer.at, event);
    if (pair) explorer.point({ member, ...pair });
  };
  const words = rowSentences(told);
  canvas.setAttribute("aria-label", `Rows of ${told.name}: ${words.join(". ")}`);
  const pairs = member.touched(...explorer.at).flatMap((mask) => member.dissenters(mask).map((second) => ({ mask, second })));
  const here = explorer.pointed?.member === member ? explorer.pointed : null;
  const place = pairs.findIndex(({ mask, second }) => mask === here?.mask && second === here?.second);
  const next = card.querySelector(".next-dissent");
  next.disabled = !pairs.length;
  next.onclick = () => explorer.point({ member, ...pairs[(place + 1) % pairs.length] });
  card.querySelector(".pointed").textContent = here ? isolated(pairSentence(member, here)) : "";
  card.querySelector(".row-list").replaceChildren(...words.map((text) => make("li", { textContent: isolated(text) })));
}

function pairSentence(member, { mask, second }) {
  const label = member.under(mask, second);
  const at = member.corner(mask).join();
  const masks = mask === second ? `the mask at ${at} alone` : `the masks at ${at} and ${member.corner(second).join()}`;
  return label < 0 ? `Nobody looked under ${masks}.` : `Under ${masks}: ${SPOKEN[label]}.`;
}
