"""The file of stored kernels, `kernels.ptx.zst`: for each kernel a line with its key and the length of
its PTX, and then the PTX with a zero byte at its end."""

import pathlib

import zstandard

FILE = pathlib.Path(__file__).parents[2] / "crates/gpu/src/cuda/kernels.ptx.zst"


def write(kernels):
    """Writes kernels, given as pairs of key and PTX, in their order. Returns both sizes in bytes."""
    parts = []
    for key, ptx in kernels:
        parts += [f"{key} {len(ptx) + 1}\n".encode(), ptx, b"\0"]
    unpacked = b"".join(parts)
    packed = zstandard.ZstdCompressor(level=22, write_checksum=False).compress(unpacked)
    FILE.write_bytes(packed)
    return len(unpacked), len(packed)


def read():
    """All kernels, by key."""
    unpacked = zstandard.ZstdDecompressor().decompressobj().decompress(FILE.read_bytes())
    kernels, at = {}, 0
    while at < len(unpacked):
        end = unpacked.index(b"\n", at)
        key, length = unpacked[at:end].decode().split(" ")
        at = end + 1 + int(length)
        kernels[key] = unpacked[end + 1 : at - 1]
    return kernels
