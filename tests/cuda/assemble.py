"""Assembles the stored kernels for NVIDIA's cards, and refuses kernels that spill.

    python tests/cuda/assemble.py [sm_89 … | all]

A card's driver compiles PTX to machine code with the same compiler, ptxas, which comes from PyPI
(`requirements.txt`); neither driver nor card is needed. Exits with 1 if a kernel is refused or spills
registers.
"""

import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import kernels

# Ampere, Ada, Hopper and Blackwell.
ARCHITECTURES = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_120"]


def assembler():
    """The `ptxas` that pip installed."""
    for folder in sys.path:
        found = sorted(pathlib.Path(folder).glob("nvidia/cu[0-9]*/bin/ptxas"))
        if found:
            return found[-1]
    sys.exit("no `ptxas` in this Python: pip install -r tests/cuda/requirements.txt")


def judge(ptx, ptxas, architecture):
    """The error of a kernel, or an empty string, how many bytes it spills, and how many registers it uses."""
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder, "kernel.ptx")
        text.write_bytes(ptx)
        cubin = pathlib.Path(folder, "kernel.cubin")
        command = [ptxas, f"-arch={architecture}", "-v", text, "-o", cubin]
        ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        return f"ptxas refuses it:\n{ran.stderr}", 0, 0
    found = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", ran.stderr)
    registers = re.search(r"Used (\d+) registers", ran.stderr)
    if not found or not registers:
        return f"ptxas does not report its resources:\n{ran.stderr}", 0, 0
    return "", sum(int(count) for count in found.groups()), int(registers[1])


def name_of(ptx):
    return re.search(rb"\.entry (\w+)", ptx)[1].decode()


def refused(stored, ptxas, architecture):
    """How many kernels are refused for an architecture."""
    wrong = 0
    most = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        verdicts = pool.map(lambda ptx: judge(ptx, ptxas, architecture), stored.values())
        for (key, ptx), (fault, spilled, registers) in zip(stored.items(), verdicts):
            name = name_of(ptx)
            most[name] = max(most[name], registers)
            if spilled:
                fault = f"it spills {spilled} bytes, with {registers} registers"
            if fault:
                wrong += 1
                print(f"{architecture} {name} {key}: {fault}", file=sys.stderr)
    tensor = sum(b"wmma.mma" in ptx for ptx in stored.values())
    registers = ", ".join(f"{name} {count}" for name, count in most.most_common(5))
    print(f"{architecture}: {len(stored)} kernels, {tensor} on tensor cores, {wrong} refused")
    print(f"{architecture}: most registers: {registers}")
    return wrong


def main():
    ptxas = assembler()
    stored = kernels.read()
    names = ARCHITECTURES if sys.argv[1:] == ["all"] else sys.argv[1:] or ["sm_89"]
    wrong = sum(refused(stored, ptxas, name) for name in names)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
