// The doctor: diagnoses an error, with a link to the planner.

import { ask, command, failureBox, fill, h, number, size, start, t, takesDrops } from "./lib.js";
import { bar, key, partColour } from "./bars.js";
import { address } from "./state.js";

const MAX_FILE_BYTES = 64 * 2 ** 20;
// Kept while the page is open, so that switching to the planner loses nothing.
const kept = { log: "", config: "", gpu: "", answer: null, file: null };

/** Fills `main`. */
export function doctor(main) {
  const log = h("textarea", { id: "log", value: kept.log, spellcheck: false, placeholder: t("paste_log"), "aria-label": t("log"), oninput: () => {
    kept.log = log.value;
    kept.file = null;
    later();
  } });
  const config = h("textarea", { id: "doctor-config", value: kept.config, spellcheck: false, placeholder: t("paste_config"), "aria-label": t("config_text"), oninput: () => {
    kept.config = config.value;
    later();
  } });
  const card = h("select", { id: "doctor-card", onchange: () => {
    kept.gpu = card.value;
    later();
  } }, h("option", { value: "" }, t("card_of_log")), start.cards.map(({ name }) => h("option", { value: name, selected: name === kept.gpu }, name)));
  const pick = h("input", { type: "file", id: "file", class: "offscreen", tabIndex: -1, onchange: () => pick.files[0] && take(pick.files[0]) });
  const zone = h("div", { class: "dropzone" }, log);
  const result = h("div", { class: "cards", id: "diagnosis", "aria-live": "polite" });
  takesDrops(zone, take);
  takesDrops(result, take);

  main.append(h("div", { class: "doctor" },
    h("section", { class: "card input" }, h("h2", {}, t("doctor_title")), h("p", { class: "soft small" }, t("doctor_hint")), zone,
      h("div", { class: "acts" }, h("button", { type: "button", onclick: () => pick.click() }, t("choose_file")), pick,
        h("button", { type: "button", class: "quiet", onclick: clear }, t("clear"))),
      h("details", { open: Boolean(kept.config || kept.gpu) }, h("summary", {}, t("known_too")), h("div", { class: "choice" }, h("label", { htmlFor: "doctor-card" }, t("card")), card), config)),
    result));

  let timer = 0;
  let asking = null;
  let ended = false;

  function later() {
    clearTimeout(timer);
    timer = setTimeout(diagnose, 200);
  }

  function clear() {
    Object.assign(kept, { log: "", config: "", gpu: "", answer: null, file: null });
    log.value = config.value = card.value = "";
    show();
    log.focus();
  }

  async function take(file) {
    if (file.size > MAX_FILE_BYTES) {
      fill(result, failureBox({ message: t("file_too_large", { n: size(file.size), m: size(MAX_FILE_BYTES) }) }));
      return;
    }
    kept.file = file;
    const head = new Uint8Array(await file.slice(0, 4).arrayBuffer());
    const isText = !(head[0] === 0x80 || (head[0] === 0x1f && head[1] === 0x8b) || head[0] === 0x28) && file.size < 2 ** 20;
    kept.log = log.value = isText ? await file.text() : `${file.name} (${size(file.size)})`;
    if (isText) kept.file = null;
    diagnose();
  }

  async function diagnose() {
    asking?.abort();
    if (!kept.file && !kept.log.trim()) {
      kept.answer = null;
      show();
      return;
    }
    asking = new AbortController();
    const head = JSON.stringify({ config: kept.config, gpu: kept.gpu || null });
    try {
      kept.answer = await ask("/api/doctor", new Blob([`${head}\n`, kept.file ?? kept.log]), asking.signal);
      if (!ended) show();
    } catch (error) {
      if (error.name !== "AbortError" && !ended) fill(result, failureBox(error));
    }
  }

  function show() {
    if (!kept.answer) {
      fill(result, h("div", { class: "card empty" }, h("p", {}, t("doctor_empty"))));
      return;
    }
    const { diagnosis, texts, snapshot, planner } = kept.answer;
    const link = plannerLink(planner, {});
    fill(result,
      h("section", { class: "card" }, h("p", { class: "headline" }, texts.kind),
        texts.phase ? h("p", { class: "soft" }, texts.phase) : null,
        account(diagnosis, texts),
        link ? h("p", {}, h("a", { href: link, id: "to-planner" }, t("open_planner"))) : null),
      snapshot ? segments(snapshot) : null,
      findings(texts), steps(texts, planner), next(texts));
  }

  if (kept.answer) diagnose();
  else show();
  return {
    end() {
      ended = true;
      asking?.abort();
    },
  };
}

/** A link to the planner with the inferred run, and with changes that it applies one by one. */
function plannerLink({ keys, gpu, total_bytes: total }, changes) {
  if (!keys) return null;
  const found = gpu ?? cardOf(total);
  const state = { engine: "torch", ...keys };
  if (found) state.gpu = found;
  else if (total) Object.assign(state, { memory_budget: `${Math.round(total / 2 ** 20)}MiB` });
  const then = new URLSearchParams(changes).toString();
  return address("plan", then ? { ...state, then } : state);
}

/** The card whose memory is nearest to that in a log; of equal ones, a common one. */
function cardOf(total) {
  if (!total) return undefined;
  const away = ({ bytes }) => Math.round(Math.abs(bytes - total) / 2 ** 24); // logs have two digits of a GiB
  const rank = ({ name }) => (name === start.first.gpu ? 0 : /^GeForce RTX (?!.*Laptop)/.test(name) ? 1 : 2);
  const near = start.cards.filter(({ bytes }) => Math.abs(bytes - total) < total * 0.015);
  return near.toSorted((a, b) => away(a) - away(b) || rank(a) - rank(b))[0]?.name;
}

