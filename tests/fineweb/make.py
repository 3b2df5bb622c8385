#!/usr/bin/env python3
"""Writes Parquet files like FineWeb's, with all of its columns and invented texts.

    make.py FOLDER --megabytes 2000 [--files 6] [--seed 1]

Files are compressed with Snappy, Zstandard and not at all, in turn. Needs `pyarrow` and `numpy` from PyPI, and
holds a row group at a time.
"""

import argparse
import pathlib

import pyarrow
import pyarrow.parquet
from texts import Texts

SCHEMA = pyarrow.schema(
    [(name, pyarrow.string()) for name in ["text", "id", "dump", "url", "date", "file_path", "language"]]
    + [("language_score", pyarrow.float64()), ("token_count", pyarrow.int64())]
)


def table(texts, first):
    names = range(first, first + len(texts))
    columns = {
        "text": texts,
        "id": [f"<urn:uuid:{name:032x}>" for name in names],
        "dump": ["CC-MAIN-2024-10"] * len(texts),
        "url": [f"https://example.org/{name}" for name in names],
        "date": ["2024-02-21T10:00:00Z"] * len(texts),
        "file_path": [f"s3://example/{name // 1000}.warc.gz" for name in names],
        "language": ["en"] * len(texts),
        "language_score": [0.9] * len(texts),
        "token_count": [len(text) // 4 for text in texts],
    }
    return pyarrow.table(columns, schema=SCHEMA)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--megabytes", type=float, required=True)
    parser.add_argument("--files", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    texts = Texts(options.seed)
    rows = text_bytes = file_bytes = 0
    for index in range(options.files):
        path = options.folder / f"000_{index:05}.parquet"
        compression = ["snappy", "zstd", "none"][index % 3]
        with open(path, "wb") as file, pyarrow.parquet.ParquetWriter(
            file, SCHEMA, compression=compression
        ) as writer:
            while file.tell() < options.megabytes * 1e6 / options.files:
                batch = texts.batch()
                writer.write_table(table(batch, rows))
                rows += len(batch)
                text_bytes += sum(len(text.encode()) for text in batch)
        file_bytes += path.stat().st_size
    print(f"{options.files} files, {file_bytes / 1e9:.3f} GB, {rows:,} rows, {text_bytes / 1e9:.3f} GB of text")


if __name__ == "__main__":
    main()
