"""Writes GPT-2's merges as the program holds them: `crates/data/src/tokenizer/gpt2/merges.bin`.

    python tools/gpt2_merges.py vocab.bpe crates/data/src/tokenizer/gpt2/merges.bin

`vocab.bpe` is OpenAI's file (the crate `tiktoken-rs` and every copy of GPT-2 have it). A merge is
two little-endian 16-bit token ids; merge number i makes token 256 + i.
"""

import struct
import sys
from pathlib import Path

N_MERGES = 50_000


def byte_characters():
    """The printable character that `vocab.bpe` writes for each byte, in the order of the ids."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return [*map(chr, printable), *(chr(256 + i) for i in range(len(others)))]


def main(source, target):
    ids = {character: i for i, character in enumerate(byte_characters())}
    out = bytearray()
    for line in Path(source).read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#version"):
            continue
        left, right = line.split(" ")
        out += struct.pack("<HH", ids[left], ids[right])
        ids[left + right] = len(ids)
    if len(out) != 4 * N_MERGES:
        sys.exit(f"`{source}` has {len(out) // 4} merges, not {N_MERGES}")
    Path(target).write_bytes(out)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