/** The parts of the memory in the log, the failed request, and the card's memory. */
function account({ account: found, facts }, texts) {
  const parts = (found?.parts ?? []).map(({ bytes }, index) => ({ name: texts.parts[index], bytes, colour: partColour(index) }));
  if (found) {
    const unknown = found.held_bytes - found.explained_bytes;
    if (unknown > 0) parts.push({ name: t("unexplained"), bytes: unknown, colour: "#8a949d" });
  } else if (facts.allocated_bytes) {
    parts.push({ name: t("allocated"), bytes: facts.allocated_bytes, colour: partColour(0) });
  }
  const held = parts.reduce((sum, part) => sum + part.bytes, 0);
  if (facts.reserved_bytes > held && held > 0) parts.push({ name: t("reserved"), bytes: facts.reserved_bytes - held, colour: "#b3bcc4" });
  if (facts.foreign_bytes > 0) parts.push({ name: t("foreign"), bytes: facts.foreign_bytes, colour: "#5b6670" });
  if (facts.requested_bytes) parts.push({ name: t("requested"), bytes: facts.requested_bytes, colour: null, cls: "lack" });
  if (parts.length === 0) return null;
  const sum = parts.reduce((all, part) => all + part.bytes, 0);
  const scale = Math.max(sum, facts.total_bytes ?? 0);
  const label = parts.map((part) => `${part.name} ${size(part.bytes, scale)}`).join(", ");
  return h("div", { class: "cards", id: "account" }, bar(parts, scale, { label, limit: facts.total_bytes ?? null }),
    facts.total_bytes ? h("p", { class: "soft small" }, h("span", { class: "limitkey" }), t("card_has", { n: size(facts.total_bytes), s: size(sum) })) : null, key(parts));
}

/** The segments of a snapshot and the owners of their blocks. */
function segments(snapshot) {
  const names = snapshot.owners.map(({ name }) => name);
  const colours = new Map(names.map((name, index) => [name, partColour(index)]));
  const owner = (part) => part.owner ?? t("free");
  const colour = (part) => (part.owner === null ? "transparent" : colours.get(part.owner) ?? partColour(20));
  const most = Math.max(1, ...snapshot.segments.map(({ bytes }) => bytes));
  const row = (segment) => h("div", { class: "segmentrow" }, h("span", { class: "figure" }, size(segment.bytes, most)),
    bar(segment.parts.map((part) => ({ name: owner(part), bytes: part.bytes, colour: colour(part) })), most, { height: 18, label: segment.parts.map(owner).join(", ") }));
  const parts = snapshot.owners.map((part) => ({ ...part, colour: colours.get(part.name) }));
  return h("section", { class: "card", id: "segments" }, h("h2", {}, t("segments")),
    h("p", { class: "soft small" }, t("segments_sum", { a: size(snapshot.allocated_bytes, snapshot.reserved_bytes), r: size(snapshot.reserved_bytes), f: size(snapshot.largest_free_bytes, snapshot.reserved_bytes) })),
    snapshot.segments.slice(0, 24).map(row),
    snapshot.segments.length > 24 ? h("p", { class: "soft small" }, t("more", { n: number(snapshot.segments.length - 24) })) : null, key(parts));
}

function findings(texts) {
  if (texts.findings.length === 0) return null;
  const one = (found) => {
    const page = h("div");
    const open = h("button", { type: "button", class: "quiet", "aria-expanded": "false", onclick: async () => {
      if (page.firstChild) {
        fill(page);
        open.setAttribute("aria-expanded", "false");
        return;
      }
      const { text } = await ask(`/api/explain?topic=${encodeURIComponent(found.rule)}`);
      fill(page, h("div", { class: "explain", tabIndex: 0 }, text));
      open.setAttribute("aria-expanded", "true");
    } }, t("explain"));
    return h("article", { class: found.is_cause ? "finding cause" : "finding" },
      h("header", {}, h("span", { class: found.is_cause ? "verdict no" : "verdict" }, found.mark), h("code", {}, found.rule), open), h("p", {}, found.text), page);
  };
  const notes = texts.notes.map((text) => h("p", { class: "soft small" }, text));
  const ties = texts.tensors.length > 1 ? h("details", {}, h("summary", {}, texts.ties), h("ul", {}, texts.tensors.map((text) => h("li", {}, text)))) : null;
  return h("section", { class: "card", id: "findings" }, h("h2", {}, t("findings")), texts.findings.map(one), ties, texts.next ? h("p", {}, texts.next) : null, notes);
}

function steps(texts, planner) {
  if (texts.steps.length === 0) return null;
  const one = ({ text, command: line, code, apply, verdict }) => {
    const link = apply ? plannerLink(planner, apply) : null;
    return h("li", { class: apply ? "fix" : null },
      h("div", { class: "acts" }, h("p", { class: verdict ? `verdict ${verdict}` : null }, text), link ? h("a", { href: link, class: "try" }, t("see_it")) : null),
      line ? command(line) : null, code.map(command));
  };
  return h("section", { class: "card", id: "steps" }, h("h2", {}, t("what_to_do")), h("ol", { class: "steps" }, texts.steps.map(one)));
}

function next(texts) {
  if (!texts.command && !texts.question) return null;
  return h("section", { class: "card", id: "next" }, h("h2", {}, t("now")), texts.command ? command(texts.command) : null, texts.question ? h("p", {}, texts.question) : null);
}
