"""`guard`: prints the doctor's diagnosis when PyTorch runs out of memory.

It hooks and records nothing before that, so a loop inside a guard runs at full speed. With
`record=True` PyTorch records allocations, which costs time.
"""

import contextlib
import os
import subprocess
import sys
import time
import traceback

import torch

import fitgpt

from .report import size
from .words import say

OutOfMemory = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)


@contextlib.contextmanager
def guard(config=None, *, record=False):
    """Diagnoses an out-of-memory error, prints the diagnosis to stderr, and re-raises the error.

    `config` is a nanoGPT config file, or a dict of its keys. With `record=True` allocations are
    recorded, and a snapshot is written to the current folder when memory runs out.
    """
    if record:
        start_recording()
    try:
        yield
    except OutOfMemory as error:
        diagnose(error, config, record=record)
        raise
    finally:
        if record:
            with contextlib.suppress(Exception):  # the run's own error must arrive
                stop_recording()


def diagnose(error, config=None, *, record=False, file=None):
    """Prints the doctor's diagnosis of `error`; never raises."""
    file = file or sys.stderr
    try:
        print(diagnosis(error, config), file=file)
        if record and (path := write_snapshot()):
            print(say("snapshot-written", path=path), file=file)
            print(largest_blocks(), file=file)
    except Exception as failure:  # the run's error matters more than this one
        with contextlib.suppress(Exception):  # a closed stderr, too
            print("fitgpt: " + say("no-diagnosis", reason=failure), file=file)


def diagnosis(error, config=None):
    """The doctor's answer for a caught error."""
    command = [fitgpt.program(), "doctor", "-"]
    if isinstance(config, dict):
        command += [f"--{key}={value}" for key, value in config.items()]
    elif config is not None:
        command += ["--config", os.fspath(config)]
    done = subprocess.run(command, input=log_of(error), capture_output=True, text=True)
    if not done.stdout:
        raise RuntimeError(done.stderr.strip() or "the doctor printed nothing")
    return done.stdout.rstrip()


def log_of(error):
    """The traceback and message as in a log, plus the allocator's exact numbers."""
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        lines.append(
            f"torch.cuda: {torch.cuda.memory_allocated()} bytes allocated, "
            f"{torch.cuda.memory_reserved()} bytes reserved, "
            f"{torch.cuda.max_memory_allocated()} bytes allocated at most, "
            f"{free} bytes free of {total} on {torch.cuda.get_device_name()}\n"
        )
    return "".join(lines)


def start_recording():
    if torch.cuda.is_available():
        torch.cuda.memory._record_memory_history(max_entries=100_000)


def stop_recording():
    if torch.cuda.is_available():
        torch.cuda.memory._record_memory_history(enabled=None)


def write_snapshot():
    """Writes the recorded allocations and returns the path, or `None` without a card."""
    if not torch.cuda.is_available():
        return None
    path = time.strftime("fitgpt-oom-%Y%m%d-%H%M%S.pickle")
    torch.cuda.memory._dump_snapshot(path)
    return path


def largest_blocks(snapshot=None, most=8):
    """The largest live blocks of a snapshot, by the line that allocated them."""
    held = {}
    for segment in (snapshot or torch.cuda.memory._snapshot())["segments"]:
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                line = _source_line(block.get("frames", []))
                count, total = held.get(line, (0, 0))
                held[line] = (count + 1, total + block["size"])
    ranked = sorted(held.items(), key=lambda item: -item[1][1])[:most]
    return "\n".join(f"  {size(total):>11}  {count} × {line}" for line, (count, total) in ranked)


def _source_line(frames):
    """The innermost frame outside PyTorch."""
    for frame in frames:
        name = frame["filename"].replace("\\", "/")
        if name.endswith(".py") and "/torch/" not in name:
            return f"{frame['filename']}:{frame['line']} {frame['name']}"
    return frames[0]["name"] if frames else "unknown"
