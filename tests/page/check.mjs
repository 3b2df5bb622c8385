// Drives the page of `fitgpt serve` in Chromium: plan, slide, fit, copy, diagnose, watch, stop.
//
//     node tests/page/check.mjs target/debug/fitgpt

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { browser, folder, open, run, serve } from "./server.mjs";

const TINY = ["--n_layer=2", "--n_head=2", "--n_embd=32", "--block_size=32", "--batch_size=4", "--gradient_accumulation_steps=1", "--eval_iters=2", "--device=cpu"];
const chrome = await browser();
let passed = 0;

async function check(name, body) {
  const started = performance.now();
  try {
    await body();
  } catch (error) {
    console.error(`FAILED: ${name}`);
    throw error;
  }
  passed += 1;
  console.log(`ok ${name} (${Math.round(performance.now() - started)} ms)`);
}

/** Waits until `read` returns something that `holds`. */
async function until(what, read, holds = Boolean, ms = 30000) {
  const end = Date.now() + ms;
  let last;
  while (Date.now() < end) {
    last = await read();
    if (holds(last)) return last;
    await new Promise((done) => setTimeout(done, 50));
  }
  assert.fail(`waited in vain until ${what}: ${JSON.stringify(last)}`);
}

const clipboard = (page) => page.evaluate(() => navigator.clipboard.readText());
const planned = (page) => page.evaluate(() => Number(document.getElementById("main").dataset.plans ?? 0));
const peaks = (page) => page.locator(".peaktext").allTextContents();
const verdicts = (page) => page.locator(".panel").evaluateAll((panels) => panels.map((panel) => panel.dataset.verdict));

/** Heights of the peak with its overhead and of the budget in PyTorch's picture; 0 is the top. */
const lines = (page) => page.locator(".panel[data-engine=torch] .plot").evaluate((plot) => ({
  peak: Number(plot.querySelector(".overhead").getAttribute("y")),
  budget: Number(plot.querySelector(".budget").getAttribute("y1")),
}));

/** Sets a slider as a hand does, and waits for the picture. */
async function slide(page, key, index) {
  const before = await planned(page);
  await page.locator(`.slider[data-key="${key}"] input[type=range]`).evaluate((range, index) => {
    range.value = index;
    range.dispatchEvent(new Event("input", { bubbles: true }));
  }, index);
  await until("the plan has changed", () => planned(page), (count) => count > before);
}

const place = folder();
const server = await serve(place);

