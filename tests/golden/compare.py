"""Compares two folders of golden files: the committed ones and ones just made.

    python compare.py COMMITTED MADE

Values may differ by 1e-6 of their tensor's largest magnitude: the truth is computed in
float64, so another processor moves a value by one float32 rounding (6e-8) at most, and
Adam's divisions may widen that a little. Names, shapes, types, metadata and JSON files
must be equal; only the measured `float32_error` is the processor's own and may differ.
"""

import json
import pathlib
import sys

import numpy as np
from safetensors import safe_open

TOLERANCE = 1e-6


def read(path):
    """The tensors and the metadata of one file."""
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        facts = dict(file.metadata() or {})
    if "golden" in facts:
        golden = json.loads(facts["golden"])
        golden.pop("float32_error", None)
        facts["golden"] = golden
    return tensors, facts


def differences(committed, made):
    """The differences of two safetensors files, one sentence each."""
    (old, old_facts), (new, new_facts) = read(committed), read(made)
    if old_facts != new_facts:
        yield f"metadata differs: {old_facts} and {new_facts}"
    if old.keys() != new.keys():
        yield f"only one file has {sorted(old.keys() ^ new.keys())}"
    for name in sorted(old.keys() & new.keys()):
        a, b = old[name], new[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            yield f"`{name}` is {a.dtype} {a.shape} and {b.dtype} {b.shape}"
            continue
        far = np.abs(a.astype(np.float64) - b).max()
        allowed = TOLERANCE * np.abs(a).max() if a.dtype == np.float32 else 0
        if not far <= allowed:  # also true of a NaN
            yield f"`{name}` differs by {far:.2e}, allowed {allowed:.2e}"


def files(folder):
    """The files that the scripts write, by their path in the folder."""
    found = [*folder.rglob("*.safetensors"), *folder.rglob("*.json")]
    return {path.relative_to(folder) for path in found}


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: compare.py COMMITTED MADE")
    committed, made = map(pathlib.Path, sys.argv[1:])
    faults = [f"`{path}` is only in one folder" for path in sorted(files(committed) ^ files(made))]
    both = sorted(files(committed) & files(made))
    for path in both:
        if path.suffix == ".json":
            if json.loads((committed / path).read_text()) != json.loads((made / path).read_text()):
                faults.append(f"`{path}` differs")
        else:
            faults += [f"`{path}`: {fault}" for fault in differences(committed / path, made / path)]
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults or not both:
        sys.exit(1)
    print(f"{len(both)} files agree within {TOLERANCE:g}")


if __name__ == "__main__":
    main()
