"""Compiles CUDA C++ with NVIDIA's compilers, and refuses kernels that spill.

    python tests/cuda/compile.py FOLDER [sm_89 …]

FOLDER has one kernel in each file, as written by `crates/gpu/src/gate.rs`. NVRTC compiles it to PTX
and ptxas to machine code, as on a card; both come from PyPI (`requirements.txt`), and no driver is
needed. Exits with 1 if a kernel does not compile, spills registers, or multiplies 16-bit types
without tensor cores.
"""

import concurrent.futures
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def toolkit():
    """The folder in which pip installed NVIDIA's files."""
    for folder in sys.path:
        found = sorted(pathlib.Path(folder).glob("nvidia/cu*/bin/ptxas"))
        if found:
            return found[-1].parent.parent
    sys.exit("no `ptxas` in this Python: pip install -r tests/cuda/requirements.txt")


class Nvrtc:
    """The few calls of libnvrtc that turn a text into PTX."""

    def __init__(self, root, architecture):
        found = sorted((root / "lib").glob("libnvrtc.so.*"))
        if not found:
            sys.exit(f"no `libnvrtc.so` under `{root}`")
        self.library = ctypes.CDLL(str(found[-1]))
        self.options = [
            f"--gpu-architecture={architecture}",
            f"--include-path={root / 'include'}",
            "-lineinfo",
        ]

    def _text(self, program, what):
        size = ctypes.c_size_t()
        getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        getattr(self.library, f"nvrtcGet{what}")(program, text)
        return text.value

    def ptx(self, source):
        """PTX, or `None`, with the compiler's log."""
        program = ctypes.c_void_p()
        text = source.encode()
        self.library.nvrtcCreateProgram(ctypes.byref(program), text, b"kernel.cu", 0, None, None)
        options = (ctypes.c_char_p * len(self.options))(*(o.encode() for o in self.options))
        status = self.library.nvrtcCompileProgram(program, len(options), options)
        log = self._text(program, "ProgramLog").decode()
        ptx = self._text(program, "PTX") if status == 0 else None
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        return ptx, log


def judge(path, nvrtc, root, architecture):
    """The error of a kernel, or an empty string, and its resources."""
    source = path.read_text()
    ptx, log = nvrtc.ptx(source)
    if ptx is None:
        return f"NVRTC refuses it:\n{log}", ""
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder, "kernel.ptx")
        text.write_bytes(ptx.rstrip(b"\0"))
        cubin = pathlib.Path(folder, "kernel.cubin")
        command = [root / "bin/ptxas", f"-arch={architecture}", "-v", text, "-o", cubin]
        ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        return f"ptxas refuses it:\n{ran.stderr}", ""
    found = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", ran.stderr)
    registers = re.search(r"Used (\d+) registers", ran.stderr)
    if not found or not registers:
        return f"ptxas does not report its resources:\n{ran.stderr}", ""
    spills = sum(int(count) for count in found.groups())
    if spills:
        return f"it spills {spills} bytes, with {registers[1]} registers", ""
    if "wmma" in source and b"wmma.mma" not in ptx:
        return "its products do not reach the tensor cores", ""
    tensor = ", tensor cores" if b"wmma.mma" in ptx else ""
    return "", f"{registers[1]} registers{tensor}"


def refused(files, root, architecture):
    """How many kernels are refused for an architecture."""
    nvrtc = Nvrtc(root, architecture)
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        verdicts = pool.map(lambda path: judge(path, nvrtc, root, architecture), files)
        for path, (fault, facts) in zip(files, verdicts):
            if fault:
                wrong += 1
                print(f"{architecture} {path.stem}: {fault}", file=sys.stderr)
            else:
                print(f"{architecture} {path.stem}: {facts}")
    print(f"{len(files)} kernels for {architecture}, {wrong} refused")
    return wrong


def main():
    folder = pathlib.Path(sys.argv[1])
    files = sorted(folder.glob("*.cu"))
    if not files:
        sys.exit(f"no kernel in `{folder}`")
    root = toolkit()
    wrong = sum(refused(files, root, name) for name in sys.argv[2:] or ["sm_89"])
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
