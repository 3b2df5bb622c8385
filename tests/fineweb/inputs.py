#!/usr/bin/env python3
"""Writes the same kind of texts as Parquet, as JSONL with gzip and as one text.

    inputs.py FOLDER MEGABYTES

MEGABYTES of text each. Needs `pyarrow` and `numpy` from PyPI.
"""

import gzip
import json
import pathlib
import sys

import pyarrow.parquet
from make import SCHEMA, table
from texts import Texts


def main(folder, megabytes):
    (folder / "parquet").mkdir(parents=True)
    wanted, rows = megabytes * 1e6, 0
    texts = Texts(5)
    for index, compression in enumerate(["snappy", "zstd", "none"]):
        path = folder / "parquet" / f"{index:05}.parquet"
        with pyarrow.parquet.ParquetWriter(path, SCHEMA, compression=compression) as writer:
            written = 0
            while written < wanted / 3:
                batch = texts.batch()
                writer.write_table(table(batch, rows))
                rows += len(batch)
                written += sum(map(len, batch))
    with gzip.open(folder / "texts.jsonl.gz", "wt", compresslevel=1) as file:
        written = 0
        while written < wanted:
            batch = texts.batch()
            file.writelines(json.dumps({"text": text}) + "\n" for text in batch)
            written += sum(map(len, batch))
    with open(folder / "texts.txt", "w") as file:
        written = 0
        while written < wanted:
            batch = texts.batch()
            file.writelines(text + "\n\n" for text in batch)
            written += sum(map(len, batch))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), float(sys.argv[2]))
