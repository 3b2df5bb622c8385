// Helper functions of the page: elements, words, numbers, requests. Text from elsewhere enters the
// page as text nodes only.

const SVG = "http://www.w3.org/2000/svg";

/** The server's first response: words, cards, presets. */
export const start = { words: {}, cards: [], presets: [], classes: [], languages: [], lang: "en" };

/** An HTML element with properties, listeners (`onclick`) and children (text or elements). */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name in element && name !== "list" && name !== "form") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...listed(children));
  return element;
}

/** Flattens nested lists of children, and drops `null` and `undefined`. */
function listed(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined);
}

/** An SVG element with attributes and children. */
export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** A word of the page, with `$name` replaced. */
export function t(key, values = {}) {
  const text = start.words[key] ?? key;
  return text.replace(/\$([a-z]+)/g, (whole, name) => values[name] ?? whole);
}

// Not `Intl`: its first use in a page takes longer than everything else until the first picture.
const SEPARATORS = { de: [".", ","] }; // of thousands, of decimals
const COMMON = [",", "."];

/** Digits as the language groups them. */
function grouped(digits) {
  const [thousands, point] = SEPARATORS[start.lang] ?? COMMON;
  const [whole, decimals] = digits.split(".");
  const groups = whole.replace(/\B(?=(\d{3})+$)/g, thousands);
  return decimals === undefined ? groups : `${groups}${point}${decimals}`;
}

/** A number as the language writes it. */
export function number(value, digits = 0) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return grouped(value.toFixed(digits));
}

/** A number of any size in few digits: a loss, a rate. */
export function figure(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2);
  return grouped(String(Number(value.toPrecision(digits))));
}

const UNITS = [["GiB", 2 ** 30, 2], ["MiB", 2 ** 20, 1], ["KiB", 2 ** 10, 1], ["B", 1, 0]];

/** A size in the largest unit that `largest` reaches: sizes next to each other have one unit. */
export function size(bytes, largest = bytes) {
  if (bytes === null || bytes === undefined) return "–";
  const [unit, factor, digits] = UNITS.find((unit) => largest >= unit[1]) ?? UNITS[3];
  const value = bytes / factor;
  return `${number(value, value > 0 && value < 0.1 ? 3 : digits)} ${unit}`;
}

/** A duration in readable units. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 60) return `${number(seconds, seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")} min`;
  if (seconds < 48 * 3600) return `${number(seconds / 3600, 1)} h`;
  return `${number(seconds / 86400, 1)} d`;
}

/** An error with a place and hints. */
export class Failure extends Error {
  constructor(error) {
    super(error?.message ?? "no answer");
    this.place = error?.place ?? null;
    this.hints = error?.hints ?? [];
    this.kind = error?.kind ?? "http";
  }
}

/** Sends a request to the server; with `body` it is a POST. */
export async function ask(path, body, signal) {
  const query = path.includes("?") ? "&" : "?";
  const options = { signal, headers: {} };
  if (body !== undefined) {
    options.method = "POST";
    const isBlob = body instanceof Blob;
    options.headers["Content-Type"] = isBlob ? "application/octet-stream" : "application/json";
    options.body = isBlob ? body : JSON.stringify(body);
  }
  const response = await fetch(`${path}${query}lang=${start.lang}`, options);
  let document = null;
  try {
    document = await response.json();
  } catch {
    throw new Failure({ message: `${response.status}` });
  }
  if (!response.ok) throw new Failure(document.error);
  return document;
}

/** The element for an error: message and place, then hints. */
export function failureBox(error) {
  const place = error.place ? h("code", {}, error.place) : null;
  const hints = (error.hints ?? []).map((hint) => h("p", { class: "soft" }, hint));
  return h("div", { class: "failure", role: "alert" },
    h("p", {}, place, place ? " " : null, error.message), hints);
}

let toastTimer = 0;

/** A short note at the bottom. */
export function toast(text) {
  const element = document.getElementById("toast");
  element.textContent = text;
  element.classList.add("shown");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => element.classList.remove("shown"), 1600);
}

/** Copies a text; through a selection if the clipboard is not permitted. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { value: text, class: "offscreen" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  toast(t("copied"));
}

/** A button that copies what `text` returns. */
export function copyButton(label, text, properties = {}) {
  return h("button", { type: "button", class: "quiet", ...properties, onclick: () => copy(text()) }, label);
}

/** A command line that wraps between arguments, not within them. */
export function argumentsOf(text) {
  return text.split(" ").flatMap((word, index) => [index > 0 ? " " : null, h("span", { class: "word" }, word)]);
}

/** A command with a button that copies it. */
export function command(text) {
  return h("div", { class: "command" }, h("code", {}, argumentsOf(text)), copyButton(t("copy"), () => text));
}

/** Replaces the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...listed(children));
}

/** Replaces the text of an element, if it is another one: even the same would be laid out again. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Makes the children of an SVG element those of `drawn`: tag, attributes and text of each. Elements
 * that are there already are changed, because a picture is drawn again at each move of a slider.
 */
export function redraw(parent, drawn) {
  const found = [...parent.childNodes];
  drawn.forEach(([tag, attributes, text], index) => {
    let element = found[index];
    if (element?.localName !== tag) {
      const made = s(tag);
      if (element) element.replaceWith(made);
      else parent.append(made);
      element = made;
    }
    const before = element.drawn ?? {};
    for (const name in before) {
      if (!(name in attributes)) element.removeAttribute(name);
    }
    for (const name in attributes) {
      if (before[name] !== attributes[name]) element.setAttribute(name, attributes[name]);
    }
    element.drawn = attributes;
    if (text !== undefined) write(element, text);
  });
  for (const element of found.slice(drawn.length)) element.remove();
}

/** Shows `content` next to the pointer, inside the window. */
export function showTip(x, y, content) {
  const tip = document.getElementById("tip");
  fill(tip, content);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = x + 18 + width > innerWidth ? Math.max(8, x - width - 18) : x + 18;
  const top = Math.max(8, Math.min(y - height / 2, innerHeight - height - 8));
  tip.style.setProperty("left", `${left}px`);
  tip.style.setProperty("top", `${top}px`);
}

/** Hides it. */
export function hideTip() {
  document.getElementById("tip").hidden = true;
}

/** Reads the first dropped file, or the dropped text, into `use(file)`. */
export function takesDrops(element, use) {
  for (const name of ["dragenter", "dragover"]) {
    element.addEventListener(name, (event) => {
      event.preventDefault();
      element.classList.add("dropping");
    });
  }
  for (const name of ["dragleave", "drop"]) {
    element.addEventListener(name, () => element.classList.remove("dropping"));
  }
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    const [file] = event.dataTransfer.files;
    const text = event.dataTransfer.getData("text/plain");
    if (file) use(file);
    else if (text) use(new File([text], "dropped.txt"));
  });
}

/** Round sizes from zero to `top`, at most `count` of them, with their labels. */
export function byteTicks(top, count = 7) {
  const [unit, factor] = UNITS.find((unit) => top >= unit[1]) ?? UNITS[3];
  const most = top / factor;
  const step = niceStep(most / count);
  const ticks = [];
  for (let value = 0; value <= most * 1.0001; value += step) {
    ticks.push([value * factor, value === 0 ? "0" : `${grouped(String(Number(value.toFixed(3))))} ${unit}`]);
  }
  return ticks;
}

/** 1, 2, 2.5 or 5 times a power of ten, at least `least`. */
export function niceStep(least) {
  if (!(least > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((step) => step >= least * 0.999);
}
