// The planner: a config, a card and a few sliders; the memory of both engines follows.

import { argumentsOf, Failure, ask, copyButton, failureBox, fill, h, number, size, start, t, takesDrops, write } from "./lib.js";
import { choice, divisors, segments, slider, stops } from "./controls.js";
import { legend, picture } from "./picture.js";
import { go, note, packed, unpacked } from "./state.js";

const HERE = "here";
const MAX_RANKS = 256; // as in the server
const SLIDERS = {
  batch_size: stops(1, 128),
  gradient_accumulation_steps: stops(1, 1024),
  block_size: stops(64, 8192),
  n_layer: stops(1, 96),
  n_embd: stops(64, 8192).filter((width) => width % 64 === 0),
  eval_batch_size: stops(1, 128),
};

/** Fills `main`. The state is the address. */
export function planner(main, parameters) {
  let state = read(parameters);
  let early = firstPlan(state) ?? ask("/api/plan", request(state)); // made while the controls are
  early.catch(() => {}); // a failure is shown where it is awaited
  let answer = null;
  let locked = null; // the effective batch that is kept
  let ghost = null; // peaks before the last applied change
  let asking = null;
  let isWaiting = false;
  let ended = false;
  let headSize = 64;

  const view = picture(() => request(state));
  const verdict = h("span", { class: "verdict none" });
  const status = h("div", { class: "status", "aria-live": "polite" }, verdict);
  const problem = h("div", { class: "problem" });
  const options = h("div", { class: "options" });
  const facts = h("p", { class: "facts soft" });

  // Controls, in the order of a config.
  const fields = {};
  const set = (key, value) => {
    ghost = null;
    change(key, String(value));
  };
  for (const [key, values] of Object.entries(SLIDERS)) {
    fields[key] = slider({ key, label: t(`key_${key}`), values, zero: key === "eval_batch_size", change: set });
  }
  const ranks = slider({ key: "ranks", label: t("key_ranks"), values: [1], change: (_, value) => {
    ghost = null;
    state.ranks = value;
    // Only FitGPT supports ranks: the command and the options are for it from now on.
    if (value > 1) state.engine = "fitgpt";
    plan();
  } });
  fields.dtype = choice({ key: "dtype", label: t("key_dtype"), change: set, options: [["None", t("dtype_auto")], ["float32", "float32"], ["bfloat16", "bfloat16"], ["float16", "float16"]] });
  fields.grad_checkpoint = choice({ key: "grad_checkpoint", label: t("key_grad_checkpoint"), change: set, options: [["False", t("recompute_off")], ["auto", t("recompute_auto")], ["True", t("recompute_on")]] });
  fields.optimizer = choice({ key: "optimizer", label: t("key_optimizer"), change: set, options: start.optimizers });
  fields.compile = choice({ key: "compile", label: t("key_compile"), change: set, options: [["True", t("yes")], ["False", t("no")]] });

  const lock = h("input", { type: "checkbox", id: "lock", onchange: () => {
    locked = lock.checked ? effective() : null;
    show();
    remember();
  } });
  const product = h("output", { class: "product" });
  const card = h("select", { id: "card", onfocus: listCards, onchange: () => {
    ghost = null;
    state.gpu = card.value;
    plan();
  } });
  const cardOption = ({ name, bytes }) => h("option", { value: name }, `${name} · ${number(bytes / 2 ** 30, 0)} GiB`);
  const chosenCard = start.cards.find(({ name }) => name === state.gpu);
  card.append(chosenCard ? cardOption(chosenCard) : h("option", { value: HERE }, t("this_machine")));
  const budget = h("input", { id: "budget", placeholder: t("budget_example"), spellcheck: false, oninput: () => {
    if (budget.value.trim()) state.keys.memory_budget = budget.value.trim();
    else delete state.keys.memory_budget;
    plan();
  } });
  const engine = segments({ label: t("engine"), options: [["torch", "PyTorch"], ["fitgpt", "FitGPT"]], change: (value) => {
    state.engine = value;
    fill(options);
    show();
    remember();
  } });
  const presets = h("select", { id: "preset", onchange: () => {
    const preset = start.presets.find(({ name }) => name === presets.value);
    load(preset ? preset.text : "", preset?.name ?? "");
  } }, h("option", { value: "" }, t("defaults")), start.presets.map(({ name }) => h("option", { value: name }, name)));
  const text = h("textarea", { id: "config", rows: 9, spellcheck: false, placeholder: t("paste_config"), oninput: () => {
    ghost = null;
    state.config = text.value;
    state.file = "config.py";
    state.keys = keptKeys();
    presets.value = "";
    plan();
  } });
  const drop = h("div", { class: "dropzone" }, text);
  takesDrops(drop, async (file) => {
    if (file.size > 2 ** 20) return;
    load(await file.text(), /^[\w.-]+\.py$/.test(file.name) ? file.name : "config.py");
  });

  const fitButton = h("button", { type: "button", class: "primary", id: "fit", onclick: makeFit }, t("make_it_fit"));
  const commandText = h("code", { id: "command" });
  const copyCommand = copyButton(t("copy_command"), () => commandText.textContent, { id: "copy-command" });
  const copyConfig = copyButton(t("copy_config"), () => answer?.config ?? "", { id: "copy-config" });
  const copyLink = copyButton(t("copy_link"), () => location.href, { id: "copy-link" });
  const training = start.allows_training ? trainForm(() => request(state)) : null;

  const group = (title, ...content) => h("fieldset", {}, h("legend", {}, title), content);
  main.append(h("div", { class: "planner" },
    h("form", { class: "controls", onsubmit: (event) => event.preventDefault() },
      group(t("group_config"), h("div", { class: "choice" }, h("label", { htmlFor: "preset" }, t("preset")), presets),
        h("details", { open: false }, h("summary", {}, t("config_text")), drop)),
      group(t("group_device"), h("div", { class: "choice" }, h("label", { htmlFor: "card" }, t("card")), card),
        h("div", { class: "choice" }, h("label", { htmlFor: "budget" }, t("budget")), budget)),
      group(t("group_step"), fields.batch_size.element, fields.gradient_accumulation_steps.element,
        h("div", { class: "lockrow" }, h("label", {}, lock, t("lock")), product),
        ranks.element, fields.block_size.element, fields.eval_batch_size.element),
      group(t("group_model"), fields.n_layer.element, fields.n_embd.element),
      group(t("group_memory"), fields.dtype.element, fields.grad_checkpoint.element, fields.optimizer.element, fields.compile.element)),
    h("div", { class: "result" },
      h("div", { class: "resulthead" }, status, facts), problem, view.element, legend(),
      h("div", { class: "acts" }, h("span", { class: "soft" }, t("run_with")), engine.element, fitButton, copyConfig, copyCommand, copyLink),
      h("div", { class: "command wide" }, commandText), training, options)));

  function effective() {
    const values = answer?.values ?? {};
    return Number(state.keys.batch_size ?? values.batch_size ?? 1) * Number(state.keys.gradient_accumulation_steps ?? values.gradient_accumulation_steps ?? 1);
  }

  /** Overrides for the machine, not for the config. */
  function keptKeys() {
    return state.keys.memory_budget ? { memory_budget: state.keys.memory_budget } : {};
  }

  function load(config, file) {
    ghost = null;
    state.config = config;
    state.file = file;
    state.keys = keptKeys();
    text.value = config;
    plan();
  }

  function change(key, value) {
    state.keys[key] = value;
    if (key === "n_embd" && Number(value) % headSize === 0) state.keys.n_head = String(Number(value) / headSize);
    if (locked !== null) {
      const other = { batch_size: "gradient_accumulation_steps", gradient_accumulation_steps: "batch_size" }[key];
      if (other) {
        const own = divisors(locked).reduce((best, d) => (Math.abs(d - Number(value)) < Math.abs(best - Number(value)) ? d : best), 1);
        state.keys[key] = String(own);
        state.keys[other] = String(locked / own);
      }
    }
    plan();
  }

  /** Requests the plan of the last state. During a request, later states are merged into one. */
  async function plan() {
    remember();
    if (asking) {
      isWaiting = true;
      return;
    }
    do {
      isWaiting = false;
      const began = performance.now();
      asking = early ?? ask("/api/plan", request(state));
      early = null;
      try {
        answer = { ...(await asking), ghost };
        if (problem.firstChild) fill(problem);
      } catch (error) {
        fill(problem, failureBox(error instanceof Failure ? error : new Failure({ message: String(error) })));
      }
      if (ended) return;
      show();
      // For measurements: the time from the request to the picture.
      main.dataset.planMs = (performance.now() - began).toFixed(1);
      main.dataset.plans = String(Number(main.dataset.plans ?? 0) + 1);
    } while (isWaiting);
    asking = null;
  }

  /** All cards: hundreds of them, which the first picture need not wait for. */
  function listCards() {
    if (card.length > 1) return;
    fill(card, h("option", { value: HERE }, t("this_machine")), start.cards.map(cardOption));
    card.value = state.gpu;
  }

  function show() {
    if (card.value !== state.gpu) {
      listCards();
      card.value = state.gpu;
    }
    engine.set(state.engine);
    view.choose(state.engine);
    const preset = presetOf(state)?.name ?? "";
    if (presets.value !== preset) presets.value = preset;
    const limit = state.keys.memory_budget ?? "";
    if (document.activeElement !== budget && budget.value !== limit) budget.value = limit;
    if (document.activeElement !== text && text.value !== state.config) text.value = state.config;
    lock.checked = locked !== null;
    if (!answer) return;
    const { values } = answer;
    if (Number(values.n_head) > 0) headSize = Number(values.n_embd) / Number(values.n_head);
    const lists = locked === null ? {} : { batch_size: divisors(locked), gradient_accumulation_steps: divisors(locked) };
    for (const [key, field] of Object.entries(fields)) {
      let value = state.keys[key] ?? values[key];
      if (key === "eval_batch_size" && value === "0") value = values.batch_size; // as nanoGPT does
      if (key in SLIDERS) field.set(Number(value), lists[key] ?? SLIDERS[key]);
      else field.set(value);
    }
    // Every rank has the same number of micro-batches.
    ranks.set(state.ranks, divisors(Number(state.keys.gradient_accumulation_steps ?? values.gradient_accumulation_steps)).filter((count) => count <= MAX_RANKS));
    const batch = answer.effective_batch;
    write(product, `${number(batch.sequences)} × ${number(batch.tokens / batch.sequences)} = ${t("tokens", { n: number(batch.tokens) })}`);
    write(facts, t("facts", { p: millions(answer.parameters), v: number(answer.vocab) }));
    const own = answer.engines.find(({ engine: name }) => name === state.engine);
    verdict.className = `verdict ${own?.verdict ?? "none"}`;
    write(verdict, own?.failure ? own.failure.message : own?.sentence ?? "");
    if (commandText.textContent !== (own?.command ?? "")) fill(commandText, argumentsOf(own?.command ?? ""));
    fitButton.classList.toggle("needed", own?.verdict === "no" || own?.verdict === "tight");
    view.show(answer);
  }

  async function makeFit() {
    fitButton.disabled = true;
    try {
      const found = await ask("/api/fit", request(state));
      fill(options, table(found));
      options.querySelector("button")?.focus({ preventScroll: true });
      options.scrollIntoView({ block: "nearest" });
    } catch (error) {
      fill(options, failureBox(error));
    }
    fitButton.disabled = false;
  }

  function apply(changes) {
    ghost = Object.fromEntries((answer?.engines ?? []).filter(({ phases }) => phases).map((own) => [own.engine, own.needed_bytes - own.overhead_bytes[1]]));
    locked = null;
    Object.assign(state.keys, changes);
    return plan();
  }

  function table(found) {
    const notes = found.note_texts.map((line) => h("p", { class: "soft" }, line));
    const listed = found.options.filter((option) => option.changes_text);
    if (listed.length === 0) return [h("h2", {}, t("options")), notes, h("p", {}, found.options.length ? t("fits_already") : t("nothing_fits"))];
    const row = (option) => {
      const index = found.options.indexOf(option);
      const marks = [index === found.recommended ? t("recommended") : null, index === found.safest ? t("safest") : null].filter(Boolean);
      return h("tr", { class: option.fits ? "fits" : option.verdict },
        h("td", {}, h("span", { class: `verdict ${option.verdict}` }, option.verdict_text), marks.map((mark) => h("span", { class: "badge" }, mark))),
        h("td", { class: "figure", data: { label: t("col_peak") } }, size(option.peak_bytes)),
        h("td", { class: "figure", data: { label: t("col_saved") } }, `−${size(option.saved_bytes)}`),
        h("td", { class: "figure", data: { label: t("col_work") } }, `+${number(option.extra_compute * 100)} %`),
        h("td", {}, option.effect_text),
        h("td", {}, h("code", {}, argumentsOf(option.changes_text)), option.patches.length ? h("span", { class: "soft small" }, ` ${t("needs_patches", { p: option.patches.join(", ") })}`) : null),
        h("td", {}, h("button", { type: "button", class: "quiet apply", onclick: () => apply(option.apply) }, t("apply"))));
    };
    const head = ["col_verdict", "col_peak", "col_saved", "col_work", "col_training", "col_changes"].map((key) => h("th", { scope: "col" }, t(key)));
    return [h("h2", {}, t("options")), notes, h("div", { class: "scroll" }, h("table", { class: "list" }, h("thead", {}, h("tr", {}, head, h("th"))), h("tbody", {}, listed.map(row))))];
  }

  function remember() {
    const { config, file, gpu, ranks: count, engine: own, keys } = state;
    const preset = presetOf(state);
    const shown = { gpu, engine: own, ...(count > 1 ? { ranks: count } : {}), ...(locked === null ? {} : { lock: "1" }), ...keys };
    if (preset) shown.preset = preset.name;
    else if (config) Object.assign(shown, { config: packed(config), file });
    note("plan", shown);
  }

  /** A link may have changes that are applied one after the other, starting with the original run. */
  async function begin(parameters) {
    const pending = parameters.get("then");
    state = read(parameters);
    locked = null;
    ghost = null;
    if (options.firstChild) fill(options);
    show();
    await plan();
    setTimeout(listCards, 300);
    while (asking && !ended) await new Promise((done) => setTimeout(done, 20));
    if (parameters.get("lock") === "1") {
      locked = effective();
      show();
    }
    if (!pending || ended) return;
    await new Promise((done) => setTimeout(done, 900));
    if (!ended) await apply(Object.fromEntries(new URLSearchParams(pending)));
  }

  begin(parameters);
  return {
    update(next) {
      early = null;
      begin(next);
    },
    end() {
      ended = true;
      view.end();
    },
  };
}

