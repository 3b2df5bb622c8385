// Starts the real program and a real browser, and ends both.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

/** The program, as scripts/test names it. */
export const program = process.argv[2] ?? process.env.FITGPT;

/** A folder that is removed at the end. */
export function folder() {
  const path = mkdtempSync(join(tmpdir(), "fitgpt-page-"));
  process.on("exit", () => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** `fitgpt` with these arguments, in this folder. */
export function run(cwd, ...args) {
  const child = spawn(program, args, { cwd, env: { ...process.env, LC_ALL: "C", XDG_RUNTIME_DIR: cwd }, stdio: ["ignore", "pipe", "pipe"] });
  child.output = ""; // of both
  child.answer = ""; // stdout alone
  child.stdout.on("data", (data) => {
    child.output += data;
    child.answer += data;
  });
  child.stderr.on("data", (data) => (child.output += data));
  child.ended = new Promise((done) => child.on("close", done));
  process.on("exit", () => child.kill("SIGKILL"));
  return child;
}

/** A server, once it listens. */
export async function serve(cwd, ...more) {
  const child = run(cwd, "serve", "--json", "--port", "0", ...more);
  const lines = createInterface({ input: child.stdout });
  const facts = await new Promise((done, failed) => {
    lines.once("line", (line) => done(JSON.parse(line)));
    child.on("close", () => failed(new Error(`the server ended: ${child.output}`)));
  });
  return { child, ...facts, origin: `http://127.0.0.1:${facts.port}` };
}

/** A browser without a window. As root, Chromium runs without its sandbox. */
export function browser() {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  return chromium.launch({ executablePath, args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });
}

/** A page on which nothing may go wrong unseen. */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 980 }, locale: "en-US", ...options });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const page = await context.newPage();
  page.problems = [];
  page.on("console", (message) => message.type() === "error" && page.problems.push(message.text()));
  page.on("pageerror", (error) => page.problems.push(error.message));
  page.on("request", (request) => {
    const isOwn = request.url().startsWith(new URL(url).origin) || request.url().startsWith("data:") || request.url().startsWith("blob:");
    if (!isOwn) page.problems.push(`asked ${request.url()}`);
  });
  await page.goto(url);
  await page.waitForSelector("html[data-ready=true]");
  return page;
}
