"""Reads a run's event files with TensorBoard's own reader and compares them with its log.

    python tests/tensorboard/check.py OUT_DIR

Needs `tensorboard` from PyPI. Ends with exit code 1 and the first difference.
"""

import json
import pathlib
import sys

import numpy
from tensorboard.backend.event_processing import event_accumulator, event_file_loader

TAGS = {
    "step": {"step/loss": "loss", "step/grad_norm": "grad_norm", "lr": "lr",
             "tokens_per_s": "tokens_per_s"},
    "evaluation": {"train/loss": "train_loss", "val/loss": "val_loss"},
}  # fmt: skip


def main(out_dir):
    events = [json.loads(line) for line in (out_dir / "events.jsonl").read_text().splitlines()]
    expected = {}
    for event in events:
        for tag, name in TAGS.get(event["event"], {}).items():
            expected.setdefault(tag, []).append((event["step"], numpy.float32(event[name])))
    if not expected:
        sys.exit(f"{out_dir}: no steps in the log")

    # Every record as it is in the file: nothing may be there twice.
    found, files = {}, list((out_dir / "tensorboard").iterdir())
    if len(files) != 1:
        sys.exit(f"{len(files)} files")
    for event in event_file_loader.EventFileLoader(str(files[0])).Load():
        for value in event.summary.value:
            number = numpy.float32(value.tensor.float_val[0])
            found.setdefault(value.tag, []).append((event.step, number))
    if found != expected:
        sys.exit(f"the file has {found}, the log {expected}")

    # As the web page reads it.
    board = event_accumulator.EventAccumulator(str(out_dir / "tensorboard"),
                                               size_guidance={"tensors": 0, "scalars": 0})  # fmt: skip
    board.Reload()
    if sorted(board.Tags()["tensors"] + board.Tags()["scalars"]) != sorted(expected):
        sys.exit(f"tags: {board.Tags()}")
    # This reader keeps plain numbers as scalars; versions that convert them have tensors.
    curve = board.Scalars if "step/loss" in board.Tags()["scalars"] else board.Tensors
    times = [event.wall_time for event in curve("step/loss")]
    if times != sorted(times):
        sys.exit(f"times: {times}")
    for tag, values in expected.items():
        if [event.step for event in curve(tag)] != [step for step, _ in values]:
            sys.exit(f"{tag}: steps differ")
    count = sum(len(values) for values in expected.values())
    print(f"{len(expected)} curves, {count} numbers: TensorBoard's are the log's")


main(pathlib.Path(sys.argv[1]))
