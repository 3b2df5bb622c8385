"""Compiles CUDA C++ to PTX and stores it in the program: see `scripts/ptx`.

    python tests/cuda/store.py FOLDER

FOLDER has one kernel in each file, as written by `crates/gpu/src/gate.rs`; the end of a file's name is
the kernel's key. NVRTC comes from PyPI (`ptx-requirements.txt`). It is CUDA 12.0's, because the drivers
that load the PTX of a version are those of that version and newer.
"""

import concurrent.futures
import ctypes
import os
import pathlib
import re
import sys

import assemble
import kernels

# Ampere: the first cards with tensor cores for bfloat16. See `crates/gpu/src/cuda/stored.rs`.
ARCHITECTURE = "compute_80"


def packages():
    """The folder in which pip installed NVIDIA's packages."""
    for folder in sys.path:
        found = pathlib.Path(folder, "nvidia")
        if (found / "cuda_nvrtc").is_dir():
            return found
    sys.exit("no NVRTC in this Python: pip install -r tests/cuda/ptx-requirements.txt")


def text_of(library, program, what):
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, text)
    return text.value


def compiled(path):
    """The PTX of a kernel, without comments and empty lines, or an error."""
    root = packages()
    library = ctypes.CDLL(str(sorted((root / "cuda_nvrtc/lib").glob("libnvrtc.so.*"))[-1]))
    includes = [root / "cuda_runtime/include", root / "cuda_nvcc/include"]
    options = [f"--gpu-architecture={ARCHITECTURE}", *(f"--include-path={p}" for p in includes)]
    options = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    source = path.read_text()
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    status = library.nvrtcCompileProgram(program, len(options), options)
    if status != 0:
        return None, f"NVRTC refuses {path.stem}:\n{text_of(library, program, 'ProgramLog').decode()}"
    ptx = text_of(library, program, "PTX").decode()
    library.nvrtcDestroyProgram(ctypes.byref(program))
    if "wmma" in source and "wmma.mma" not in ptx:
        return None, f"the products of {path.stem} do not reach the tensor cores"
    # The headers define constants for each architecture, which nothing uses.
    ptx = re.sub(r"^\.global .*2nv6target6detail\w+ = \d+;$", "", ptx, flags=re.MULTILINE)
    lines = (re.sub(r"//.*", "", line).rstrip() for line in ptx.splitlines())
    return without_spills(path.stem, "\n".join(line for line in lines if line).encode() + b"\n")


def without_spills(name, ptx):
    """The PTX, with `.minnctapersm 1` if it spills without that, or an error.

    ptxas targets several blocks per multiprocessor, and may therefore spill though a thread
    could have more registers. One block is enough for the kernels of wide heads.
    """
    error, spilled = judged(ptx)
    if error or not spilled:
        return ptx, error
    alone = re.sub(rb"^(\.maxntid .*\n)", rb"\1.minnctapersm 1\n", ptx, flags=re.MULTILINE)
    error, spilled = judged(alone)
    if spilled and not error:
        error = f"{name} spills: " + ", ".join(f"{count} bytes on {card}" for card, count in spilled.items())
    return alone, error


def judged(ptx):
    """The first error on any architecture, or an empty string, and the bytes that it spills on each."""
    ptxas = assemble.assembler()
    verdicts = {name: assemble.judge(ptx, ptxas, name) for name in assemble.ARCHITECTURES}
    errors = [error for error, _, _ in verdicts.values() if error]
    return "".join(errors[:1]), {name: spilled for name, (_, spilled, _) in verdicts.items() if spilled}


def main():
    paths = sorted(pathlib.Path(sys.argv[1]).glob("*.cu"))
    if not paths:
        sys.exit(f"no kernel in `{sys.argv[1]}`")
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(compiled, paths, chunksize=4))
    faults = [fault for _, fault in results if fault]
    if faults:
        sys.exit("\n".join(faults))
    stored = [(path.stem.rsplit("-", 1)[1], ptx) for path, (ptx, _) in zip(paths, results)]
    unpacked, packed = kernels.write(stored)
    print(f"{len(stored)} kernels: {unpacked / 1e6:.1f} MB of PTX, {packed / 1e6:.2f} MB stored")


if __name__ == "__main__":
    main()
