// Runs below the server's folders, current and past, updated live.

import { ask, command, copyButton, duration, failureBox, figure, fill, h, number, size, start, t } from "./lib.js";
import { bar, key } from "./bars.js";
import { chart, colourOf, smoothed } from "./chart.js";
import { note } from "./state.js";

const QUANTITIES = ["loss", "lr", "grad_norm", "tokens_per_s", "loss_scale"];
const SMOOTHED = ["loss", "grad_norm", "tokens_per_s"];
const POINTS = 700;

/** Fills `main`. */
export function runs(main, parameters) {
  const known = new Map(); // id → summary
  const data = new Map(); // id → curves
  let shown = ids(parameters); // in the order of their colours
  let range = null;
  let sampleAt = null;
  let ended = false;
  let frame = 0; // the frame in which the charts are redrawn
  const busy = new Set();
  const again = new Set();

  const list = h("ul", { class: "runlist", id: "runlist" });
  const empty = h("div", { class: "card empty", id: "norun" }, h("p", {}, t("no_runs")), command("fitgpt train"));
  const partial = h("p", { class: "soft small", id: "partial", hidden: true }, t("runs_partial"));
  const smoothing = h("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: parameters.get("smooth") ?? 0.6, id: "smoothing", oninput: redraw });
  const log = h("input", { type: "checkbox", id: "log-axis", checked: parameters.get("log") === "1", onchange: redraw });
  const reset = h("button", { type: "button", class: "quiet", onclick: () => zoom(), hidden: true }, t("zoom_reset"));
  const stopButton = start.allows_training ? h("button", { type: "button", id: "stop", class: "quiet", hidden: true, onclick: stop }, t("stop_run")) : null;
  const problem = h("div");
  const facts = h("div", { class: "runtools", id: "runfacts" });
  const charts = Object.fromEntries(QUANTITIES.map((name) => [name, chart({ title: t(`chart_${name}`), height: name === "loss" ? 320 : 190, large: name === "loss", zoom })]));
  const memory = h("section", { class: "card", hidden: true });
  const samples = h("section", { class: "card", id: "samples", hidden: true });
  const differences = h("section", { class: "card", id: "configs", hidden: true });
  const detail = h("div", { class: "cards" },
    h("div", { class: "runtools" }, h("label", {}, t("smoothing"), smoothing), h("label", {}, log, t("log_axis")), reset, h("span", { class: "soft small" }, t("zoom_hint")), stopButton),
    problem, facts, h("div", { class: "charts" }, Object.values(charts).map((it) => it.element)), memory, samples, differences);
  main.append(h("div", { class: "runs" }, h("div", { class: "cards" }, h("h2", {}, t("tab_runs")), list, partial), detail), empty);

  const resize = () => Object.values(charts).forEach((it) => it.resize());
  const observer = new ResizeObserver(resize);
  observer.observe(detail);
  const events = new EventSource("/api/events");
  events.addEventListener("run", (event) => {
    const run = JSON.parse(event.data);
    known.set(run.id, run);
    if (shown.length === 0) choose([...known.values()]);
    listAll();
    if (shown.includes(run.id)) load(run.id);
  });
  events.addEventListener("gone", (event) => {
    const { id } = JSON.parse(event.data);
    known.delete(id);
    data.delete(id);
    shown = shown.filter((other) => other !== id);
    listAll();
    draw();
  });
  events.addEventListener("partial", (event) => {
    partial.hidden = !JSON.parse(event.data).is_partial;
  });
  ask("/api/runs").then((all) => {
    if (ended) return;
    for (const run of all) known.set(run.id, run);
    shown = shown.filter((id) => known.has(id));
    if (shown.length === 0) choose(all);
    listAll();
    shown.forEach(load);
  }).catch((error) => fill(problem, failureBox(error)));

  /** The run that changed last. */
  function choose(all) {
    const last = all.toSorted((a, b) => (b.changed ?? 0) - (a.changed ?? 0))[0];
    if (last) shown = [last.id];
  }

  function listAll() {
    empty.hidden = known.size > 0;
    const all = [...known.values()].toSorted((a, b) => (b.state === "training") - (a.state === "training") || (b.changed ?? 0) - (a.changed ?? 0) || a.name.localeCompare(b.name));
    const focus = document.activeElement?.dataset?.run;
    fill(list, all.map(entry));
    if (focus) list.querySelector(`[data-run="${focus}"]`)?.focus();
  }

  function entry(run) {
    const index = shown.indexOf(run.id);
    const box = h("input", { type: "checkbox", checked: index >= 0, data: { run: run.id }, onchange: () => toggle(run.id) });
    const share = run.max_iters ? h("progress", { max: run.max_iters, value: run.step ?? 0, "aria-label": run.name }) : null;
    return h("li", { class: index >= 0 ? "shown" : "", data: { state: run.state } },
      h("label", {}, box, index >= 0 ? h("span", { class: `key ${colourOf(index)}` }) : null, h("span", {}, run.name)),
      h("div", { class: "row" }, h("span", { class: `state ${run.state}` }, t(`state_${run.state}`)), h("span", {}, `${number(run.step)}${run.max_iters ? ` / ${number(run.max_iters)}` : ""}`)),
      share,
      h("div", { class: "row" }, h("span", {}, `${t("loss")} ${figure(run.loss)}`), h("span", {}, run.val_loss === null ? "" : `${t("val")} ${figure(run.val_loss)}`)),
      run.seconds_left === null ? null : h("div", { class: "row" }, h("span", {}, t("rate", { n: number(run.tokens_per_s) })), h("span", {}, t("left", { n: duration(run.seconds_left) }))));
  }

  function toggle(id) {
    shown = shown.includes(id) ? shown.filter((other) => other !== id) : [...shown, id];
    listAll();
    if (shown.includes(id)) load(id);
    else draw();
  }

  /** Requests a run's curves. Changes during a request are merged into one. */
  async function load(id) {
    if (busy.has(id)) {
      again.add(id);
      return;
    }
    busy.add(id);
    const [from, to] = range ?? [0, null];
    const query = `from=${Math.max(0, Math.floor(from))}${to === null ? "" : `&to=${Math.ceil(to)}`}&points=${POINTS}`;
    try {
      const answer = await ask(`/api/runs/${id}/series?${query}`);
      if (ended) return;
      data.set(id, answer);
      if (answer.read < 1) again.add(id);
      draw();
    } catch (error) {
      if (!ended) fill(problem, failureBox(error));
    }
    busy.delete(id);
    if (again.delete(id)) setTimeout(() => !ended && shown.includes(id) && load(id), 250);
  }

  function zoom(from, to) {
    range = from === undefined ? null : [from, to];
    reset.hidden = range === null;
    shown.forEach(load);
    draw();
  }

  function draw() {
    const own = shown.filter((id) => data.has(id));
    drawCharts(own);
    summary(own);
    memories(own);
    sampleList(own);
    configs(own);
    remember();
  }

  /** Redraws the charts alone, once per frame, because the smoothing slider is dragged. */
  function redraw() {
    if (frame) return;
    frame = requestAnimationFrame(() => {
      frame = 0;
      drawCharts(shown.filter((id) => data.has(id)));
      remember();
    });
  }

  function drawCharts(own) {
    const weight = Number(smoothing.value);
    smoothing.style.setProperty("--share", `${(100 * weight) / 0.99}%`);
    for (const name of QUANTITIES) {
      const lines = own.flatMap((id) => lineOf(id, name, weight));
      charts[name].show({ lines, dots: name === "loss" ? own.flatMap(dotsOf) : [], range, isLog: log.checked });
    }
  }

  function remember() {
    const state = { ...(shown.length ? { run: shown.join(",") } : {}), ...(log.checked ? { log: "1" } : {}), smooth: smoothing.value };
    note("runs", state);
  }

  function lineOf(id, name, weight) {
    const answer = data.get(id);
    const quantity = answer.series[name];
    if (!quantity) return [];
    const isSmoothed = weight > 0 && SMOOTHED.includes(name);
    const y = isSmoothed ? smoothed(quantity.mean, weight) : quantity.mean;
    const { low, high } = spread(quantity, isSmoothed);
    return [{ name: known.get(id)?.name ?? id, colour: colourOf(shown.indexOf(id)), x: answer.series.step, y, raw: quantity.mean, low, high }];
  }

  function dotsOf(id) {
    const answer = data.get(id);
    const name = known.get(id)?.name ?? id;
    const colour = colourOf(shown.indexOf(id));
    const [x, train, trainError, val, valError] = columns(answer);
    return [
      { name: `${name} · ${t("train_split")}`, colour, hollow: true, x, y: train, error: trainError },
      { name: `${name} · ${t("val")}`, colour, x, y: val, error: valError },
    ];
  }

  function summary(own) {
    const run = own.length === 1 ? known.get(own[0]) : null;
    if (stopButton) stopButton.hidden = run?.state !== "training";
    const fact = (name, value) => h("span", {}, h("span", { class: "soft" }, `${name} `), h("strong", {}, value));
    fill(facts, run ? [h("span", { class: `state ${run.state}`, id: "state" }, t(`state_${run.state}`)), fact(t("step"), number(run.step)), fact(t("loss"), figure(run.loss)), run.val_loss === null ? null : fact(t("val"), figure(run.val_loss)),
      fact(t("chart_tokens_per_s"), number(run.tokens_per_s)), run.seconds_left === null ? null : fact(t("time_left"), duration(run.seconds_left)),
      run.checkpoint_step === null ? null : fact(t("checkpoint"), number(run.checkpoint_step))].filter(Boolean)
      : [h("span", { class: "soft" }, t("runs_shown", { n: number(own.length) }))]);
    const part = own.map((id) => data.get(id).read).find((read) => read < 1);
    if (part !== undefined) facts.append(h("span", { class: "soft" }, t("reading", { n: number(100 * part) })));
  }

  /** The memory that a process holds, against its plan. */
  function memories(own) {
    const rows = own.map((id) => known.get(id)).filter((run) => run?.arena_bytes).map((run) => {
      const { plan, device } = data.get(run.id);
      const most = run.arena_bytes + sum(plan.overhead, 1);
      const scale = Math.max(most, run.resident_bytes ?? 0);
      const parts = [{ name: t("arena"), bytes: run.arena_bytes, colour: "#0072B2" }, { name: t("process_itself"), bytes: most - run.arena_bytes, colour: "#98a3ad" }];
      return h("div", { class: "cards" }, h("p", {}, h("strong", {}, run.name), " ", h("span", { class: "soft" }, device ?? "")), bar(parts, scale, { height: 22, label: run.name }), key(parts),
        run.resident_bytes ? h("p", { class: run.resident_bytes > most ? "failure" : "soft" }, t("resident", { n: size(run.resident_bytes), m: size(most) })) : null);
    });
    memory.hidden = rows.length === 0;
    fill(memory, h("h2", {}, t("memory")), rows);
  }

  function sampleList(own) {
    const all = own.flatMap((id) => data.get(id).samples.map((sample) => ({ ...sample, run: known.get(id)?.name ?? id })));
    samples.hidden = all.length === 0;
    if (all.length === 0) return;
    const steps = [...new Set(all.map(({ step }) => step))].sort((a, b) => a - b);
    const at = sampleAt === null || !steps.includes(sampleAt) ? steps.at(-1) : sampleAt;
    const pick = h("input", { type: "range", min: 0, max: steps.length - 1, value: steps.indexOf(at), "aria-label": t("step"), "aria-valuetext": number(at), oninput: (event) => {
      const index = Number(event.target.value);
      sampleAt = index === steps.length - 1 ? null : steps[index];
      sampleList(own);
      samples.querySelector("input")?.focus();
    } });
    pick.style.setProperty("--share", `${(100 * steps.indexOf(at)) / Math.max(1, steps.length - 1)}%`);
    fill(samples, h("div", { class: "samplehead" }, h("h2", {}, t("samples")), pick, h("span", { class: "soft" }, `${t("step")} ${number(at)}`)),
      all.filter(({ step }) => step === at).map(({ run, prompt, text }) => h("div", { class: "cards" }, own.length > 1 ? h("strong", {}, run) : null, h("div", { class: "sample", tabIndex: 0 }, h("span", { class: "prompt" }, prompt), text))));
  }

  /** The config of one run, or the keys in which several differ. */
  function configs(own) {
    const all = own.map((id) => [known.get(id)?.name ?? id, data.get(id).plan.config ?? {}]);
    const keys = [...new Set(all.flatMap(([, config]) => Object.keys(config)))];
    const value = (config, name) => (config[name] === undefined ? "–" : String(config[name]));
    const rows = all.length > 1 ? keys.filter((name) => new Set(all.map(([, config]) => value(config, name))).size > 1) : keys;
    differences.hidden = keys.length === 0;
    const open = differences.querySelector("details")?.open ?? all.length > 1;
    const text = () => rows.map((name) => `${name} = ${all.map(([, config]) => value(config, name)).join(" | ")}`).join("\n");
    fill(differences, h("details", { open }, h("summary", {}, all.length > 1 ? t("config_diff", { n: number(rows.length) }) : t("config_of_run")),
      h("div", { class: "scroll" }, h("table", { class: "list" }, h("thead", {}, h("tr", {}, h("th", {}, t("key")), all.map(([name]) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, rows.map((name) => h("tr", {}, h("td", {}, h("code", {}, name)), all.map(([, config]) => h("td", {}, h("code", {}, value(config, name)))))))), copyButton(t("copy"), text))));
  }

  async function stop() {
    stopButton.disabled = true;
    try {
      await ask("/api/stop", { id: shown[0] });
      fill(problem);
    } catch (error) {
      fill(problem, failureBox(error));
    }
    stopButton.disabled = false;
  }

  return {
    update(next) {
      const wanted = ids(next);
      if (wanted.join() === shown.join() || wanted.length === 0) return;
      shown = wanted;
      listAll();
      shown.forEach(load);
    },
    end() {
      ended = true;
      events.close();
      cancelAnimationFrame(frame);
      observer.disconnect();
    },
  };
}

/** The band around a curve: what the points stand for, or without that the values around each, so
 * that smoothing hides none. */
function spread(quantity, isSmoothed) {
  if (quantity.min) return { low: quantity.min, high: quantity.max };
  if (!isSmoothed) return { low: null, high: null };
  return once(quantity, () => ({ low: around(quantity.mean, Math.min), high: around(quantity.mean, Math.max) }));
}

function around(values, pick) {
  return values.map((value, index) => {
    const near = values.slice(Math.max(0, index - 1), index + 2).filter((other) => other !== null && Number.isFinite(other));
    return near.length ? pick(...near) : value;
  });
}

/** The evaluations of an answer by column: steps, then both losses with their errors. */
function columns(answer) {
  return once(answer, () => [0, 1, 2, 3, 4].map((index) => answer.evaluations.map((row) => row[index])));
}

const derived = new WeakMap();

/** What follows from a part of an answer, made once. The charts compare lists by identity. */
function once(part, make) {
  if (!derived.has(part)) derived.set(part, make());
  return derived.get(part);
}

function ids(parameters) {
  return (parameters.get("run") ?? "").split(",").filter((id) => /^[0-9a-f]{16}$/.test(id));
}

function sum(overhead, end) {
  return ["context_bytes", "workspace_bytes", "compile_bytes"].reduce((all, name) => all + (overhead?.[name]?.[end] ?? 0), 0);
}
