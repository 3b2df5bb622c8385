"""Looks cards up by name, through the `fitgpt` program.

The program has the catalogue and understands names as people write them (`4070 Laptop`, `A100
80GB`). This starts it once for each card, so that Python needs no second copy of the catalogue.
"""

import functools
import json
import re
import subprocess
from dataclasses import dataclass

import fitgpt

# The compute capability of NVIDIA's cards, by the first pattern that matches the catalogue's name.
_CAPABILITIES = (
    (r"P100", (6, 0)),
    (r"GTX 10|Titan X|P40", (6, 1)),
    (r"V100|Titan V", (7, 0)),
    (r"Ada\b|GeForce RTX 40\d\d|\bL4\b|\bL40", (8, 9)),
    (r"GTX 16|RTX 20|T4\b|Titan RTX|Quadro RTX", (7, 5)),
    (r"A100|A800|A30\b", (8, 0)),
    (r"RTX 30|RTX A\d|\bA(2|10|10G|16|40)\b", (8, 6)),
    (r"\bG?H(100|200|800|20)\b|GH200", (9, 0)),
    (r"\bG?B300", (10, 3)),
    (r"\bG?B(100|200)\b", (10, 0)),
    (r"RTX 50|RTX PRO", (12, 0)),
)
# Of a card that is not NVIDIA's or not known: Ada's, whose attention kernels are the usual ones.
USUAL = (8, 9)


@dataclass(frozen=True)
class Card:
    """The memory of a card that a process can use."""

    name: str
    usable_bytes: int
    context_low_bytes: int
    context_high_bytes: int
    total_bytes: int

    @property
    def capability(self):
        """The CUDA compute capability, `USUAL` if it is not known."""
        return next((number for pattern, number in _CAPABILITIES if re.search(pattern, self.name)), USUAL)

    def verdict(self, fits_in):
        """`fits_in` returns whether a run fits in so many bytes, without CUDA's context."""
        if fits_in(self.usable_bytes - self.context_high_bytes):
            return "fits"
        return "tight" if fits_in(self.usable_bytes - self.context_low_bytes) else "no"


@functools.lru_cache
def find(name):
    """The card that `name` means; raises `ValueError` with the nearest names if there is none."""
    command = [fitgpt.program(), "plan", "--engine", "torch", "--compile=False", "--n_layer=1"]
    answer = subprocess.run([*command, "--gpu", name, "--json"], capture_output=True, text=True)
    plan = json.loads(answer.stdout or "{}")
    if "device" not in plan:
        message = plan.get("error", {}).get("message")
        raise ValueError(message or answer.stderr.strip() or f"no card is called {name!r}")
    device, overhead = plan["device"], plan["overhead"]
    low, high = overhead["context_bytes"]
    return Card(device["name"], device["usable_bytes"], low, high, device["total_bytes"])
