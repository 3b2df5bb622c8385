// Makes the screenshots of the README: `scripts/screenshots` runs it.
//
//     node tests/page/screenshots.mjs target/release/fitgpt

import { readFileSync } from "node:fs";
import { browser, folder, open, run, serve } from "./server.mjs";

const docs = new URL("../../docs/", import.meta.url).pathname;
const size = { width: 1280, height: 800 };
const place = folder();
const common = ["--n_layer=3", "--n_embd=96", "--n_head=3", "--block_size=64", "--batch_size=8", "--gradient_accumulation_steps=1", "--eval_iters=8", "--eval_interval=50", "--max_iters=200", "--sample_interval=50", "--max_new_tokens=120", "--device=cpu"];
for (const [name, ...more] of [["out-small-step", "--learning_rate=0.001"], ["out-large-step", "--learning_rate=0.004"]]) {
  const training = run(place, "train", ...common, ...more, `--out_dir=${name}`);
  if ((await training.ended) !== 0) throw new Error(training.output);
}
const server = await serve(place);
const chrome = await browser();

const plan = await open(chrome, `${server.origin}/#/plan?gpu=GeForce+RTX+4070&engine=torch&batch_size=16&gradient_accumulation_steps=30`, { viewport: size, colorScheme: "light" });
await plan.waitForSelector(".panel .peaktext");
const box = await plan.locator(".panel[data-engine=torch] .plot").boundingBox();
await plan.mouse.move(box.x + box.width * 0.3, box.y + box.height * 0.45);
await plan.waitForFunction(() => document.getElementById("tip").textContent.includes("live tensors"));
await plan.screenshot({ path: `${docs}page-plan.png` });

const doctor = await open(chrome, `${server.origin}/#/doctor`, { viewport: size, colorScheme: "light" });
await doctor.fill("#log", readFileSync(new URL("../../examples/estimate-loss-batch-64.log", import.meta.url), "utf8"));
await doctor.waitForSelector("#account");
await doctor.locator("#log").evaluate((area) => area.blur());
await doctor.screenshot({ path: `${docs}page-doctor.png` });

const runs = await open(chrome, `${server.origin}/#/runs`, { viewport: size, colorScheme: "dark" });
await runs.waitForSelector("#runlist li:nth-child(2)");
await runs.locator("#runlist li:not(.shown) input").click();
await runs.waitForSelector(".chart.large .line.c1");
await runs.waitForTimeout(500);
await runs.screenshot({ path: `${docs}page-runs.png` });

await chrome.close();
server.child.kill("SIGINT");
process.exit(0);
