// The picture of a plan: live bytes over the ops of a step, one panel for each engine, on one scale.

import { ask, byteTicks, h, hideTip, number, redraw, s, showTip, size, start, t, write } from "./lib.js";

const HEIGHT = 330;
const TOP = 26;
const BOTTOM = 62;
const LEFT = 62;
const RIGHT = 14;
const GAP = 5; // between phases
const NARROWEST = 78; // so that its label fits below it
const REST = 90; // ms until tensors are requested

/** A picture that `show` redraws. `request` returns the planner's state for requests. */
export function picture(request) {
  const panels = ["torch", "fitgpt"].map((engine) => panel(engine, request));
  const root = h("div", { class: "panels" }, panels.map((it) => it.element));
  let answer = null;
  const draw = () => {
    if (!answer) return;
    const highest = scaleOf(answer.engines);
    for (const engine of answer.engines) panels.find((it) => it.name === engine.engine).draw(engine, highest, answer.ghost?.[engine.engine]);
  };
  // After the first picture widths are read here only, when nothing has changed since the last
  // layout: to read one between two changes is a layout more.
  const observer = new ResizeObserver(() => {
    if (panels.map((it) => it.measure()).includes(true)) draw();
  });
  observer.observe(root);
  return {
    element: root,
    show(next) {
      if (!answer) panels.forEach((it) => it.measure()); // the first picture waits for no frame
      answer = next;
      draw();
    },
    choose(engine) {
      for (const it of panels) it.element.classList.toggle("chosen", it.name === engine);
    },
    end() {
      observer.disconnect();
      hideTip();
    },
  };
}

/** The top of the axis: every peak with its overhead, and the budget unless it is far above. */
function scaleOf(engines) {
  const drawn = engines.filter((engine) => engine.phases);
  const peak = Math.max(1, ...drawn.map((engine) => engine.needed_bytes));
  const budget = Math.max(0, ...drawn.map((engine) => engine.usable_bytes));
  const highest = peak * 8 < budget ? peak : Math.max(peak, budget);
  return highest * 1.12;
}

/** The bytes of a class at a column. One number stands for all columns. */
function bytesAt(phase, index, column) {
  const own = phase.bytes[index];
  return typeof own === "number" ? own : own[column];
}

function total(phase, column) {
  let sum = 0;
  for (let index = 0; index < phase.bytes.length; index++) sum += bytesAt(phase, index, column);
  return sum;
}

function panel(name, request) {
  const title = h("h3", {}, name === "torch" ? "PyTorch" : "FitGPT");
  const mark = h("p", { class: "mark" });
  const svg = s("svg", { class: "plot", height: HEIGHT, role: "img", tabindex: 0 });
  const message = h("p", { class: "sentence" });
  const more = h("p", { class: "soft small" });
  const element = h("section", { class: "panel", data: { engine: name } }, h("div", { class: "panelhead" }, title, mark), svg, message, more);
  let places = [];
  let engine = null;
  let chosen = null; // phase and column
  let timer = 0;
  let asking = null;
  const cursor = s("g", { visibility: "hidden", class: "cursor" }, s("line", { x1: 0, x2: 0, y1: TOP, y2: HEIGHT - BOTTOM }));
  const content = s("g");
  svg.append(content, cursor);
  let width = 0;

  const hide = () => {
    clearTimeout(timer);
    asking?.abort();
    chosen = null;
    cursor.setAttribute("visibility", "hidden");
    hideTip();
  };

  const point = (phase, column, clientX, clientY) => {
    const place = places[phase];
    if (!place) return;
    const key = `${phase}:${column}`;
    const x = place.x + ((column + 0.5) * place.width) / place.phase.at.length;
    cursor.setAttribute("visibility", "visible");
    cursor.setAttribute("transform", `translate(${x} 0)`);
    if (chosen?.key !== key) {
      clearTimeout(timer);
      asking?.abort();
      chosen = { key, phase, column, tensors: null };
      timer = setTimeout(() => tensors(key, place.phase, column, clientX, clientY), REST);
    }
    showTip(clientX, clientY, tipOf(place.phase, column, chosen.tensors));
  };

  const tensors = async (key, phase, column, x, y) => {
    asking = new AbortController();
    try {
      const answer = await ask("/api/alive", { ...request(), engine: name, phase: phase.name, op: phase.at[column] }, asking.signal);
      if (chosen?.key !== key) return;
      chosen.tensors = answer;
      showTip(x, y, tipOf(phase, column, answer));
    } catch {
      // The classes are shown already.
    }
  };

  svg.addEventListener("pointermove", (event) => {
    const { left } = svg.getBoundingClientRect();
    const x = event.clientX - left;
    const index = places.findIndex((place) => x >= place.x && x <= place.x + place.width);
    if (index < 0) return hide();
    const place = places[index];
    const columns = place.phase.at.length;
    point(index, Math.min(columns - 1, Math.floor(((x - place.x) / place.width) * columns)), event.clientX, event.clientY);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (event.key === "Escape") return hide();
    if (!step || places.length === 0) return;
    event.preventDefault();
    let { phase, column } = chosen ?? peakOf(engine) ?? { phase: 0, column: 0 };
    if (chosen) {
      // An op may have several columns; a key shows another one.
      const { at } = places[phase].phase;
      const op = at[column];
      do column += step; while (at[column] === op);
    }
    while (column < 0 && phase > 0) column += places[--phase].phase.at.length;
    while (column >= places[phase].phase.at.length && phase + 1 < places.length) column -= places[phase++].phase.at.length;
    column = Math.max(0, Math.min(column, places[phase].phase.at.length - 1));
    const { left, top } = svg.getBoundingClientRect();
    const place = places[phase];
    point(phase, column, left + place.x + ((column + 0.5) * place.width) / place.phase.at.length, top + HEIGHT / 2);
  });

  return {
    name,
    element,
    /** Reads the width; whether it is another one. */
    measure() {
      const before = width;
      width = Math.max(240, svg.clientWidth);
      return width !== before;
    },
    draw(next, highest, ghost) {
      engine = next;
      if (next.name) write(title, next.name);
      element.dataset.verdict = next.failure ? "none" : next.verdict;
      if (next.failure) {
        places = [];
        content.replaceChildren();
        write(mark, "");
        write(message, next.failure.message);
        write(more, (next.failure.hints ?? []).join(" "));
        return;
      }
      write(mark, next.mark);
      write(message, next.sentence);
      const lines = [next.total, next.time?.split("\n")[0], next.ranks, next.note].filter(Boolean);
      write(more, lines.map((line) => line.replaceAll("\n", " ")).join("\n"));
      const drawn = plot(next, width, highest, ghost);
      places = drawn.places;
      if (svg.getAttribute("viewBox") !== drawn.box) svg.setAttribute("viewBox", drawn.box);
      svg.setAttribute("aria-label", `${title.textContent}: ${next.sentence} ${t("picture_keys")}`);
      redraw(content, drawn.elements);
    },
  };
}

