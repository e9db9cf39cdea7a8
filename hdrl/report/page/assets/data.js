// Arrays out of the page: base64, gzip, whole numbers, differences undone (hdrl.report.page.schedule does it).
const model = JSON.parse(document.getElementById("model").textContent);
const unpacked = new Map();

async function gunzip(id) {
  const text = document.getElementById(id).textContent;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}

function unpackArray(buffer, place) {
  const kinds = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array };
  const coded = new kinds[place.bytes](buffer, place.at, place.n);
  const values = new Float64Array(place.n);
  let sum = 0;
  for (let i = 0; i < place.n; i++) {
    sum = place.rising ? sum + coded[i] : coded[i];
    values[i] = place.offset + place.scale * sum;
  }
  return values;
}

async function unpack(id, places) {
  if (!unpacked.has(id)) {
    const buffer = await (await gunzip(id)).arrayBuffer();
    const arrays = {};
    for (const [name, place] of Object.entries(places)) arrays[name] = unpackArray(buffer, place);
    unpacked.set(id, arrays);
  }
  return unpacked.get(id);
}

async function unpackTexts(id) {
  if (!unpacked.has(id)) unpacked.set(id, JSON.parse(await (await gunzip(id)).text()));
  return unpacked.get(id);
}

const isDark = matchMedia("(prefers-color-scheme: dark)");
const isTouch = matchMedia("(pointer: coarse)");

function themed(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function numberText(value) {
  if (!isFinite(value)) return "–";
  const size = Math.abs(value);
  const digits = size >= 1000 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 4;
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

function durationText(seconds) {
  for (const [divisor, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= 2 * divisor) return `${numberText(seconds / divisor)} ${unit}`;
  }
  return `${numberText(seconds)} s`;
}
