#!/usr/bin/env python3
"""Checks that a stored verdict is used only if no input has changed.

    tests/verdicts/check.py

For each part of `scripts/verdict`, in a copy of its inputs: one byte of each file, the version of
each tool, the command, an added and a removed file must each give another hash.
"""

import contextlib
import importlib.machinery
import importlib.util
import io
import shutil
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def load():
    path = str(ROOT / "scripts/verdict")
    loader = importlib.machinery.SourceFileLoader("verdict", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("verdict", loader))
    loader.exec_module(module)
    return module


verdict = load()


def check_inputs(name, root):
    """Changes every input in turn; returns how many there are."""
    tools, command = ["one 1.0", "two 2.0"], ["command", "argument"]
    expected = verdict.key(name, command, root, tools)
    seen = {expected}

    def differs(what, **changed):
        given = {"command": command, "tools": tools, **changed}
        found = verdict.key(name, given["command"], root, given["tools"])
        assert found not in seen, f"{name}: {what} does not change the hash"
        seen.add(found)

    paths = list(verdict.files(name, root).values())
    for path in paths:
        whole = path.read_bytes()
        # One bit, at a place that differs from file to file, so that all hashes differ.
        at = len(seen) % len(whole) if whole else 0
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] if whole else b"x")
        differs(f"a byte of {path.relative_to(root)}")
        path.unlink()
        differs(f"removing {path.relative_to(root)}")
        path.write_bytes(whole)
    assert verdict.key(name, command, root, tools) == expected, "a file was not put back"
    for at in range(len(tools)):
        differs(f"tool {at}", tools=[*tools[:at], "another version", *tools[at + 1 :]])
    differs("the command", command=["command", "another"])
    for pattern in verdict.INPUTS[name]:
        if pattern.endswith("/**") and not pattern.startswith("!"):
            added = root / pattern.removesuffix("/**") / "added.rs"
            added.write_text("")
            differs(f"a file in {pattern}")
            added.unlink()
    return len(paths)


def check_use(name, root):
    """A verdict is stored if the command passes, used if nothing changed, and never otherwise."""
    ran = root / "ran"
    passes = ["sh", "-c", f"echo ran >>{ran}"]
    fails = ["sh", "-c", f"echo ran >>{ran}; false"]

    def runs(command, **options):
        before = len(ran.read_text()) if ran.exists() else 0
        with contextlib.redirect_stdout(io.StringIO()):
            code = verdict.judge(name, command, root=root, tools=["tool 1"], **options)
        return code, ran.exists() and len(ran.read_text()) > before

    assert runs(fails) == (1, True) and not (root / "tests/verdicts" / name).exists()
    assert runs(passes) == (0, True)
    assert runs(passes) == (0, False)
    assert runs(passes, is_fresh=True) == (0, True)
    path = next(iter(verdict.files(name, root).values()))
    path.write_bytes(path.read_bytes() + b" ")
    assert runs(fails) == (1, True), "another command"
    assert runs(passes) == (0, True), "a changed input"
    assert runs(passes) == (0, False)


for part in verdict.INPUTS:
    with tempfile.TemporaryDirectory() as folder:
        for relative, source in verdict.files(part, ROOT).items():
            target = Path(folder, relative)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        count = check_inputs(part, Path(folder))
        check_use(part, Path(folder))
    print(f"{part}: each of {count} files, the tools and the command change the hash")
