// A chart of several runs over their steps: lines with their spread, points with errors, zoom.

import { figure, h, hideTip, niceStep, number, redraw, s, showTip, t } from "./lib.js";

const LEFT = 58;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 24;
const COLOURS = 7;
const DOT = 5; // half the width of an evaluation: the first one is not cut in two
const MAX_CIRCLES = 100; // of one run's evaluations

let charts = 0; // that there have been: each has its own name for its frame

/** The class of a run's colour; a dash tells apart those that share one. */
export function colourOf(index) {
  return index < COLOURS ? `c${index}` : `c${index % COLOURS} dashed`;
}

/** A chart. `zoom(from, to)` is called with steps, or with nothing to see all. */
export function chart({ title, height, large, zoom }) {
  // What smoothing changes is a layer between two that it does not change.
  const below = s("g");
  const curves = s("g", { class: "curves" });
  const above = s("g");
  const cursor = s("g", { class: "cursor", visibility: "hidden" }, s("line", { x1: 0, x2: 0, y1: TOP, y2: height - BOTTOM }));
  const select = s("rect", { class: "select", y: TOP, height: height - BOTTOM - TOP, width: 0 });
  const clip = `frame-${(charts += 1)}`;
  const frame = s("rect", { x: LEFT - DOT, y: TOP - 4, width: 0, height: height - BOTTOM - TOP + 8 });
  const inside = (group) => s("g", { "clip-path": `url(#${clip})` }, group);
  const grid = s("g");
  const svg = s("svg", { height, role: "img", tabindex: 0 }, s("clipPath", { id: clip }, frame), grid, inside(below), inside(curves), inside(above), cursor, select);
  const element = h("section", { class: large ? "chart large" : "chart" }, h("h3", {}, title), svg);
  let shown = null;
  let scale = null;
  let width = 0;
  let from = null; // where a drag began

  const local = (event) => event.clientX - svg.getBoundingClientRect().left;
  svg.addEventListener("pointerdown", (event) => {
    if (!scale || event.button !== 0) return;
    from = local(event);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    if (!scale) return;
    const x = local(event);
    if (from !== null) {
      const [a, b] = [from, x].sort((one, two) => one - two);
      select.setAttribute("x", a);
      select.setAttribute("width", b - a);
      return;
    }
    const step = scale.step(x);
    cursor.setAttribute("visibility", "visible");
    cursor.setAttribute("transform", `translate(${x} 0)`);
    const rows = shown.lines.map((line) => {
      const index = nearest(line.x, step);
      return index === null ? null : h("tr", {}, h("td", {}, h("span", { class: `key ${line.colour}` })), h("td", {}, line.name), h("td", { class: "figure" }, figure(line.y[index])));
    });
    const dots = shown.dots.map((dot) => {
      const index = nearest(dot.x, step);
      if (index === null || Math.abs(dot.x[index] - step) > scale.span / 60) return null;
      const error = dot.error?.[index];
      return h("tr", {}, h("td", {}, h("span", { class: `key ${dot.colour}` })), h("td", {}, dot.name), h("td", { class: "figure" }, figure(dot.y[index]), error ? ` ± ${figure(error, 2)}` : null));
    });
    showTip(event.clientX, event.clientY, [h("p", {}, `${t("step")} ${number(Math.round(step))}`), h("table", {}, [...rows, ...dots].filter(Boolean))]);
  });
  svg.addEventListener("pointerup", (event) => {
    if (from === null || !scale) return;
    const [a, b] = [from, local(event)].sort((one, two) => one - two);
    from = null;
    select.setAttribute("width", 0);
    if (b - a > 6) zoom(scale.step(a), scale.step(b));
  });
  svg.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    hideTip();
  });
  svg.addEventListener("dblclick", () => zoom());
  svg.addEventListener("keydown", (event) => {
    if (!scale) return;
    const middle = (scale.low + scale.high) / 2;
    const moves = { "+": [middle - scale.span / 4, middle + scale.span / 4], "-": [middle - scale.span, middle + scale.span],
      ArrowLeft: [scale.low - scale.span / 5, scale.high - scale.span / 5], ArrowRight: [scale.low + scale.span / 5, scale.high + scale.span / 5] };
    if (event.key === "Escape" || event.key === "0") zoom();
    else if (moves[event.key]) zoom(...moves[event.key].map((step) => Math.max(0, step)));
    else return;
    event.preventDefault();
  });

  const draw = (before) => {
    if (!shown || !width) return;
    if (!before || !scale || !isSameButForSmoothing(before, shown)) {
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      scale = scaleOf(shown, width, height);
      element.hidden = scale === null;
      if (!scale) return;
      frame.setAttribute("width", scale.end - LEFT + 2 * DOT);
      redraw(grid, axes(scale, height));
      redraw(below, shown.lines.filter((line) => line.low && line.high).map((line) => ["path", { class: `band ${line.colour}`, d: band(line, scale) }]));
      redraw(above, shown.dots.flatMap((dot) => evaluations(dot, scale)));
      before = null;
    }
    svg.setAttribute("aria-label", label(title, shown));
    if (before && before.lines.every((line, index) => line.y === shown.lines[index].y)) return;
    redraw(curves, shown.lines.map((line) => ["path", { class: `line ${line.colour}`, d: path(line, scale) }]));
  };
  return {
    element,
    /** `lines` ({name, colour, x, y, raw, low, high}), `dots` ({…, error}), `range` of steps, `isLog`. */
    show(next) {
      const before = shown;
      shown = next;
      draw(before);
    },
    /** Reads the width, and draws if it is another one. */
    resize() {
      const own = Math.max(200, svg.clientWidth || width);
      if (own === width) return;
      width = own;
      draw();
    },
  };
}