await check("the page is there at once and plans both engines", async () => {
  const page = await open(chrome, server.origin);
  await until("there is a plan", () => planned(page));
  assert.equal(await page.locator(".panel").count(), 2);
  assert.deepEqual(await verdicts(page), ["fits", "fits"]);
  // Each class has its area, and the budget its line.
  assert.ok((await page.locator(".panel[data-engine=torch] path[data-class]").count()) >= 5);
  assert.equal(await page.locator(".panel .budget").count(), 2);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

await check("sliders change the picture, the product can be kept, and the address holds it", async () => {
  const page = await open(chrome, server.origin);
  await until("there is a plan", () => planned(page));
  const before = await peaks(page);
  await slide(page, "batch_size", 12); // of 1, 2, 3, 4, 6, …: 96
  assert.notDeepEqual(await peaks(page), before);
  assert.equal((await verdicts(page))[0], "no");
  await page.fill("#key-batch_size", "32");
  await page.fill("#key-gradient_accumulation_steps", "15");
  await until("the product is shown", () => page.locator(".product").textContent(), (text) => text.startsWith("480 "));
  await page.check("#lock");
  await slide(page, "batch_size", 3); // of the divisors of 480: 4
  assert.equal(await page.inputValue("#key-batch_size"), "4");
  assert.equal(await page.inputValue("#key-gradient_accumulation_steps"), "120");
  await until("the address has it", () => page.url(), (url) => url.includes("batch_size=4") && url.includes("lock=1"));
  const shown = await peaks(page);
  const other = await open(chrome, page.url());
  await until("the link shows the same", () => peaks(other), (found) => JSON.stringify(found) === JSON.stringify(shown));
  assert.deepEqual([...page.problems, ...other.problems], []);
  await page.context().close();
  await other.context().close();
});

await check("the pointer and the keys show what is alive", async () => {
  const page = await open(chrome, server.origin);
  await until("there is a plan", () => planned(page));
  const plot = page.locator(".panel[data-engine=torch] .plot");
  const box = await plot.boundingBox();
  await page.mouse.move(box.x + box.width * 0.35, box.y + box.height * 0.6);
  const text = await until("tensors are listed", () => page.locator("#tip").textContent(), (text) => text.includes("live tensors"));
  assert.match(text, /GiB/);
  await page.mouse.move(5, 5);
  await until("it is hidden", () => page.locator("#tip").isHidden());
  await plot.focus();
  await page.keyboard.press("ArrowRight");
  const first = await page.locator("#tip").textContent();
  await page.keyboard.press("ArrowRight");
  assert.notEqual(await page.locator("#tip").textContent(), first);
  await page.context().close();
});

await check("a config is pasted, does not fit, is made to fit, and is copied", async () => {
  const page = await open(chrome, server.origin);
  await until("there is a plan", () => planned(page));
  await page.click("summary");
  await page.fill("#config", readFileSync(new URL("../../examples/estimate-loss-batch-64.py", import.meta.url), "utf8"));
  await until("it does not fit", () => verdicts(page), ([torch]) => torch === "no");
  await page.click("#fit");
  await page.waitForSelector(".options .apply");
  await page.locator("tr:has(.badge) .apply").first().click();
  await until("it fits", () => verdicts(page), ([torch]) => torch === "fits");
  assert.equal(await page.locator(".panel[data-engine=torch] .ghost").count(), 1);
  await page.click("#copy-command");
  assert.match(await clipboard(page), /^fitgpt patch \. --apply --only loss-alone && python train\.py config\.py .*--batch_size=\d+/);
  await page.click("#copy-config");
  const config = await clipboard(page);
  assert.match(config, /# GPT-2 \(124M\) on a 12 GB card/);
  writeFileSync(join(place, "copied.py"), config);
  const planned_again = run(place, "plan", "copied.py", "--engine", "torch", "--gpu", "RTX 4070");
  assert.equal(await planned_again.ended, 0, planned_again.output);
  await page.fill("#config", "batch_size = oops\n");
  await page.waitForSelector(".failure");
  await page.context().close();
});

await check("several ranks are planned as `plan --ranks` does", async () => {
  const page = await open(chrome, server.origin);
  await until("there is a plan", () => planned(page));
  await slide(page, "ranks", 3); // of the divisors of 40: 5
  assert.equal(await page.inputValue("#key-ranks"), "5");
  const shown = (await peaks(page)).map((text) => /[\d.]+ GiB/.exec(text)[0]);
  const plan = run(place, "plan", "--engine", "both", "--ranks", "5", "--gpu", "GeForce RTX 4070", "--json");
  assert.equal(await plan.ended, 0, plan.output);
  const { torch, fitgpt } = JSON.parse(plan.answer);
  const sizes = [torch.peak_bytes, fitgpt.arena_bytes].map((bytes) => `${(bytes / 2 ** 30).toFixed(2)} GiB`);
  assert.deepEqual(shown, sizes);
  assert.match(await page.locator("#command").textContent(), /^mpirun -np 5 fitgpt train/);
  await until("the address has it", () => page.url(), (url) => url.includes("ranks=5"));
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

await check("an error is diagnosed, and its fix shrinks under the line", async () => {
  const page = await open(chrome, server.origin);
  await page.getByRole("link", { name: "Doctor" }).click();
  await page.waitForSelector("#log");
  await page.fill("#log", readFileSync(new URL("../../examples/estimate-loss-batch-64.log", import.meta.url), "utf8"));
  await page.waitForSelector("#account");
  const key = await page.locator("#account .keyed").textContent();
  assert.match(key, /logits of the previous batch/);
  // They are the widest part of what the process held, and the request goes past the card's line.
  const held = await page.locator("#account .bar rect.gap").evaluateAll((all) => all.map((rect) => Number(rect.getAttribute("width"))));
  assert.equal(held.indexOf(Math.max(...held)), 1, held.join(" "));
  assert.ok(held[1] > 300, `${held[1]} of 1000`);
  assert.equal(await page.locator("#account .bar .limit").count(), 1);
  assert.match(await page.locator("#findings").textContent(), /stale-logits/);
  await page.locator("#steps .command button").first().click();
  assert.match(await clipboard(page), /python train\.py/);
  await page.locator("#findings button").first().click();
  await page.waitForSelector(".explain");
  await page.locator("#steps .fix .try").first().click();
  await until("the planner shows the run", () => page.inputValue("#key-batch_size").catch(() => ""), (value) => value === "64");
  assert.equal((await verdicts(page))[0], "no");
  const before = await lines(page);
  assert.ok(before.peak < before.budget, `above the line of the card: ${JSON.stringify(before)}`);
  await until("the fix is applied", () => verdicts(page), ([torch]) => torch === "fits");
  const after = await lines(page);
  assert.ok(after.peak > after.budget, `below the line of the card: ${JSON.stringify(after)}`);
  assert.match(await page.locator(".panel[data-engine=torch] .budgettext").textContent(), /RTX 4070 · 11\.69 GiB/);
  await page.click("#copy-command");
  assert.match(await clipboard(page), /python train\.py .*--\w+=/);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

await check("a snapshot is dropped and shows who owns its segments", async () => {
  const page = await open(chrome, `${server.origin}/#/doctor`);
  await page.setInputFiles("#file", { name: "snapshot.pickle", mimeType: "application/octet-stream", buffer: snapshot() });
  await page.waitForSelector("#segments");
  assert.match(await page.locator("#segments .keyed").textContent(), /train\.py:12 forward/);
  // As a drop, too, and one that would run code is refused.
  const drop = await page.evaluateHandle(() => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array([0x80, 2, 0x63, 0x6f, 0x73, 0x0a, 0x73, 0x0a, 0x2e])], "evil.pickle"));
    return data;
  });
  await page.dispatchEvent(".dropzone", "drop", { dataTransfer: drop });
  await page.waitForSelector(".failure");
  await page.context().close();
});

await check("text from elsewhere stays text", async () => {
  const page = await open(chrome, `${server.origin}/#/doctor`);
  const hostile = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>";
  await page.fill("#log", `${hostile}\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.14 GiB. GPU 0 has a total capacity of 11.69 GiB of which 2.68 GiB is free. Process 2208 has ${hostile} MiB memory in use.\n  File "${hostile}.py", line 3, in ${hostile}\n`);
  await until("it is diagnosed", () => page.locator("#diagnosis").textContent(), (text) => text.includes("GPU memory"));
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  const blocked = await page.evaluate(() => new Promise((done) => {
    document.addEventListener("securitypolicyviolation", () => done(true));
    const script = document.createElement("script");
    script.textContent = "window.hacked = 1";
    document.head.append(script);
    setTimeout(() => done(false), 1000);
  }));
  assert.ok(blocked, "an inline script must be blocked");
  await page.context().close();
});

await check("another site cannot read from the server", async () => {
  const page = await (await chrome.newContext()).newPage();
  await page.goto("data:text/html,<title>another site</title>");
  const read = await page.evaluate(async (origin) => {
    const tries = [
      () => fetch(`${origin}/api/runs`).then((it) => it.text()),
      () => fetch(`${origin}/api/plan`, { method: "POST", body: "{}" }).then((it) => it.text()),
      () => fetch(`${origin}/api/hello`, { mode: "no-cors" }).then((it) => it.text()).then((text) => { if (!text) throw new Error("opaque"); return text; }),
    ];
    const results = [];
    for (const attempt of tries) results.push(await attempt().then(() => "read").catch(() => "refused"));
    return results;
  }, server.origin);
  assert.deepEqual(read, ["refused", "refused", "refused"]);
  await page.context().close();
});

await check("a run is watched live from its start to its end", async () => {
  const page = await open(chrome, `${server.origin}/#/runs`);
  await page.waitForSelector("#norun:not([hidden])");
  const training = run(place, "train", ...TINY, "--max_iters=150", "--eval_interval=50", "--sample_interval=50", "--max_new_tokens=60", "--out_dir=out-live");
  await until("it is listed", () => page.locator("#runlist li").count());
  const steps = new Set();
  await until("it is done", async () => {
    const text = await page.locator("#runlist .row span:nth-child(2)").first().textContent().catch(() => "");
    steps.add(text);
    return page.locator("#runlist li").first().getAttribute("data-state").catch(() => "");
  }, (state) => state === "done");
  assert.equal(await training.ended, 0, training.output);
  assert.match(training.output, /this run is shown at http:\/\/127\.0\.0\.1:\d+\/#\/runs\?run=/);
  await until("the curve is whole", () => page.locator("#runfacts").textContent(), (text) => text.includes("150"));
  assert.ok((await page.locator(".chart .line.c0").first().getAttribute("d")).length > 500);
  // Four evaluations, of both splits.
  await until("the evaluations are drawn", () => page.locator(".chart.large .dot").count(), (count) => count === 8);
  // Three samples, the last one first.
  await until("the last sample is shown", () => page.locator("#samples").textContent(), (text) => text.includes("150"));
  const last = await page.locator("#samples .sample").textContent();
  await page.locator("#samples input").focus();
  await page.keyboard.press("Home");
  await until("the first sample is shown", () => page.locator("#samples .sample").textContent(), (text) => text && text !== last);
  const other = run(place, "train", ...TINY, "--max_iters=40", "--out_dir=out-other", "--learning_rate=0.01");
  assert.equal(await other.ended, 0, other.output);
  await until("both are listed", () => page.locator("#runlist li").count(), (count) => count === 2);
  await page.locator("#runlist li:not(.shown) input").click();
  await until("both are drawn", () => page.locator(".chart.large .line").count(), (count) => count === 2);
  await until("the difference is listed", () => page.locator("#configs").textContent(), (text) => text.includes("learning_rate"));
  await page.check("#log-axis");
  // Zoom: drag over the middle of the chart.
  const box = await page.locator(".chart.large svg").boundingBox();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 100);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 100, { steps: 4 });
  await page.mouse.up();
  await page.getByText("whole run").click();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

await check("a run is started from the planner, watched and stopped, with a token", async () => {
  const shown = folder();
  const armed = await serve(shown, "--allow-train");
  const refused = await (await chrome.newContext()).newPage();
  assert.equal((await refused.goto(armed.origin)).status(), 401);
  await refused.context().close();
  const page = await open(chrome, armed.address);
  assert.ok(!page.url().includes("token"), page.url());
  const keys = TINY.map((arg) => arg.slice(2)).join("&");
  await page.goto(`${armed.origin}/#/plan?preset=config/stories.py&gpu=here&engine=fitgpt&max_iters=1000000&${keys}`);
  await page.fill("#run-name", "from-the-page");
  await until("there is a plan", () => planned(page));
  await page.click("#train");
  await page.waitForSelector("#stop:not([hidden])", { timeout: 60000 });
  await until("it trains", () => page.locator("#runfacts").textContent(), (text) => /step \d{2,}/.test(text));
  await page.click("#stop");
  await until("it is saved", () => page.locator("#state").textContent(), (text) => text.includes("saved"));
  assert.deepEqual(page.problems, []);
  await page.context().close();
  armed.child.kill("SIGINT");
  assert.equal(await armed.child.ended, 0);
});

await check("four languages, two themes, and a phone without a sideways scroll", async () => {
  const page = await open(chrome, server.origin);
  const titles = new Set();
  for (const lang of ["en", "zh", "ja", "de"]) {
    await page.selectOption("#language", lang);
    await until("the language is set", () => page.evaluate(() => document.documentElement.lang), (found) => found === lang);
    await page.waitForSelector(".panel .sentence");
    titles.add(await page.locator("nav").textContent());
    for (const tab of ["plan", "doctor", "runs"]) {
      await page.goto(`${server.origin}/#/${tab}`);
      await page.waitForTimeout(150);
      // A word without a translation shows its key.
      assert.doesNotMatch(await page.locator("body").innerText(), /\b(key|col|tab|state|group|chart|theme)_[a-z]+/);
    }
    await page.goto(`${server.origin}/#/plan`);
  }
  assert.equal(titles.size, 4);
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  await page.selectOption("#theme", "light");
  const light = await ground();
  await page.selectOption("#theme", "dark");
  assert.notEqual(await ground(), light);
  await page.context().close();
  const phone = await open(chrome, server.origin, { viewport: { width: 390, height: 844 }, hasTouch: true });
  for (const tab of ["plan", "doctor", "runs"]) {
    await phone.goto(`${server.origin}/#/${tab}`);
    await phone.waitForTimeout(400);
    const overflow = await phone.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `${tab}: ${overflow} px wider than the screen`);
  }
  await phone.context().close();
});

await check("nothing moves while the page loads and plans", async () => {
  const context = await chrome.newContext({ viewport: { width: 1440, height: 980 } });
  const page = await context.newPage();
  await page.addInitScript(() => {
    window.shifts = [];
    new PerformanceObserver((list) => {
      for (const shift of list.getEntries()) {
        const from = shift.sources.map(({ node }) => node?.className?.baseVal ?? node?.className ?? node?.nodeName).join(" ");
        window.shifts.push({ value: shift.value, from });
      }
    }).observe({ type: "layout-shift", buffered: true });
  });
  for (const tab of ["plan", "doctor", "runs"]) {
    await page.goto("about:blank");
    await page.goto(`${server.origin}/#/${tab}`);
    await page.waitForSelector("html[data-ready=true]");
    await page.waitForTimeout(400);
    if (tab === "plan") for (const index of [4, 12, 2]) await slide(page, "batch_size", index);
    await page.waitForTimeout(100);
    const shifts = await page.evaluate(() => window.shifts);
    const sum = shifts.reduce((all, shift) => all + shift.value, 0);
    // What people notice begins at 0.1.
    assert.ok(sum < 0.02, `${tab}: ${JSON.stringify(shifts)}`);
  }
  await context.close();
});

await check("everything can be reached with the keyboard", async () => {
  const page = await open(chrome, server.origin);
  await until("there is a plan", () => planned(page));
  const reached = new Set();
  for (let n = 0; n < 60; n++) {
    await page.keyboard.press("Tab");
    reached.add(await page.evaluate(() => document.activeElement?.id || document.activeElement?.className?.baseVal || document.activeElement?.className));
  }
  for (const id of ["language", "preset", "card", "key-batch_size", "lock", "key-ranks", "key-dtype", "fit", "copy-command", "plot"]) {
    assert.ok(reached.has(id), `${id} of ${[...reached].join(" ")}`);
  }
  const before = await planned(page);
  await page.locator(".slider[data-key=n_layer] input[type=range]").focus();
  await page.keyboard.press("ArrowRight");
  await until("a key moves a slider", () => planned(page), (count) => count > before);
  await page.context().close();
});

await chrome.close();
server.child.kill("SIGINT");
assert.equal(await server.child.ended, 0);
console.log(`${passed} checks passed`);
process.exit(0);

/** A snapshot as PyTorch writes one, protocol 2: 4 GiB by one line, 1 GiB free, 1 GiB by another. */
function snapshot() {
  const bytes = [0x80, 2];
  const write = (value) => {
    if (typeof value === "number") {
      bytes.push(0x8a, 8);
      const number = BigInt(value);
      for (let n = 0n; n < 8n; n++) bytes.push(Number((number >> (8n * n)) & 255n));
    } else if (typeof value === "string") {
      const text = new TextEncoder().encode(value);
      bytes.push(0x58, text.length, 0, 0, 0, ...text);
    } else if (Array.isArray(value)) {
      bytes.push(0x5d, 0x28);
      value.forEach(write);
      bytes.push(0x65);
    } else {
      bytes.push(0x7d, 0x28);
      for (const [key, own] of Object.entries(value)) {
        write(key);
        write(own);
      }
      bytes.push(0x75);
    }
  };
  const block = (gib, state, line) => ({ size: gib * 2 ** 30, state, frames: [{ filename: "/home/me/train.py", line, name: "forward" }] });
  const segment = { total_size: 6 * 2 ** 30, blocks: [block(4, "active_allocated", 12), block(1, "inactive", 0), block(1, "active_allocated", 30)] };
  const failed = { action: "oom", size: 2 * 2 ** 30, device_free: 64 * 2 ** 20, frames: [{ filename: "/home/me/train.py", line: 40, name: "forward" }] };
  write({ segments: [segment], device_traces: [[failed]] });
  return Buffer.from([...bytes, 0x2e]);
}
