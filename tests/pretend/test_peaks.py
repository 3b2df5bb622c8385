"""Compares peaks of nanoGPT's loop with figures of another counter (`peaks_*.jsonl`).

That counter ran on fake CPU tensors with CUDA's rules written into the model, so its figures lack
two things that CUDA holds: the random state that fused attention returns and saves, and the two
scalars of `nll_loss` while the 16-bit log-softmax is alive. The test subtracts both.
"""

import json
import os
import pathlib
import unittest

from pretend import nanogpt, pretend_with_new_sums

HERE = pathlib.Path(__file__).parent
# 16-bit and float32, checkpointing, biases, small and large vocabularies. FITGPT_ALL_ROWS=1: all
# 38.
ROWS = range(38) if os.environ.get("FITGPT_ALL_ROWS") else (19, 22, 25, 34)


def rows(name):
    lines = (HERE / name).read_text().splitlines()
    return [json.loads(lines[index]) for index in ROWS]


class Peaks(unittest.TestCase):
    def test_on_a_cpu_every_peak_is_the_counted_one(self):
        for row in rows("peaks_cpu.jsonl"):
            with self.subTest(**row["config"]):
                with pretend_with_new_sums("cpu") as m:
                    nanogpt.train(row["config"], "cpu", m)
                for name, counted in self.peaks(row):
                    self.assertEqual(m.phases[name].peak_bytes, counted, name)

    def test_on_cuda_every_peak_is_the_counted_one_and_what_it_lacks(self):
        for row in rows("peaks_cuda.jsonl"):
            with self.subTest(**row["config"]):
                with pretend_with_new_sums("cuda") as m:
                    nanogpt.train(row["config"], "cuda", m)
                for name, counted in self.peaks(row):
                    lacks = sum(g.bytes for g in m.alive(name) if self.is_random_state(g))
                    op = row["torch_eager_bytes"].get(name.replace("_peak", "_op"))
                    half_loss = row["config"].get("dtype", "bfloat16") != "float32"
                    is_evaluation = name.startswith("eval")
                    if is_evaluation and half_loss and m.phases[name].peak_op == "nll_loss_forward":
                        self.assertIn(op, ("_to_copy", None))
                        lacks += 2 * 512
                    self.assertEqual(m.phases[name].peak_bytes, counted + lacks, name)

    def peaks(self, row):
        figures = row["torch_eager_bytes"]
        return [(name, figures[name]) for name in figures if name.endswith("_peak")]

    def is_random_state(self, group):
        return "attention" in group.op and group.form.split()[-1] in ("uint64", "int64")


if __name__ == "__main__":
    unittest.main()
