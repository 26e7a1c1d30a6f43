// What is drawn of an image: its picture with the map, and the small pictures of the gallery.

// The colours of the current theme, as the browser resolves them; asked for once, until the theme changes.
let themeFound = null;

function forgetTheme() {
  themeFound = null;
}

function themeColours() {
  if (themeFound) return themeFound;
  const probe = document.getElementById("probe");
  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const names = ["ink", "surface", "line", "blank", "accent", "unsafe"];
  themeFound = Object.fromEntries(names.map((name) => [name, colour(name)]));
  return themeFound;
}

// A colour for each label: its own if there are few classes, else one in turn to those given, the most important first.
function labelColours(labels) {
  const palette = manifest.palette;
  if (N_CLASSES <= palette.length) return new Map(CLASS_NAMES.map((_, label) => [label, palette[label]]));
  return new Map(labels.slice(0, palette.length).map((label, i) => [label, palette[i]]));
}

function sized(canvas, width, height) {
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, width, height);
  context.globalAlpha = 1;
  return context;
}

function drawPicture(context, picture, scale, colours) {
  context.imageSmoothingEnabled = false;
  if (picture) {
    context.drawImage(picture.sheet, picture.x, picture.y, WIDTH, HEIGHT, 0, 0, WIDTH * scale, HEIGHT * scale);
    return;
  }
  context.fillStyle = colours.blank;
  context.fillRect(0, 0, WIDTH * scale, HEIGHT * scale);
}

// A square at the centre of the patch for each placement that is not safe, hatched so that it does not rest on colour.
function drawMap(context, ensemble, [height, width], scale, colours, opacity, hatched) {
  const map = ensemble.unsafe();
  context.fillStyle = colours.unsafe;
  context.strokeStyle = colours.surface;
  context.lineWidth = Math.max(1, scale / 14);
  context.beginPath();
  for (let at = 0; at < map.length; at++) {
    if (!map[at]) continue;
    const x = ((at % ensemble.nLefts) + (width - 1) / 2) * scale;
    const y = (Math.floor(at / ensemble.nLefts) + (height - 1) / 2) * scale;
    context.globalAlpha = opacity;
    context.fillRect(x, y, scale, scale);
    if (!hatched) continue;
    context.moveTo(x, y + scale);
    context.lineTo(x + scale, y);
  }
  context.globalAlpha = 0.6;
  context.stroke();
  context.globalAlpha = 1;
}

function stageScale() {
  return Math.max(1, Math.floor(720 / Math.max(HEIGHT, WIDTH)));
}

function drawStage(canvas, picture, ensemble, patch, [top, left], showMap, pointed) {
  const scale = stageScale();
  const colours = themeColours();
  const context = sized(canvas, WIDTH * scale, HEIGHT * scale);
  drawPicture(context, picture, scale, colours);
  if (showMap) drawMap(context, ensemble, patch, scale, colours, picture ? 0.55 : 0.8, scale >= 8);
  for (const member of ensemble.members) if (member.boxes) drawMasks(context, member, [top, left], scale, pointed);
  const [height, width] = patch;
  const box = [left * scale, top * scale, width * scale, height * scale];
  const safe = !ensemble.unsafe()[top * ensemble.nLefts + left];
  context.globalAlpha = 0.5;
  context.fillStyle = "#14171a";
  context.fillRect(...box);
  context.globalAlpha = 1;
  for (const [colour, thickness] of [[colours.surface, 9], [safe ? colours.accent : colours.unsafe, 5]]) {
    context.strokeStyle = colour;
    context.lineWidth = thickness;
    context.strokeRect(...box);
  }
}

function drawThumbnail(canvas, picture, ensemble, patch) {
  const scale = Math.max(1, Math.round(96 / Math.max(HEIGHT, WIDTH)));
  const colours = themeColours();
  const context = sized(canvas, WIDTH * scale, HEIGHT * scale);
  drawPicture(context, picture, scale, colours);
  if (ensemble) drawMap(context, ensemble, patch, scale, colours, picture ? 0.4 : 0.8, false);
}