/** The form that starts a run, if the server allows it. */
function trainForm(state) {
  const name = h("input", { id: "run-name", value: `out-${new Date().toISOString().slice(0, 16).replace(/[-:]/g, "").replace("T", "-")}`, spellcheck: false });
  const problem = h("div");
  const button = h("button", { type: "submit", class: "primary", id: "train" }, t("start_run"));
  return h("form", { class: "trainform", onsubmit: async (event) => {
    event.preventDefault();
    button.disabled = true;
    fill(problem);
    try {
      const { id } = await ask("/api/train", { plan: state(), name: name.value });
      go("runs", { run: id });
    } catch (error) {
      fill(problem, failureBox(error));
    }
    button.disabled = false;
  } }, h("label", { htmlFor: "run-name" }, t("run_folder")), name, button, problem);
}

function request({ config, file, keys, gpu, ranks, engine }) {
  return { config, file, keys, engine, ranks, gpu: gpu === HERE ? null : gpu };
}

/** The plan that came with the page, if it is the plan of `state`; once, because it gets old. */
function firstPlan(state) {
  const { plan } = start;
  start.plan = null;
  const asked = request(state);
  const isFirst = Object.keys(asked).every((name) => JSON.stringify(asked[name]) === JSON.stringify(start.first[name]));
  return plan && isFirst ? Promise.resolve(plan) : null;
}