/** The column with the peak. */
function peakOf(engine) {
  let best = null;
  engine?.phases?.forEach((phase, index) => phase.at.forEach((_, column) => {
    const sum = total(phase, column);
    if (!best || sum > best.sum) best = { phase: index, column, sum };
  }));
  return best;
}

function layout(phases, width) {
  const free = width - LEFT - RIGHT - GAP * (phases.length - 1);
  const ops = phases.reduce((sum, phase) => sum + phase.ops, 0);
  const share = phases.map((phase) => (free * phase.ops) / Math.max(1, ops));
  const narrowest = Math.min(NARROWEST, free / phases.length);
  const lacking = share.reduce((sum, own) => sum + Math.max(0, narrowest - own), 0);
  const spare = share.reduce((sum, own) => sum + Math.max(0, own - narrowest), 0);
  let x = LEFT;
  return phases.map((phase, index) => {
    const own = share[index] < narrowest ? narrowest : share[index] - (lacking * (share[index] - narrowest)) / Math.max(1, spare);
    const place = { phase, x, width: own };
    x += own + GAP;
    return place;
  });
}

/** Elements as `redraw` takes them. */
function plot(engine, width, highest, ghost) {
  const bottom = HEIGHT - BOTTOM;
  const y = (bytes) => pixels(bottom - ((bottom - TOP) * Math.min(bytes, highest)) / highest);
  const places = layout(engine.phases, width);
  const end = width - RIGHT;
  const peak = engine.needed_bytes - engine.overhead_bytes[1];
  const elements = [];
  const across = (bytes, cls) => elements.push(["line", { x1: LEFT, x2: end, y1: y(bytes), y2: y(bytes), class: cls }]);
  const text = (x, y, cls, content) => elements.push(["text", { x: pixels(x), y: pixels(y), class: cls }, content]);
  for (const place of places) {
    elements.push(["rect", { x: pixels(place.x), y: TOP, width: pixels(place.width), height: bottom - TOP, class: "ground" }]);
  }
  for (const [bytes, label] of byteTicks(highest, 6)) {
    across(bytes, "grid");
    text(LEFT - 8, y(bytes) + 4, "tick end", label);
  }
  for (const place of places) {
    elements.push(...areas(place, y));
    const middle = place.x + place.width / 2;
    text(middle, bottom + 17, "middle phase", place.phase.label);
    text(middle, bottom + 34, "middle phase", `≤ ${size(place.phase.peak_bytes, peak)}`);
    text(middle, bottom + 50, "middle tick", place.width > 70 ? t("ops", { n: number(place.phase.ops) }) : number(place.phase.ops));
  }

  // The overhead is drawn on top of the peak.
  const [low, high] = engine.overhead_bytes;
  if (high > 0) {
    elements.push(["rect", { x: LEFT, width: end - LEFT, y: y(peak + high), height: Math.max(1, pixels(y(peak + low) - y(peak + high))), class: "overhead" }]);
  }
  across(peak, "peak");
  if (ghost && Math.abs(ghost - peak) > highest / 200) {
    across(ghost, "ghost");
    text(end - 4, y(ghost) - 5, "tick end", `${t("before")} ${size(ghost)}`);
  }
  const usable = engine.usable_bytes;
  if (usable <= highest) across(usable, "budget");
  text(LEFT + 6, usable <= highest ? y(usable) - 6 : TOP - 8, "budgettext", `${engine.device} · ${size(usable)}${usable <= highest ? "" : " ↑"}`);
  text(end - 4, y(peak) + (y(peak) > bottom - 30 ? -6 : 15), "peaktext end", `${t("peak")} ${size(peak)}`);
  return { places, elements, box: `0 0 ${width} ${HEIGHT}` };
}

