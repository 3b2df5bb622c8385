// Fields of the planner: sliders over round values with a field for any other, choices, switches.

import { h, number } from "./lib.js";

/** Round values from `low` to `high`: 1, 2, 3, 4, 6, 8, 12, 16, … */
export function stops(low, high) {
  const values = new Set([low]);
  for (let power = 1; power <= high; power *= 2) {
    for (const value of [power, power * 1.5]) {
      if (Number.isInteger(value) && value >= low && value <= high) values.add(value);
    }
  }
  return [...values].sort((a, b) => a - b);
}

/** All divisors of `n`, least first. */
export function divisors(n) {
  const found = [];
  for (let d = 1; d * d <= n; d++) {
    if (n % d === 0) found.push(d, n / d);
  }
  return [...new Set(found)].sort((a, b) => a - b);
}

function nearest(values, value) {
  let best = 0;
  values.forEach((stop, index) => {
    if (Math.abs(Math.log(stop / value)) < Math.abs(Math.log(values[best] / value))) best = index;
  });
  return best;
}

/** A slider with a field. `set(value, stops)` shows a value without calling listeners. */
export function slider({ key, label, values, zero, change }) {
  let list = values;
  const range = h("input", { type: "range", min: 0, max: list.length - 1, step: 1, "aria-label": label });
  const field = h("input", { type: "number", min: zero ? 0 : 1, step: 1, "aria-label": label, id: `key-${key}` });
  let shown = ""; // what the slider shows
  const changed = (value) => {
    const text = number(value);
    const share = `${(100 * range.value) / Math.max(1, list.length - 1)}%`;
    if (shown === `${text} ${share}`) return;
    shown = `${text} ${share}`;
    range.setAttribute("aria-valuetext", text);
    range.style.setProperty("--share", share);
  };
  range.addEventListener("input", () => {
    const value = list[range.value];
    field.value = value;
    changed(value);
    change(key, value);
  });
  field.addEventListener("input", () => {
    const value = Number(field.value);
    if (!Number.isInteger(value) || value < (zero ? 0 : 1)) return;
    range.value = nearest(list, Math.max(value, 1e-9));
    changed(value);
    change(key, value);
  });
  const element = h("div", { class: "slider", data: { key } },
    h("label", { htmlFor: `key-${key}` }, label), range, field);
  return {
    element,
    set(value, newList) {
      if (newList && newList !== list) {
        list = newList;
        if (Number(range.max) !== list.length - 1) range.max = list.length - 1;
      }
      const index = String(nearest(list, Math.max(value, 1e-9)));
      if (range.value !== index) range.value = index;
      if (field.value !== String(value) && document.activeElement !== field) field.value = value;
      changed(value);
    },
  };
}

/** A choice among a few values. */
export function choice({ key, label, options, change }) {
  const select = h("select", { id: `key-${key}`, onchange: () => change(key, select.value) },
    options.map(([value, text]) => h("option", { value }, text)));
  const element = h("div", { class: "choice", data: { key } }, h("label", { htmlFor: `key-${key}` }, label), select);
  return {
    element,
    set(value) {
      if (select.value === value) return;
      if (![...select.options].some((option) => option.value === value)) {
        select.append(h("option", { value }, value));
      }
      select.value = value;
    },
  };
}

/** A group of buttons, one of them pressed. */
export function segments({ label, options, change }) {
  const buttons = options.map(([value, text]) => h("button", { type: "button", "aria-pressed": "false", data: { value }, onclick: () => change(value) }, text));
  const element = h("div", { class: "segments", role: "group", "aria-label": label }, buttons);
  return {
    element,
    set(value) {
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === value));
    },
  };
}
