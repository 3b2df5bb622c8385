// The page: tabs, language, theme. Each tab is a module that fills the main element.

import { ask, failureBox, fill, h, start, t } from "./lib.js";
import { address, onRoute, route } from "./state.js";
import { planner } from "./planner.js";
import { doctor } from "./doctor.js";
import { runs } from "./runs.js";

const PAGES = ["plan", "doctor", "runs"];
const THEMES = ["auto", "light", "dark"];
const MODULES = { plan: planner, doctor, runs };

let shown = null; // the page, and what ends it

function stored(key, fallback) {
  try {
    return localStorage.getItem(`fitgpt-${key}`) ?? fallback;
  } catch {
    return fallback;
  }
}

function store(key, value) {
  try {
    localStorage.setItem(`fitgpt-${key}`, value);
  } catch {
    // Without storage the choice lasts until the page is closed.
  }
}

function theme(choice) {
  document.documentElement.dataset.theme = choice;
}

function tools() {
  const languages = h("select", { "aria-label": t("language"), id: "language", onchange: (event) => setLanguage(event.target.value) },
    start.languages.map(({ code, name }) => h("option", { value: code, selected: code === start.lang }, name)));
  const themes = h("select", { "aria-label": t("theme"), id: "theme", onchange: (event) => {
    store("theme", event.target.value);
    theme(event.target.value);
  } }, THEMES.map((name) => h("option", { value: name, selected: name === stored("theme", "auto") }, t(`theme_${name}`))));
  fill(document.getElementById("tools"), languages, themes);
}

function tabs(current) {
  const link = (page) => h("a", { href: address(page), class: page === current ? "current" : "", "aria-current": page === current ? "page" : null }, t(`tab_${page}`));
  fill(document.getElementById("tabs"), PAGES.map(link));
}

function show({ page, parameters }) {
  const name = PAGES.includes(page) ? page : "plan";
  tabs(name);
  document.title = `${t(`tab_${name}`)} · FitGPT`;
  if (shown?.name === name && shown.update) {
    shown.update(parameters);
    return;
  }
  shown?.end?.();
  const main = document.getElementById("main");
  fill(main);
  shown = { name, ...MODULES[name](main, parameters) };
}

async function setLanguage(lang) {
  store("lang", lang);
  start.lang = lang;
  Object.assign(start, await ask("/api/start"));
  document.documentElement.lang = start.lang;
  tools();
  shown?.end?.();
  shown = null;
  show(route());
}

async function begin() {
  theme(stored("theme", "auto"));
  // In the language that the browser asked for; another one may have been chosen here.
  Object.assign(start, JSON.parse(document.getElementById("start").textContent));
  const wanted = stored("lang", start.lang);
  if (wanted !== start.lang && start.languages.some(({ code }) => code === wanted)) {
    start.lang = wanted;
    try {
      Object.assign(start, await ask("/api/start"));
    } catch (error) {
      fill(document.getElementById("main"), failureBox(error));
      return;
    }
  }
  document.documentElement.lang = start.lang;
  document.getElementById("skip").textContent = t("skip");
  onRoute(show);
  show(route());
  tools();
  document.documentElement.dataset.ready = "true";
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});

begin();