/** The state that an address holds. Anything may be in it: the server checks every key. */
function read(parameters) {
  const state = { config: "", file: "", keys: {}, gpu: start.first.gpu, ranks: 1, engine: "torch" };
  const preset = start.presets.find(({ name }) => name === parameters.get("preset"));
  if (preset) Object.assign(state, { config: preset.text, file: preset.name });
  for (const [key, value] of parameters) {
    if (key === "gpu") state.gpu = value === HERE || start.cards.some(({ name }) => name === value) ? value : start.first.gpu;
    else if (key === "ranks") state.ranks = Math.max(1, Math.min(MAX_RANKS, Number.parseInt(value, 10) || 1));
    else if (key === "engine") state.engine = value === "fitgpt" ? "fitgpt" : "torch";
    else if (key === "config") state.config = unpacked(value);
    else if (key === "file") state.file = value;
    else if (!["preset", "lock", "then"].includes(key)) state.keys[key] = value;
  }
  return state;
}

/** The preset that a state begins with, if its text is as it was. */
function presetOf({ config, file }) {
  return config ? start.presets.find(({ name, text }) => name === file && text === config) : null;
}

function millions(count) {
  if (count >= 1e9) return `${number(count / 1e9, 2)} B`;
  if (count >= 1e6) return `${number(count / 1e6, 0)} M`;
  return `${number(count / 1e3, 0)} K`;
}
