#!/usr/bin/env python3
"""Counts nanochat's `scripts/base_train.py`, unchanged, for several depths, batches and cards.

    PYTHONPATH=python tools/count_nanochat.py CHECKOUT [DEPTH…]

CHECKOUT is github.com/karpathy/nanochat; its packages (`tiktoken`, `rustbpe`, `pyarrow`) are installed.
The data is made here: a tokenizer with nanochat's vocabulary of 32,768, and two files of documents of one
word. Each run evaluates, makes two optimizer steps and stops. For every depth this counts batches of
powers of two, until the largest that fits each card and the next are counted; a card that is smaller than
weights, gradients and optimizer states alone is left out. Prints the table of `docs/nanochat.md`.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

CARDS = {"12 GB": "RTX 4070", "16 GB": "RTX 4060 Ti 16 GB", "24 GB": "RTX 4090"}
DEPTHS = (4, 8, 12, 16, 20, 24, 28, 32)
VOCABULARY, SEQUENCE = 32768, 2048
GIB = 1 << 30


def prepare(checkout, base):
    """nanochat's tokenizer and data, in the folder that NANOCHAT_BASE_DIR names."""
    import pickle

    import pyarrow
    import pyarrow.parquet
    import tiktoken
    import torch

    sys.path.insert(0, str(checkout))
    from nanochat.tokenizer import SPECIAL_TOKENS, SPLIT_PATTERN

    count = VOCABULARY - len(SPECIAL_TOKENS)
    ranks = {bytes([index]): index for index in range(256)}
    for index in range(256, count):
        ranks[bytes([97, *divmod(index, 256)])] = index
    specials = {name: count + index for index, name in enumerate(SPECIAL_TOKENS)}
    encoding = tiktoken.Encoding(
        "count", pat_str=SPLIT_PATTERN, mergeable_ranks=ranks, special_tokens=specials
    )
    (base / "tokenizer").mkdir()
    (base / "tokenizer/tokenizer.pkl").write_bytes(pickle.dumps(encoding))
    lengths = [len(token) for token in ranks] + [0] * len(specials)
    torch.save(torch.tensor(lengths, dtype=torch.int32), base / "tokenizer/token_bytes.pt")
    from nanochat import dataset

    folder = base / pathlib.Path(dataset.DATA_DIR).name
    folder.mkdir()
    table = pyarrow.table({"text": ["word " * 600] * 4000})
    for index in range(2):
        pyarrow.parquet.write_table(table, folder / f"shard_{index:05d}.parquet", row_group_size=1000)


def run(depth, batch, way):
    """One count, in this process; prints it as JSON."""
    from fitgpt.torch.loop import Progress
    from fitgpt.torch.script import Run, count

    arguments = [
        f"--depth={depth}", f"--device-batch-size={batch}", "--window-pattern=L",
        f"--eval-tokens={4 * batch * SEQUENCE}",
    ]  # fmt: skip
    out, sys.stdout = sys.stdout, sys.stderr
    found = count(Run("scripts.base_train", arguments, is_module=True, card="RTX 4070", compile=way), Progress(sys.stderr))
    sys.stdout = out
    if found.error:
        raise SystemExit(found.error)
    m = found.measured
    document = {
        **found.document(), "verdicts": {size: m.verdict(card) for size, card in CARDS.items()},
        "expandable_bytes": m.allocator(expandable_segments=True).peak_reserved,
    }  # fmt: skip
    print(json.dumps(document, default=str), flush=True)
    os._exit(0)


def counted(checkout, base, depth, batch, way="count"):
    environment = {**os.environ, "NANOCHAT_BASE_DIR": str(base), "OMP_NUM_THREADS": "1"}
    paths = [str(pathlib.Path(__file__).resolve().parent.parent / "python"), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    started = time.monotonic()
    command = [sys.executable, "-W", "ignore", __file__, "--run", str(depth), str(batch), way]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"depth {depth}, batch {batch} failed:\n{done.stderr[-4000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    phases = {phase["name"]: round(phase["peak_bytes"] / GIB, 2) for phase in found["phases"]}
    print(
        f"depth {depth}, batch {batch} ({way}): allocated {found['allocated_bytes'] / (1 << 20):,.1f} MiB, reserved "
        f"{found['reserved_bytes'] / (1 << 20):,.1f} MiB, {phases}, {found['verdicts']}, "
        f"{time.monotonic() - started:.0f} s", file=sys.stderr, flush=True,
    )  # fmt: skip
    return found


def row(checkout, base, depth):
    """The largest batch of powers of two for each card, and its peak."""
    known = {}
    # Not compiled, which takes seconds: the state is the same.
    quick = next(p for p in counted(checkout, base, depth, 1, "eager")["phases"] if p["name"] == "update")
    state = sum(quick["kinds"][kind] for kind in ("parameters", "gradients", "optimizer state"))

    def fits(batch, size):
        if state > USABLE[size] or batch not in known and _is_hopeless(known, batch, size):
            return False
        if batch not in known:
            known[batch] = counted(checkout, base, depth, batch)
        return known[batch]["verdicts"][size] == "fits"

    cells, batch = [], _FIRST.get(depth, 1)
    for size in CARDS:
        while batch > 1 and not fits(batch, size):
            batch //= 2
        while fits(batch, size) and fits(2 * batch, size):
            batch *= 2
        if fits(batch, size):
            cells.append(f"{batch} ({known[batch]['allocated_bytes'] / GIB:.2f})")
        else:
            cells.append("—" if batch not in known else f"— ({known[batch]['allocated_bytes'] / GIB:.2f})")
    return f"| {depth} | {state / GIB:.2f} | {' | '.join(cells)} |"


# Where to begin, so that few batches are counted.
_FIRST = {4: 32, 8: 16, 12: 8, 16: 4, 20: 2}


def _is_hopeless(known, batch, size):
    """Whether memory, which grows by the same bytes with each sequence, is far above the card's."""
    if size in OVER and any(b <= batch and OVER[size] < known[b]["allocated_bytes"] for b in known):
        return True
    if len(known) < 2:
        return False
    (b1, low), (b2, high) = sorted((b, f["allocated_bytes"]) for b, f in known.items())[-2:]
    return high + (high - low) / (b2 - b1) * (batch - b2) > OVER[size]


# What PyTorch sees of each card, and what no estimate of a run that fits can be.
USABLE = {"12 GB": 11.69 * GIB, "16 GB": 15.7 * GIB, "24 GB": 23.7 * GIB}
OVER = {"12 GB": 12.5 * GIB, "16 GB": 16.5 * GIB, "24 GB": 25 * GIB}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("depths", nargs="*", type=int)
    args = parser.parse_args()
    checkout = args.checkout.resolve()
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder)
        os.environ["NANOCHAT_BASE_DIR"] = folder
        prepare(checkout, base)
        print(f"| depth | weights, gradients, states | {' | '.join(f'{size}, {card}' for size, card in CARDS.items())} |")
        print("|--:|--:|" + "--:|" * len(CARDS))
        for depth in args.depths or DEPTHS:
            print(row(checkout, base, depth), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        main()