/** A length to a hundredth of a pixel. */
function pixels(length) {
  return Math.round(length * 100) / 100;
}

/** Stacked areas, one path for each class. Columns are steps: an op has its bytes, not a slope. */
function areas(place, y) {
  const { phase } = place;
  const columns = phase.at.length;
  if (columns === 0) return [];
  const edges = Array.from({ length: columns + 1 }, (_, column) => pixels(place.x + (column * place.width) / columns));
  let below = new Float64Array(columns);
  let lower = new Array(columns).fill(y(0));
  const paths = [];
  start.classes.forEach((of, index) => {
    if (phase.bytes[index] === 0) return;
    const top = below.map((bytes, column) => bytes + bytesAt(phase, index, column));
    const upper = Array.from(top, y);
    paths.push(["path", { d: `M${edges[0]} ${upper[0]}${forward(upper, edges)}${backward(lower, edges)}Z`, fill: of.colour, "data-class": of.id }]);
    below = top;
    lower = upper;
  });
  return paths;
}

/** Steps from the left edge of the first column to the right edge of the last one. */
function forward(heights, edges) {
  let d = "";
  for (let column = 1; column < heights.length; column++) {
    if (heights[column] !== heights[column - 1]) d += `H${edges[column]}V${heights[column]}`;
  }
  return `${d}H${edges[heights.length]}`;
}

/** And back. */
function backward(heights, edges) {
  const last = heights.length - 1;
  let d = `V${heights[last]}`;
  for (let column = last; column > 0; column--) {
    if (heights[column] !== heights[column - 1]) d += `H${edges[column]}V${heights[column - 1]}`;
  }
  return `${d}H${edges[0]}`;
}

function tipOf(phase, column, alive) {
  const sum = total(phase, column);
  const rows = start.classes.map((of, index) => [of, bytesAt(phase, index, column)]).filter(([, own]) => own > 0).reverse();
  const list = rows.map(([of, own]) => h("tr", {}, h("td", {}, swatch(of)), h("td", {}, of.name), h("td", { class: "figure" }, size(own, sum))));
  const lines = (alive?.tensors ?? []).map((tensor) => h("tr", {},
    h("td", {}, swatch(start.classes.find((of) => of.id === tensor.class))),
    h("td", {}, h("code", {}, tensor.name), tensor.count > 1 ? ` × ${number(tensor.count)}` : null),
    h("td", { class: "figure" }, size(tensor.bytes, sum))));
  if (alive?.rest_bytes > 0) lines.push(h("tr", {}, h("td"), h("td", {}, t("others")), h("td", { class: "figure" }, size(alive.rest_bytes, sum))));
  return [
    h("p", {}, h("code", {}, phase.names[phase.op[column]]), ` · ${phase.label} · ${number(phase.at[column])}`),
    h("p", { class: "strong" }, size(sum)),
    h("table", {}, list),
    lines.length ? h("p", { class: "soft small" }, t("alive")) : null,
    lines.length ? h("table", {}, lines) : null,
  ].filter(Boolean);
}

/** A small square in a class's colour. */
export function swatch(of) {
  return s("svg", { class: "swatch", width: 11, height: 11, "aria-hidden": "true" }, s("rect", { width: 11, height: 11, rx: 2, fill: of?.colour ?? "#888" }));
}

/** The classes with their colours. */
export function legend() {
  const items = start.classes.map((of) => h("li", {}, swatch(of), of.name));
  return h("ul", { class: "legend" }, items, h("li", {}, s("svg", { class: "swatch", width: 11, height: 11, "aria-hidden": "true" }, s("rect", { width: 11, height: 11, class: "overhead" })), t("overhead")));
}
