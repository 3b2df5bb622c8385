#!/usr/bin/env python3
"""Compares the speed of GPT-2 tokenizers on one core: FitGPT, Python's tiktoken and gigatoken.

    bench/tokenizer.py --ranks r50k_base.tiktoken [--rounds 5] [--megabytes 16] [--write FILE.md]
                       [--encoder target/release/examples/encode_gpt2] [--corpus NAME=FILE ...]
                       [--json tokenizer.json ...] [--preparer target/release/examples/prepare_file]
    bench/tokenizer.py --ranks r50k_base.tiktoken --equal FOLDER ... [--megabytes 1000]

Needs `tiktoken` and `numpy` from PyPI, and `gigatoken` if it should be in the table. `--ranks` is
OpenAI's file; the sources of the crate `tiktoken-rs` have it under `assets`. Without `--corpus` the
texts are Debian's manual packages (English, Chinese, Japanese; fetched with `apt-get download`) and
Python's standard library (code), repeated up to the requested size.

`--json` compares FitGPT with the crate `tokenizers`, for such a file, instead of GPT-2's tokens.
`--preparer` measures from a file to `train.bin` with one thread, for text, JSONL (8 KiB a line)
and Parquet (if `pyarrow` is installed), and how much shorter it takes with two.

`--equal` measures nothing: it compares the tokens of every UTF-8 file in the given folders, up to
the requested size.

All tokens must be equal. Times are CPU time of one thread, the minimum over rounds in which the
three alternate, so that other load on the machine hardly changes the ratio. Exits with 1 if tokens
differ or FitGPT misses its target: 12 times tiktoken on English and code, 7 times on Chinese and
Japanese, 5 times the crate `tokenizers`.
"""

import argparse
import base64
import gzip
import json
import pathlib
import re
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time

import numpy
import tiktoken

try:
    import gigatoken
except ImportError:
    gigatoken = None

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
TARGETS = {"English": 12, "code": 12, "Chinese": 7, "Japanese": 7}
JSON_TARGET = 5
PACKAGES = {
    "English": (["debian-reference-en", "manpages"], "en"),
    "Chinese": (["debian-reference-zh-cn", "manpages-zh"], "zh-cn"),
    "Japanese": (["debian-reference-ja", "manpages-ja"], "ja"),
}


def manual(folder, packages, language):
    """The prose of manual packages, without markup."""
    subprocess.run(["apt-get", "download", "-qq", *packages], cwd=folder, check=True,
                   stderr=subprocess.DEVNULL)
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package.name, "."], cwd=folder, check=True)
        package.unlink()
    texts = []
    books = [folder / f"usr/share/debian-reference/debian-reference.{language}.txt.gz"]
    pages = sorted((folder / "usr/share/man").glob("**/man*/*.gz"))
    for path in books + [page for page in pages if page.is_file()]:
        if language == "zh-cn" and "zh_CN" not in str(path) and path not in books:
            continue
        text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
        if path not in books:
            text = "\n".join(line for line in text.split("\n") if not line.startswith((".", "'")))
            text = re.sub(r"\\f.|\\&", "", text).replace("\\-", "-")
        texts.append(text)
    return "\n".join(texts)


def corpora(folder):
    for name, (packages, language) in PACKAGES.items():
        own = folder / name
        own.mkdir()
        yield name, manual(own, packages, language)
    library = pathlib.Path(sysconfig.get_paths()["stdlib"])
    sources = sorted(library.glob("*.py")) + sorted(library.glob("*/*.py"))
    sources = [path for path in sources if "site-packages" not in str(path)]
    yield "code", "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in sources)


