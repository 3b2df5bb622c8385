"""read_dataset.py FOLDER TEXT: is the dataset in FOLDER the characters of TEXT?

Reads it as nanoGPT does, with nothing but Python: the exit code is the verdict.
"""

import array
import pickle
import sys
from pathlib import Path


def tokens(path):
    read = array.array("H", path.read_bytes())
    if sys.byteorder == "big":
        read.byteswap()
    return read


folder, text_path = map(Path, sys.argv[1:])
text = text_path.read_bytes().decode()
meta = pickle.loads((folder / "meta.pkl").read_bytes())
train, val = tokens(folder / "train.bin"), tokens(folder / "val.bin")

symbols = sorted(set(text))
cut = int(len(text) * 0.9)
checks = {
    "vocab_size": meta["vocab_size"] == len(symbols),
    "itos": meta["itos"] == dict(enumerate(symbols)),
    "stoi": meta["stoi"] == {symbol: i for i, symbol in enumerate(symbols)},
    "train.bin": "".join(meta["itos"][token] for token in train) == text[:cut],
    "val.bin": "".join(meta["itos"][token] for token in val) == text[cut:],
}
wrong = [name for name, is_right in checks.items() if not is_right]
sys.exit(f"{folder} differs from {text_path} in {', '.join(wrong)}" if wrong else 0)
