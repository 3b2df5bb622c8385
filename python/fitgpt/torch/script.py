"""Runs a training script unchanged on a card that is not there, and reports its memory.

    python -m fitgpt.torch train.py --card "RTX 4070" --batch_size=8

The script runs inside `pretend`, with its own arguments and data, for a few optimizer steps
(`loop.py`), and writes nothing (`nowhere.py`).
"""

import contextlib
import importlib.util
import io
import os
import runpy
import shlex
import sys
import tempfile
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from unittest import mock

import torch

from . import flags, frameworks, ranks
from .changes import changes, lines
from .loop import Finished, Loop, Progress
from .nowhere import Nowhere
from .pretend import pretend
from .report import fragmentation, verdict, what_is_alive
from .words import say

_HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass
class Run:
    """What to run: a file or, with `is_module`, a module, and how."""

    name: str
    arguments: list = field(default_factory=list)
    is_module: bool = False
    card: str = None
    steps: int = 2
    ranks: int = 1
    compile: str = "count"
    overrides: dict = field(default_factory=dict)  # arguments of a `transformers` Trainer


class Counted:
    """A script that was counted; `error` is the traceback of one that failed."""

    def __init__(self, run, measured, loop, names, options, error):
        self.run = run
        self.measured = measured
        self.loop = loop
        self.options = options
        self.error = error
        self.stack = _stack(loop, names)

    @property
    def has_trained(self):
        return self.loop.steps > 0

    def report(self):
        """The report; it ends with the verdict if a card is named, and with what to do if it does not fit."""
        m, loop = self.measured, self.loop
        if not m.peak_bytes:
            return say("script-nothing", script=self.run.name)
        head = say(
            "script-head", script=self.run.name, version=torch.__version__, steps=loop.steps,
            micro_batches=loop.micro_batches, precision=_precision(m),
        )  # fmt: skip
        notes = [say("note", text=note) for note in m.notes]
        for condition, message in (
            (not self.has_trained, "script-no-step"),
            (self.has_trained and not loop.evaluations, "script-no-evaluation"),
            (loop.repeated, "script-repeated"),
        ):
            if condition:
                notes.append(say("note", text=say(message, count=loop.repeated)))
        text = [head, *what_is_alive(m), *lines(m, self.stack), "", *notes, *fragmentation(m)]
        if self.run.card is not None:
            text.append(verdict(m, self.run.card))
            if self.has_trained and not m.fits(self.run.card):
                text.append(say("next", text=self._advising()))
        return "\n".join(text)

    def _advising(self):
        """The command that counts other options."""
        run = self.run
        name = ["-m", run.name] if run.is_module else [run.name]
        ranks = ["--ranks", str(run.ranks)] if run.ranks > 1 else []
        own = ["--", *run.arguments] if run.arguments else []
        command = ["python", "-m", "fitgpt.torch", *name, "--card", run.card, "--advise", *ranks, *own]
        return " ".join(map(shlex.quote, command))

    def _trainer(self):
        """What `advise` must know of a `transformers` Trainer."""
        trainer = self.loop.trainer
        if trainer is None:
            return None
        from .trainer_options import facts

        return facts(trainer)

    def document(self):
        """The same as data."""
        m = self.measured
        found = {
            "script": self.run.name, "arguments": self.run.arguments, "torch": torch.__version__,
            "steps": self.loop.steps, "micro_batches": self.loop.micro_batches,
            "peak_bytes": m.peak_bytes, "allocated_bytes": m.peak_allocated_bytes,
            "reserved_bytes": m.peak_reserved_bytes, "allocator": asdict(m.allocator_settings),
            "phases": [
                {"name": p.name, "peak_bytes": p.peak_bytes, "at": p.peak_op, "kinds": m.by_kind(p)}
                for p in m.phases.values()
            ],
            "changes": [{"name": c.name, "bytes": c.bytes, "text": c.how} for c in changes(m, self.stack)],
            "notes": list(m.notes),
            "options": self.options,
            "stack": self.stack,
            "trainer": self._trainer(),
            "error": self.error,
        }  # fmt: skip
        if self.run.card is not None:
            found["verdict"] = m.verdict(self.run.card)
            found["fits"] = found["verdict"] == "fits"
        return found


def count(run, progress=None):
    """Runs `run` and returns a `Counted`. Meant for a process that does nothing else."""
    progress = progress or Progress()
    error, names, options = None, {}, {}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fitgpt-"))
        m = stack.enter_context(pretend("cuda", card=run.card, compile=run.compile))
        counter = m._counter
        counter.compiled.progress = progress
        loop = Loop(counter, run.steps, progress)
        stack.enter_context(ranks.alone(m.notes, run.ranks))
        stack.enter_context(Nowhere(folder).installed())
        stack.enter_context(frameworks.installed(loop, run.overrides))
        stack.enter_context(flags.recorded(options))
        stack.enter_context(loop.installed())
        try:
            names = _execute(run)
        except Finished as end:
            names = end.names
        except SystemExit as stop:
            if stop.code not in (None, 0):
                error = say("script-exit", code=stop.code)
        except KeyboardInterrupt:
            raise
        except BaseException:
            error = _traceback()
        m.settle()  # before the script's environment ends
    options.update(flags.keys(names))
    return Counted(run, m, loop, names, options, error)


def _execute(run):
    """The script's namespace; a script that is ended leaves it in its frame."""
    name = run.name
    if run.is_module:
        sys.path.insert(0, os.getcwd())
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"No module named {name}")
        start = lambda: runpy.run_module(name, run_name="__main__", alter_sys=True)  # noqa: E731
        path = spec.origin
    else:
        path = os.path.abspath(name)
        sys.path.insert(0, os.path.dirname(path))
        start = lambda: runpy.run_path(path, run_name="__main__")  # noqa: E731
    with mock.patch.object(sys, "argv", [name if not run.is_module else path, *run.arguments]):
        try:
            return start()
        except Finished as end:
            end.names = _names_at(end.__traceback__, path)
            raise


def _names_at(trace, path):
    names = {}
    while trace is not None:
        if os.path.abspath(trace.tb_frame.f_code.co_filename) == path:
            names = trace.tb_frame.f_globals
        trace = trace.tb_next
    return names


def _traceback():
    """The traceback of the error that is handled, without our frames."""
    found = traceback.TracebackException(*sys.exc_info())
    part = found
    while part is not None:
        part.stack[:] = [frame for frame in part.stack if not _is_ours(frame.filename)] or part.stack
        part = part.__cause__ or part.__context__
    return "".join(found.format())


def _is_ours(name):
    return name.startswith((_HERE, "<frozen")) or name.endswith("runpy.py")


def _precision(measured):
    """The types of matrix products."""
    dtypes = {str(dtype).removeprefix("torch.") for dtype in measured._counter.product_dtypes}
    return ", ".join(sorted(dtypes)) or "–"


def _stack(loop, names):
    """Who owns the training loop: it decides what a report says about how to change it."""
    if getattr(loop, "trainer", None) is not None:
        return "transformers"
    if {"GPTConfig", "config_keys", "gradient_accumulation_steps"} <= set(names):
        return "nanogpt"
    if {"lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer"} & set(sys.modules):
        return "lightning"
    return "torch"