def cpu_of_child(command):
    """The CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(list(map(str, command)), check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cpu(call):
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def measure(text, arguments, encoding, folder):
    """Returns the minimal CPU seconds of each tokenizer, after checking FitGPT's tokens."""
    file, tokens = folder / "text.txt", folder / "tokens.bin"
    file.write_text(text, encoding="utf-8", newline="")
    # tiktoken and gigatoken get documents of up to 64 KiB, as in a dataset. FitGPT's encoder gets
    # the whole file.
    documents = re.findall(r"(?s).{1,65536}(?:\n|$)|.{1,65536}", text)
    giga = gigatoken and gigatoken.Tokenizer.from_tiktoken(arguments.ranks, pretokenizer="gpt2")
    least = {}

    def record(name, seconds):
        least[name] = min(seconds, least.get(name, seconds))

    for _ in range(arguments.rounds):
        seconds, ids = cpu(lambda: [encoding.encode_ordinary(text) for text in documents])
        record("tiktoken", seconds)
        del ids
        idle = cpu_of_child([arguments.encoder, file, tokens, 0])
        record("FitGPT", (cpu_of_child([arguments.encoder, file, tokens, 4]) - idle) / 4)
        if giga:
            seconds, ids = cpu(lambda: [giga.encode(text) for text in documents])
            record("gigatoken", seconds)
    expected = encoding.encode_to_numpy(text, disallowed_special=())
    if not numpy.array_equal(numpy.fromfile(tokens, dtype=numpy.uint16), expected):
        sys.exit("the tokens differ from tiktoken's")
    return least, len(expected)


def measure_json(text, file_of_tokenizer, arguments, folder):
    """Returns the minimal CPU seconds of FitGPT and the crate, after comparing their tokens."""
    file, tokens = folder / "text.txt", [folder / "tokens.bin", folder / "tokens.crate.bin"]
    file.write_text(text, encoding="utf-8", newline="")
    least = [float("inf")] * 2
    for _ in range(arguments.rounds):
        for i, encoder in enumerate([[], ["crate"]]):
            command = [arguments.encoder, file, tokens[i]]
            rest = [file_of_tokenizer, *encoder]
            idle = cpu_of_child([*command, 0, *rest])
            repeats = 4 if i == 0 else 1
            least[i] = min(least[i], (cpu_of_child([*command, repeats, *rest]) - idle) / repeats)
    if tokens[0].read_bytes() != tokens[1].read_bytes():
        sys.exit("the tokens differ from the crate's")
    return least


def compare_json(texts, arguments, folder):
    """A table of FitGPT and the crate `tokenizers`; whether all targets are met."""
    table = ["| file | text | crate `tokenizers` | FitGPT | |", "|---|---|---|---|---|"]
    is_good = True
    for path in arguments.json:
        for name, text in texts:
            size = len(text.encode())
            ours, crates = measure_json(text, path, arguments, folder)
            is_good &= crates / ours >= JSON_TARGET
            table.append(f"| {path.parent.name} | {name} | {size / crates / 1e6:.1f} MB/s | "
                         f"{size / ours / 1e6:.0f} MB/s | {crates / ours:.1f} × |")
            print(table[-1], flush=True)
    return table, is_good


def files_of(text, folder):
    """The text as a file of each kind."""
    lines = [{"text": text[at:at + 8192]} for at in range(0, len(text), 8192)]
    files = {"text": folder / "text.txt", "JSONL": folder / "text.jsonl"}
    files["text"].write_text(text, encoding="utf-8", newline="")
    files["JSONL"].write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return files
    files["Parquet"] = folder / "text.parquet"
    table = pyarrow.table({"text": [line["text"] for line in lines]})
    pyarrow.parquet.write_table(table, files["Parquet"])
    return files


def measure_prepare(texts, arguments, folder):
    """A table of the rates from files to `train.bin`."""
    table = ["| text | file | CPU time, one thread | two threads |", "|---|---|---|---|"]
    for name, text in texts:
        size = len(text.encode())
        for kind, file in files_of(text, folder).items():
            cpu, walls = float("inf"), [float("inf")] * 2
            for _ in range(arguments.rounds):
                for threads in [1, 2]:
                    command = [arguments.preparer, file, folder / "dataset", threads]
                    start = time.monotonic()
                    seconds = cpu_of_child(command)
                    walls[threads - 1] = min(walls[threads - 1], time.monotonic() - start)
                    cpu = min(cpu, seconds) if threads == 1 else cpu
            table.append(f"| {name} | {kind} | {size / cpu / 1e6:.0f} MB/s | "
                         f"{walls[0] / walls[1]:.2f} × shorter |")
            print(table[-1], flush=True)
    return table


