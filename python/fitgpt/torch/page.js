// Shows the op under the pointer: its name, and its bytes by class.
"use strict";
const chart = JSON.parse(document.getElementById("chart").textContent);
const svg = document.querySelector("svg");
const tip = document.getElementById("tip");
const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
cursor.setAttribute("stroke", "#1f2328");
cursor.setAttribute("stroke-dasharray", "3 3");
cursor.setAttribute("y1", chart.edges[0]);
cursor.setAttribute("y2", chart.edges[1]);
cursor.style.display = "none";
cursor.style.pointerEvents = "none";
svg.append(cursor);

const phases = chart.panels.flatMap((panel) => panel.phases.map((phase) => ({ panel, ...phase })));
let shown = null; // [phase, op]

function figure(bytes) {
  for (const [power, unit, digits] of [[30, "GiB", 2], [20, "MiB", 1], [10, "KiB", 1]]) {
    if (bytes >= 2 ** power) return (bytes / 2 ** power).toFixed(digits) + " " + unit;
  }
  return bytes + " B";
}

function cell(row, text, isHead) {
  const cell = document.createElement(isHead ? "th" : "td");
  cell.textContent = text;
  row.append(cell);
  return cell;
}

function show(phase, op) {
  shown = [phase, op];
  const { panel, name, x, width, names, ops, bytes } = phases[phase];
  const here = bytes[op];
  tip.replaceChildren();
  const head = document.createElement("p");
  head.textContent = panel.name + " · " + name + " " + op + "/" + (ops.length - 1);
  const title = document.createElement("strong");
  title.textContent = names[ops[op]];
  const table = document.createElement("table");
  chart.classes.forEach(({ name, colour }, index) => {
    const row = table.insertRow();
    const swatch = document.createElement("i");
    swatch.style.background = colour;
    cell(row, "", false).append(swatch);
    cell(row, name, false);
    cell(row, figure(here[index]), false);
  });
  const row = table.insertRow();
  cell(row, "", true);
  cell(row, chart.sum, true);
  cell(row, figure(here.reduce((a, b) => a + b, 0)), true);
  tip.append(head, title, table);
  tip.hidden = false;

  const at = x + ((op + 0.5) * width) / ops.length;
  cursor.setAttribute("x1", at);
  cursor.setAttribute("x2", at);
  cursor.style.display = "";
  // Next to the cursor, on the side with more space.
  const frame = svg.getBoundingClientRect();
  const scale = frame.width / svg.viewBox.baseVal.width;
  const left = frame.left + at * scale;
  const isRight = left > document.documentElement.clientWidth / 2;
  tip.style.left = Math.max(4, isRight ? left - tip.offsetWidth - 12 : left + 12) + "px";
  tip.style.top = frame.top + (chart.edges[0] + 60) * scale + "px";
}

function hide() {
  shown = null;
  tip.hidden = true;
  cursor.style.display = "none";
}

svg.addEventListener("pointermove", (event) => {
  const frame = svg.getBoundingClientRect();
  const scale = svg.viewBox.baseVal.width / frame.width;
  const x = (event.clientX - frame.left) * scale;
  const y = (event.clientY - frame.top) * scale;
  const phase = phases.findIndex((phase) => x >= phase.x && x < phase.x + phase.width);
  if (phase < 0 || y < chart.edges[0] || y > chart.edges[1]) return hide();
  const { x: start, width, ops } = phases[phase];
  show(phase, Math.floor(((x - start) * ops.length) / width));
});
svg.addEventListener("pointerleave", hide);
addEventListener("scroll", hide, { passive: true });

document.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (event.key === "Escape") hide();
  if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
  let [phase, op] = shown ?? [0, step > 0 ? -1 : 0];
  op += step;
  if (op < 0) {
    phase = (phase + phases.length - 1) % phases.length;
    op = phases[phase].ops.length - 1;
  } else if (op >= phases[phase].ops.length) {
    phase = (phase + 1) % phases.length;
    op = 0;
  }
  event.preventDefault();
  show(phase, op);
});