/** Whether nothing differs but the smoothed values. */
function isSameButForSmoothing(a, b) {
  const isSame = (one, two) => one.length === two.length
    && one.every((it, index) => Object.keys(it).every((name) => name === "y" || it[name] === two[index][name]));
  return a.range === b.range && a.isLog === b.isLog && isSame(a.lines, b.lines) && isSame(a.dots, b.dots);
}

function label(title, shown) {
  const last = (line) => line.y.findLast((value) => value !== null);
  return `${title}: ${shown.lines.map((line) => `${line.name} ${figure(last(line))}`).join(", ")}`;
}

/** The index of the value nearest to `step`; values ascend. */
function nearest(values, step) {
  if (values.length === 0) return null;
  let low = 0;
  let high = values.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < step) low = middle + 1;
    else high = middle;
  }
  if (low > 0 && step - values[low - 1] < values[low] - step) low -= 1;
  return low;
}

function extent(lists, isLog) {
  let low = Infinity;
  let high = -Infinity;
  for (const list of lists) {
    for (const value of list ?? []) {
      if (value === null || !Number.isFinite(value) || (isLog && value <= 0)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : null;
}

/** The range of most values: the first loss or a spike must not flatten the rest. */
function trimmedExtent(lists, isLog) {
  const all = lists.flatMap((list) => (list ?? []).filter((value) => value !== null && Number.isFinite(value) && !(isLog && value <= 0)));
  if (all.length < 50) return extent(lists, isLog);
  all.sort((a, b) => a - b);
  const at = (share) => all[Math.min(all.length - 1, Math.floor(share * all.length))];
  const [low, high] = [all[0], all[all.length - 1]];
  const cut = at(0.99);
  // Only if the last hundredth is far off.
  return [low, high - cut > 3 * (cut - low) ? cut + 0.2 * (cut - low) : high];
}

/** Where steps and values are; `null` without any. Smoothing does not move the axes. */
function scaleOf({ lines, dots, range, isLog }, width, height) {
  const steps = extent([...lines.map((line) => line.x), ...dots.map((dot) => dot.x)], false);
  const values = trimmedExtent([...lines.map((line) => line.raw), ...dots.map((dot) => dot.y)], isLog);
  if (!steps || !values) return null;
  const [low, high] = [range?.[0] ?? steps[0], Math.max((range?.[0] ?? steps[0]) + 1, range?.[1] ?? steps[1])];
  const span = high - low;
  const f = isLog ? Math.log10 : (value) => value;
  let [bottomValue, topValue] = values.map(f);
  const margin = (topValue - bottomValue) * 0.06 || Math.abs(topValue) * 0.05 || 1;
  bottomValue -= margin;
  topValue += margin;
  const bottom = height - BOTTOM;
  const end = width - RIGHT;
  return {
    low, high, span, end, isLog, bottomValue, topValue,
    x: (step) => tenth(LEFT + ((end - LEFT) * (step - low)) / span),
    y: (value) => tenth(bottom - ((bottom - TOP) * (f(value) - bottomValue)) / (topValue - bottomValue)),
    step: (at) => low + (span * (Math.max(LEFT, Math.min(at, end)) - LEFT)) / (end - LEFT),
    isShown: (value) => value !== null && value !== undefined && Number.isFinite(value) && !(isLog && value <= 0),
  };
}

/** A length to a tenth of a pixel. */
function tenth(length) {
  return Math.round(length * 10) / 10;
}

function axes({ low, high, span, end, isLog, bottomValue, topValue, x, y }, height) {
  const elements = [];
  const values = ticks(bottomValue, topValue, isLog);
  for (const value of values) {
    elements.push(["line", { x1: LEFT, x2: end, y1: y(value), y2: y(value), class: "grid" }]);
    elements.push(["text", { x: LEFT - 7, y: y(value) + 4, class: "end" }, tickLabel(value, values)]);
  }
  const stride = Math.max(1, niceStep(span / Math.max(3, Math.floor((end - LEFT) / 90))));
  for (let step = Math.ceil(low / stride) * stride; step <= high; step += stride) {
    elements.push(["text", { x: x(step), y: height - 7, class: "middle" }, number(step)]);
  }
  return elements;
}

/** The evaluations of one run: points, and what their standard errors reach. */
function evaluations(dot, { low, high, isLog, x, y, isShown }) {
  let errors = "";
  const points = [];
  dot.x.forEach((step, index) => {
    const value = dot.y[index];
    if (!isShown(value) || step < low || step > high) return;
    const error = dot.error?.[index];
    const lower = isLog ? Math.max(value - error, value / 100) : value - error;
    if (error > 0) errors += `M${x(step)} ${y(lower)}V${y(value + error)}`;
    points.push([x(step), y(value)]);
  });
  const style = `${dot.colour} ${dot.hollow ? "hollow" : ""}`;
  const bars = errors ? [["path", { class: `error ${dot.colour}`, d: errors }]] : [];
  // Thousands of elements would make every frame slow: one path with round ends instead.
  if (points.length > MAX_CIRCLES) return [...bars, ["path", { class: `dots ${style}`, d: points.map(([px, py]) => `M${px} ${py}h0`).join("") }]];
  return [...bars, ...points.map(([cx, cy]) => ["circle", { cx, cy, r: 3.6, class: `dot ${style}` }])];
}

/** A tick's value, with as many digits as tell it from its neighbours. */
function tickLabel(value, values) {
  const digits = [3, 4, 5, 6].find((count) => new Set(values.map((other) => figure(other, count))).size === values.length);
  return figure(value, digits ?? 6);
}

function ticks(low, high, isLog) {
  if (isLog && high - low > 1.2) {
    const found = [];
    for (let power = Math.ceil(low); power <= high; power++) found.push(10 ** power);
    return found;
  }
  const [from, to] = isLog ? [10 ** low, 10 ** high] : [low, high];
  const step = niceStep((to - from) / 5);
  const found = [];
  for (let value = Math.ceil(from / step) * step; value <= to; value += step) found.push(Number(value.toPrecision(12)));
  return found;
}

function path(line, { x, y, isShown }) {
  let d = "";
  let isDown = false;
  for (let index = 0; index < line.x.length; index++) {
    const value = line.y[index];
    if (isShown(value)) d += `${isDown ? "L" : "M"}${x(line.x[index])} ${y(value)}`;
    isDown = isShown(value);
  }
  return d;
}

function band(line, { x, y, isShown }) {
  const upper = [];
  const lower = [];
  line.x.forEach((step, index) => {
    if (!isShown(line.high[index]) || !isShown(line.low[index])) return;
    upper.push(`${x(step)} ${y(line.high[index])}`);
    lower.push(`${x(step)} ${y(line.low[index])}`);
  });
  return upper.length ? `M${upper.join("L")}L${lower.reverse().join("L")}Z` : "";
}

/** An exponential mean with bias correction; `weight` from 0 (none) to nearly 1. */
export function smoothed(values, weight) {
  if (!(weight > 0)) return values;
  let mean = 0;
  let seen = 0;
  return values.map((value) => {
    if (value === null || !Number.isFinite(value)) return value;
    mean = weight * mean + (1 - weight) * value;
    seen = weight * seen + (1 - weight);
    return mean / seen;
  });
}