def utf8_files(folders):
    """The texts of all files, including hidden ones, in the order of their names."""
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            try:
                if path.is_file() and not path.is_symlink():
                    yield path.read_bytes().decode("utf-8")
            except (UnicodeDecodeError, OSError):
                continue


def equal(arguments, encoding, folder):
    """Compares the tokens of many files, 8 MiB at a time; exits with 1 at the first difference."""
    file, tokens = folder / "text.txt", folder / "tokens.bin"
    n_files = n_bytes = n_tokens = 0
    held, held_bytes = [], 0

    def compare():
        nonlocal n_bytes, n_tokens
        text = "".join(held)
        file.write_text(text, encoding="utf-8", newline="")
        subprocess.run([arguments.encoder, file, tokens, "1"], check=True)
        expected = encoding.encode_to_numpy(text, disallowed_special=())
        found = numpy.fromfile(tokens, dtype=numpy.uint16)
        if not numpy.array_equal(found, expected):
            sys.exit(f"the tokens differ from tiktoken's after {n_bytes} bytes of {n_files} files")
        n_bytes, n_tokens = n_bytes + len(text.encode()), n_tokens + len(expected)

    for text in utf8_files(arguments.equal):
        held.append(text)
        n_files, held_bytes = n_files + 1, held_bytes + len(text)
        if held_bytes >= 8 << 20:
            compare()
            held, held_bytes = [], 0
            if n_bytes >= arguments.megabytes * 1e6:
                break
    compare()
    print(f"{n_files:,} files, {n_bytes / 1e6:,.0f} MB, {n_tokens:,} tokens: all equal")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", required=True, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=float, default=16)
    parser.add_argument("--encoder", type=pathlib.Path,
                        default=pathlib.Path("target/release/examples/encode_gpt2"))
    parser.add_argument("--corpus", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--equal", nargs="+", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--json", nargs="+", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--preparer", type=pathlib.Path)
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE.md")
    arguments = parser.parse_args()
    lines = (line.split() for line in arguments.ranks.read_bytes().splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    encoding = tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    header = "| text | distinct MB | tokens | tiktoken | FitGPT | ratio | gigatoken |"
    table = [header, "|---|---|---|---|---|---|---|"]
    is_good = True
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if arguments.equal:
            equal(arguments, encoding, folder)
            return
        given = [corpus.split("=", 1) for corpus in arguments.corpus]
        texts = ([(name, pathlib.Path(path).read_text(encoding="utf-8")) for name, path in given]
                 or corpora(folder))
        texts = [(name, text, len(text.encode())) for name, text in texts]
        texts = [(name, text * max(1, round(arguments.megabytes * 1e6 / distinct)), distinct)
                 for name, text, distinct in texts]
        plain = [(name, text) for name, text, _ in texts]
        if arguments.json:
            table, is_good = compare_json(plain, arguments, folder)
        elif arguments.preparer:
            table = measure_prepare(plain, arguments, folder)
        for name, text, distinct in [] if arguments.json or arguments.preparer else texts:
            size = len(text.encode())
            least, n_tokens = measure(text, arguments, encoding, folder)
            rate = {key: size / seconds / 1e6 for key, seconds in least.items()}
            ratio = rate["FitGPT"] / rate["tiktoken"]
            is_good &= ratio >= TARGETS.get(name, 1)
            giga = f"{rate['gigatoken']:.0f} MB/s" if "gigatoken" in rate else "not installed"
            table.append(f"| {name} | {distinct / 1e6:.1f} | {n_tokens:,} | {rate['tiktoken']:.1f} MB/s | "
                         f"{rate['FitGPT']:.0f} MB/s | {ratio:.1f} × | {giga} |")
            print(table[-1], flush=True)
    if arguments.write:
        arguments.write.write_text("\n".join(table) + "\n")
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
