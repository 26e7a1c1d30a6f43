// The embedded blocks: base64, then deflate, then typed arrays; unpacked when first asked for.

const manifest = JSON.parse(document.getElementById("manifest").textContent);
const [HEIGHT, WIDTH] = manifest.imageSize;
const CLASS_NAMES = manifest.classNames;
const N_CLASSES = CLASS_NAMES.length;

const TYPES = { int8: Int8Array, int16: Int16Array, int32: Int32Array, uint8: Uint8Array };
const BLOCKS_KEPT = 48;
const unpacked = new Map();

function bytesOf(name) {
  const text = atob(document.getElementById("block " + name).textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function unpack(name) {
  const type = manifest.blocks[name];
  const bytes = new Blob([bytesOf(name)], { type });
  if (type.startsWith("image/")) return createImageBitmap(bytes);
  const stream = bytes.stream().pipeThrough(new DecompressionStream("deflate"));
  return new TYPES[type](await new Response(stream).arrayBuffer());
}

// A promise of the block; the least recently used ones are forgotten.
function block(name) {
  const found = unpacked.get(name) ?? unpack(name);
  unpacked.delete(name);
  unpacked.set(name, found);
  if (unpacked.size > BLOCKS_KEPT) unpacked.delete(unpacked.keys().next().value);
  return found;
}

// One row for each fact of the images: facts.predicted[position], facts["unsafe 5x5"][position], ...
let factsLoaded;

function loadFacts() {
  factsLoaded ??= block("facts").then((numbers) => {
    const n = manifest.nShown;
    return Object.fromEntries(manifest.factRows.map((name, row) => [name, numbers.subarray(row * n, (row + 1) * n)]));
  });
  return factsLoaded;
}

// {sheet, x, y} of an image's picture, or null when the page has none of it.
const picturePlaces = manifest.pictures?.places ? new Map(manifest.pictures.places.map((at, i) => [at, i])) : null;

async function pictureOf(position) {
  const place = !manifest.pictures ? undefined : picturePlaces ? picturePlaces.get(position) : position;
  if (place === undefined) return null;
  const { perSheet, columns } = manifest.pictures;
  const within = place % perSheet;
  const sheet = await block("pictures." + Math.floor(place / perSheet));
  return { sheet, x: (within % columns) * WIDTH, y: Math.floor(within / columns) * HEIGHT };
}

function make(tag, properties = {}) {
  return Object.assign(document.createElement(tag), properties);
}

// What the page shows of each kind of evidence, beside its label and its reach: {load, lay, fill}.
const ROOMS = {};
