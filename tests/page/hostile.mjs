// Shows hostile texts on the page of `fitgpt serve` in Chromium: names of runs, logs, addresses, answers of a server that is gone.
//
//     node tests/page/hostile.mjs target/debug/fitgpt

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { browser, folder, open, serve } from "./server.mjs";

const HOSTILE = [
  `<img src=x onerror="window.hit=1">`,
  `<script>window.hit=1<\/script>`,
  `"><svg onload=window.hit=1>`,
  `\u202Egnp.exe`,
  `a\u0000b\u001b[31m`,
  `{{constructor.constructor('window.hit=1')()}}`,
  `x`.repeat(3000),
];
const chrome = await browser();
let passed = 0;

async function check(name, body) {
  await body();
  passed += 1;
  console.log(`ok ${name}`);
}

/** Nothing of the texts was executed or became an element. */
async function isUntouched(page) {
  assert.equal(await page.evaluate(() => window.hit), undefined);
  assert.equal(await page.locator("img[src=x], svg[onload], script:not([src]):not([type=\"application/json\"])").count(), 0);
  const width = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(width <= 0, `${width} px wider than the screen`);
}

const place = folder();
HOSTILE.forEach((text, number) => {
  // A file's name cannot have a slash or a NUL, and has at most 255 bytes.
  const run = join(place, text.replaceAll("/", "").replaceAll("\u0000", "").slice(0, 80) + number);
  mkdirSync(run);
  const plan = { event: "plan", step: 0, run_id: text, plan: { device: { name: text }, config: { dataset: text } } };
  const events = [plan, { event: "step", step: 0, loss: 3.5, lr: 0.1, grad_norm: 1, ms: 1, tokens_per_s: 1 },
    { event: "evaluation", step: 0, train_loss: 3, val_loss: 3 }, { event: "sample", step: 0, prompt: text, text },
    { event: "checkpoint", step: 1, save_id: text, path: text }, { event: "end", step: 1, reason: text, seconds: 1 }];
  writeFileSync(join(run, "events.jsonl"), events.map((event) => JSON.stringify(event)).join("\n") + "\n");
});
const server = await serve(place);

await check("names and samples of runs are text", async () => {
  const page = await open(chrome, `${server.origin}/#/runs`);
  await page.waitForTimeout(1500);
  await isUntouched(page);
  assert.ok((await page.locator("body").innerText()).includes("<img src=x"), "the name is not shown as text");
  await page.context().close();
});

await check("a log for the doctor is text", async () => {
  for (const text of HOSTILE) {
    const page = await open(chrome, `${server.origin}/#/doctor`);
    const log = `torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. ${text}\n  File "${text}", line 3, in ${text}`;
    await page.locator("textarea").first().fill(log.replaceAll("\u0000", ""));
    await page.waitForTimeout(300);
    await isUntouched(page);
    await page.context().close();
  }
});

await check("an address is text, whatever follows its #", async () => {
  for (const text of HOSTILE.slice(0, 6)) {
    for (const tab of ["plan?", "runs/", "doctor?", "nothing/", ""]) {
      const page = await open(chrome, `${server.origin}/#/${tab}${encodeURIComponent(text)}=${encodeURIComponent(text)}&batch_size=${encodeURIComponent(text)}`);
      await page.waitForTimeout(50);
      assert.equal(await page.evaluate(() => window.hit), undefined);
      await page.context().close();
    }
  }
});

await check("another site can neither read the page nor send requests", async () => {
  const context = await chrome.newContext();
  const page = await context.newPage();
  await page.goto("about:blank");
  const results = await page.evaluate(async (origin) => {
    const tried = [];
    for (const [path, options] of [["/api/runs", {}], ["/api/plan", { method: "POST", body: "{}", headers: { "Content-Type": "application/json" } }],
      ["/api/plan", { method: "POST", body: "{}", mode: "no-cors" }]]) {
      tried.push(await fetch(origin + path, options).then((it) => it.type === "opaque" ? "opaque" : `read ${it.status}`, () => "refused"));
    }
    const frame = document.createElement("iframe");
    frame.src = origin;
    document.body.append(frame);
    await new Promise((done) => setTimeout(done, 500));
    let content = "none";
    try { content = frame.contentDocument?.body?.innerText ?? "none"; } catch { content = "none"; }
    return { tried, content };
  }, server.origin);
  assert.ok(results.tried.every((it) => it === "refused" || it === "opaque"), JSON.stringify(results));
  assert.ok(results.content === "none" || results.content === "", JSON.stringify(results));
  await context.close();
});

await check("the page survives the end of its server", async () => {
  const page = await open(chrome, `${server.origin}/#/runs`);
  server.child.kill("SIGINT");
  assert.equal(await server.child.ended, 0);
  await page.waitForTimeout(1000);
  page.problems = [];
  await page.evaluate(() => (location.hash = "#/plan"));
  await page.waitForTimeout(500);
  assert.ok((await page.locator("body").innerText()).length > 100, "an empty page");
  await isUntouched(page);
  await page.context().close();
});

await chrome.close();
console.log(`${passed} checks passed`);
process.exit(0);
