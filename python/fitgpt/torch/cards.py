"""Looks cards up by name, through the `fitgpt` program.

The program has the catalogue and understands names as people write them (`4070 Laptop`, `A100
80GB`). This starts it once for each card, so that Python needs no second copy of the catalogue.
"""

import functools
import json
import subprocess
from dataclasses import dataclass

import fitgpt


@dataclass(frozen=True)
class Card:
    """The memory of a card that a process can use."""

    name: str
    usable_bytes: int
    context_low_bytes: int
    context_high_bytes: int

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
    return Card(device["name"], device["usable_bytes"], low, high)
