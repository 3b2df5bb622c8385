// A chart of several runs over their steps: lines with their spread, points with errors, zoom.

import { figure, h, hideTip, niceStep, number, s, showTip, t } from "./lib.js";

const LEFT = 58;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 24;
const COLOURS = 7;
const MAX_CIRCLES = 100; // of one run's evaluations

/** The class of a run's colour; runs that share a colour differ by their dashes. */
export function colourOf(index) {
  return index < COLOURS ? `c${index}` : `c${index % COLOURS} dashed`;
}

/** A chart. `zoom(from, to)` is called with steps, or with nothing to see all. */
export function chart({ title, height, large, zoom }) {
  const svg = s("svg", { height, role: "img", tabindex: 0 });
  const element = h("section", { class: large ? "chart large" : "chart" }, h("h3", {}, title), svg);
  let shown = null;
  let scale = null;
  let from = null; // the start of a drag

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
      scale.select.setAttribute("x", a);
      scale.select.setAttribute("width", b - a);
      return;
    }
    const step = scale.step(x);
    scale.cursor.setAttribute("visibility", "visible");
    scale.cursor.setAttribute("transform", `translate(${x} 0)`);
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
    scale.select.setAttribute("width", 0);
    if (b - a > 6) zoom(scale.step(a), scale.step(b));
  });
  svg.addEventListener("pointerleave", () => {
    scale?.cursor.setAttribute("visibility", "hidden");
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

  const draw = () => {
    if (!shown) return;
    const width = Math.max(200, svg.clientWidth || 200);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("aria-label", label(title, shown));
    scale = plot(svg, shown, width, height);
    element.hidden = scale === null;
  };
  return {
    element,
    /** `lines` ({name, colour, x, y, low, high}), `dots` ({…, error}), `range` of steps, `isLog`. */
    show(next) {
      shown = next;
      draw();
    },
    draw,
  };
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

function plot(svg, { lines, dots, range, isLog }, width, height) {
  const steps = extent([...lines.map((line) => line.x), ...dots.map((dot) => dot.x)], false);
  const values = trimmedExtent([...lines.map((line) => line.y), ...dots.map((dot) => dot.y)], isLog);
  if (!steps || !values) {
    svg.replaceChildren();
    return null;
  }
  const [low, high] = [range?.[0] ?? steps[0], Math.max((range?.[0] ?? steps[0]) + 1, range?.[1] ?? steps[1])];
  const span = high - low;
  const f = isLog ? Math.log10 : (value) => value;
  let [bottomValue, topValue] = values.map(f);
  const margin = (topValue - bottomValue) * 0.06 || Math.abs(topValue) * 0.05 || 1;
  bottomValue -= margin;
  topValue += margin;
  const bottom = height - BOTTOM;
  const end = width - RIGHT;
  const x = (step) => LEFT + ((end - LEFT) * (step - low)) / span;
  const y = (value) => bottom - ((bottom - TOP) * (f(value) - bottomValue)) / (topValue - bottomValue);
  const isShown = (value) => value !== null && value !== undefined && Number.isFinite(value) && !(isLog && value <= 0);
  const elements = [];
  const clip = `clip-${Math.random().toString(36).slice(2)}`;
  elements.push(s("clipPath", { id: clip }, s("rect", { x: LEFT, y: TOP - 4, width: end - LEFT, height: bottom - TOP + 8 })));
  for (const value of ticks(bottomValue, topValue, isLog)) {
    elements.push(s("line", { x1: LEFT, x2: end, y1: y(value), y2: y(value), class: "grid" }));
    elements.push(s("text", { x: LEFT - 7, y: y(value) + 4, class: "end" }, figure(value, 3)));
  }
  const stride = Math.max(1, niceStep(span / Math.max(3, Math.floor((end - LEFT) / 90))));
  for (let step = Math.ceil(low / stride) * stride; step <= high; step += stride) {
    elements.push(s("text", { x: x(step), y: height - 7, class: "middle" }, number(step)));
  }
  const inside = s("g", { "clip-path": `url(#${clip})` });
  for (const line of lines) {
    if (line.low && line.high) inside.append(s("path", { class: `band ${line.colour}`, d: band(line, x, y, isShown) }));
  }
  for (const line of lines) inside.append(s("path", { class: `line ${line.colour}`, d: path(line, x, y, isShown) }));
  for (const dot of dots) {
    let errors = "";
    const points = [];
    dot.x.forEach((step, index) => {
      const value = dot.y[index];
      if (!isShown(value) || step < low || step > high) return;
      const error = dot.error?.[index];
      const lower = isLog ? Math.max(value - error, value / 100) : value - error;
      if (error > 0) errors += `M${x(step).toFixed(1)} ${y(lower).toFixed(1)}V${y(value + error).toFixed(1)}`;
      points.push([x(step).toFixed(1), y(value).toFixed(1)]);
    });
    const style = `${dot.colour} ${dot.hollow ? "hollow" : ""}`;
    if (errors) inside.append(s("path", { class: `error ${dot.colour}`, d: errors }));
    if (points.length > MAX_CIRCLES) {
      // Thousands of elements would make every frame slow: one path with round ends instead.
      inside.append(s("path", { class: `dots ${style}`, d: points.map(([px, py]) => `M${px} ${py}h0`).join("") }));
    } else {
      inside.append(...points.map(([cx, cy]) => s("circle", { cx, cy, r: 3.6, class: `dot ${style}` })));
    }
  }
  const cursor = s("g", { class: "cursor", visibility: "hidden" }, s("line", { x1: 0, x2: 0, y1: TOP, y2: bottom }));
  const select = s("rect", { class: "select", y: TOP, height: bottom - TOP, width: 0 });
  svg.replaceChildren(...elements, inside, cursor, select);
  return { low, high, span, cursor, select, step: (at) => low + (span * (Math.max(LEFT, Math.min(at, end)) - LEFT)) / (end - LEFT) };
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

function path(line, x, y, isShown) {
  let d = "";
  let isDown = false;
  line.x.forEach((step, index) => {
    const value = line.y[index];
    if (!isShown(value)) {
      isDown = false;
      return;
    }
    d += `${isDown ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`;
    isDown = true;
  });
  return d;
}

function band(line, x, y, isShown) {
  const upper = [];
  const lower = [];
  line.x.forEach((step, index) => {
    if (!isShown(line.high[index]) || !isShown(line.low[index])) return;
    upper.push(`${x(step).toFixed(1)} ${y(line.high[index]).toFixed(1)}`);
    lower.push(`${x(step).toFixed(1)} ${y(line.low[index]).toFixed(1)}`);
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

