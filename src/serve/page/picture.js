// The picture of a plan: live bytes over the ops of a step, one panel for each engine, on one scale.

import { ask, byteTicks, h, hideTip, s, showTip, size, start, t, fill, number } from "./lib.js";

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
  const root = h("div", { class: "panels" });
  const panels = new Map();
  const panelOf = (engine) => {
    if (!panels.has(engine)) {
      panels.set(engine, panel(engine, request));
      root.append(panels.get(engine).element);
    }
    return panels.get(engine);
  };
  let answer = null;
  const draw = () => {
    if (!answer) return;
    const highest = scaleOf(answer.engines);
    for (const engine of answer.engines) panelOf(engine.engine).draw(engine, highest, answer.ghost?.[engine.engine]);
  };
  const observer = new ResizeObserver(draw);
  observer.observe(root);
  return {
    element: root,
    show(next) {
      answer = next;
      draw();
    },
    choose(engine) {
      for (const [name, panel] of panels) panel.element.classList.toggle("chosen", name === engine);
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

function total(bytes) {
  let sum = 0;
  for (const part of bytes) sum += part;
  return sum;
}

function panel(name, request) {
  const title = h("h3");
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
  let cursor = null;

  const hide = () => {
    clearTimeout(timer);
    asking?.abort();
    chosen = null;
    cursor?.setAttribute("visibility", "hidden");
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
    if (chosen) column += step;
    while (column < 0 && phase > 0) column += places[--phase].phase.at.length;
    while (column >= places[phase].phase.at.length && phase + 1 < places.length) column -= places[phase++].phase.at.length;
    column = Math.max(0, Math.min(column, places[phase].phase.at.length - 1));
    const { left, top } = svg.getBoundingClientRect();
    const place = places[phase];
    point(phase, column, left + place.x + ((column + 0.5) * place.width) / place.phase.at.length, top + HEIGHT / 2);
  });

  return {
    element,
    draw(next, highest, ghost) {
      engine = next;
      title.textContent = next.name ?? (name === "torch" ? "PyTorch" : "FitGPT");
      if (next.failure) {
        places = [];
        svg.replaceChildren();
        mark.textContent = "";
        fill(message, next.failure.message);
        fill(more, (next.failure.hints ?? []).join(" "));
        element.dataset.verdict = "none";
        return;
      }
      element.dataset.verdict = next.verdict;
      mark.textContent = next.mark;
      message.textContent = next.sentence;
      fill(more, next.total, next.time ? h("br") : null, next.time ? next.time.split("\n")[0] : null, next.ranks ? h("br") : null, next.ranks, next.note ? h("br") : null, next.note);
      const width = Math.max(240, svg.clientWidth || svg.getBoundingClientRect().width);
      svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
      svg.setAttribute("aria-label", `${title.textContent}: ${next.sentence} ${t("picture_keys")}`);
      const drawn = plot(next, width, highest, ghost);
      places = drawn.places;
      cursor = drawn.cursor;
      svg.replaceChildren(...drawn.elements);
    },
  };
}

/** The column with the peak. */
function peakOf(engine) {
  let best = null;
  engine?.phases?.forEach((phase, index) => phase.bytes.forEach((bytes, column) => {
    const sum = total(bytes);
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

function plot(engine, width, highest, ghost) {
  const bottom = HEIGHT - BOTTOM;
  const y = (bytes) => bottom - ((bottom - TOP) * Math.min(bytes, highest)) / highest;
  const places = layout(engine.phases, width);
  const end = width - RIGHT;
  const elements = [];
  for (const place of places) {
    elements.push(s("rect", { x: place.x, y: TOP, width: place.width, height: bottom - TOP, class: "ground" }));
  }
  for (const [bytes, label] of byteTicks(highest, 6)) {
    elements.push(s("line", { x1: LEFT, x2: end, y1: y(bytes), y2: y(bytes), class: "grid" }));
    elements.push(s("text", { x: LEFT - 8, y: y(bytes) + 4, class: "tick end" }, label));
  }
  for (const place of places) elements.push(...areas(place, y), ...caption(place, bottom));

  // The overhead is drawn on top of the peak.
  const peak = engine.needed_bytes - engine.overhead_bytes[1];
  const [low, high] = engine.overhead_bytes;
  if (high > 0) {
    elements.push(s("rect", { x: LEFT, width: end - LEFT, y: y(peak + high), height: Math.max(1, y(peak + low) - y(peak + high)), class: "overhead" }));
  }
  elements.push(s("line", { x1: LEFT, x2: end, y1: y(peak), y2: y(peak), class: "peak" }));
  if (ghost && Math.abs(ghost - peak) > highest / 200) {
    elements.push(s("line", { x1: LEFT, x2: end, y1: y(ghost), y2: y(ghost), class: "ghost" }));
    elements.push(s("text", { x: end - 4, y: y(ghost) - 5, class: "tick end" }, `${t("before")} ${size(ghost)}`));
  }
  const usable = engine.usable_bytes;
  if (usable <= highest) {
    elements.push(s("line", { x1: LEFT, x2: end, y1: y(usable), y2: y(usable), class: "budget" }));
    const label = s("text", { x: LEFT + 6, y: y(usable) - 6, class: "budgettext" }, `${engine.device} · ${size(usable)}`);
    elements.push(label);
  } else {
    elements.push(s("text", { x: LEFT + 6, y: TOP - 8, class: "budgettext" }, `${engine.device} · ${size(usable)} ↑`));
  }
  elements.push(s("text", { x: end - 4, y: y(peak) + (y(peak) > bottom - 30 ? -6 : 15), class: "peaktext end" }, `${t("peak")} ${size(peak)}`));
  const cursor = s("g", { visibility: "hidden", class: "cursor" }, s("line", { x1: 0, x2: 0, y1: TOP, y2: bottom }));
  elements.push(cursor);
  return { places, elements, cursor };
}

/** Stacked areas, one path for each class. Columns are steps: an op has its bytes, not a slope. */
function areas(place, y) {
  const { bytes } = place.phase;
  const columns = bytes.length;
  const x = (column) => (place.x + (column * place.width) / columns).toFixed(2);
  const below = new Array(columns).fill(0);
  const paths = [];
  start.classes.forEach((of, index) => {
    if (!bytes.some((column) => column[index] > 0)) return;
    const upper = [];
    const lower = [];
    for (let column = 0; column < columns; column++) {
      const top = below[column] + bytes[column][index];
      upper.push(`${x(column)} ${y(top).toFixed(2)}`, `${x(column + 1)} ${y(top).toFixed(2)}`);
      lower.push(`${x(column)} ${y(below[column]).toFixed(2)}`, `${x(column + 1)} ${y(below[column]).toFixed(2)}`);
      below[column] = top;
    }
    paths.push(s("path", { d: `M${upper.join("L")}L${lower.reverse().join("L")}Z`, fill: of.colour, "data-class": of.id }));
  });
  return paths;
}

function caption(place, bottom) {
  const middle = place.x + place.width / 2;
  const text = (dy, cls, content) => s("text", { x: middle, y: bottom + dy, class: `middle ${cls}` }, content);
  return [
    text(17, "phase", place.phase.label),
    text(34, "phase", `≤ ${size(place.phase.peak_bytes)}`),
    text(50, "tick", place.width > 70 ? t("ops", { n: number(place.phase.ops) }) : number(place.phase.ops)),
  ];
}

function tipOf(phase, column, alive) {
  const bytes = phase.bytes[column];
  const rows = start.classes.map((of, index) => [of, bytes[index]]).filter(([, own]) => own > 0).reverse();
  const list = rows.map(([of, own]) => h("tr", {}, h("td", {}, swatch(of)), h("td", {}, of.name), h("td", { class: "figure" }, size(own))));
  const lines = (alive?.tensors ?? []).map((tensor) => h("tr", {},
    h("td", {}, swatch(start.classes.find((of) => of.id === tensor.class))),
    h("td", {}, h("code", {}, tensor.name), tensor.count > 1 ? ` × ${number(tensor.count)}` : null),
    h("td", { class: "figure" }, size(tensor.bytes))));
  if (alive?.rest_bytes > 0) lines.push(h("tr", {}, h("td"), h("td", {}, t("others")), h("td", { class: "figure" }, size(alive.rest_bytes))));
  return [
    h("p", {}, h("code", {}, phase.op[column]), ` · ${phase.label} · ${number(phase.at[column])}`),
    h("p", { class: "strong" }, size(total(bytes))),
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
