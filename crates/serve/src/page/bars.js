// Memory bars: the parts of an account or a segment, side by side.

import { h, hideTip, number, s, showTip, size } from "./lib.js";

const WIDTH = 1000;

/** Colours of parts: those of the tensor classes, then greys. */
const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442"];
const GREYS = ["#6b7782", "#98a3ad", "#4a545e", "#b7c0c8", "#7d8a96"];

/** The colour of a part by its index. */
export function partColour(index) {
  return COLOURS[index] ?? GREYS[(index - COLOURS.length) % GREYS.length];
}

/** A bar of `parts` ({name, bytes, colour}) on a scale of `total` bytes, with a line at `limit`. */
export function bar(parts, total, { height = 46, label = "", limit = null } = {}) {
  const svg = s("svg", { class: "bar", viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label });
  svg.append(s("rect", { class: "free", width: WIDTH, height }));
  let x = 0;
  for (const part of parts) {
    const width = (WIDTH * part.bytes) / Math.max(1, total);
    const rect = s("rect", { x: x.toFixed(2), width: Math.max(0, Math.min(width, WIDTH - x)).toFixed(2), height, fill: part.colour, class: part.cls ?? "gap" });
    rect.addEventListener("pointermove", (event) => showTip(event.clientX, event.clientY, [
      h("p", {}, part.name), h("p", { class: "strong" }, `${size(part.bytes)} · ${number((100 * part.bytes) / Math.max(1, total), 1)} %`)]));
    rect.addEventListener("pointerleave", hideTip);
    svg.append(rect);
    x += width;
  }
  if (limit !== null && limit < total) {
    const at = (WIDTH * limit) / total;
    svg.append(s("line", { x1: at, x2: at, y1: 0, y2: height, class: "limit" }));
  }
  return svg;
}

/** The parts with their names and sizes. */
export function key(parts) {
  const largest = Math.max(0, ...parts.map(({ bytes }) => bytes));
  const item = (part) => h("li", {}, s("svg", { class: "swatch", width: 11, height: 11, "aria-hidden": "true" },
    s("rect", { width: 11, height: 11, rx: 2, fill: part.colour, class: part.cls ?? "" })), h("span", {}, part.name), h("span", { class: "figure" }, size(part.bytes, largest)));
  return h("ul", { class: "keyed" }, parts.map(item));
}
