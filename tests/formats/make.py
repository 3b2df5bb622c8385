"""Writes the Parquet files of this folder, and their texts as `texts.jsonl`.

    python tests/formats/make.py

Made with pyarrow 26.0.1, from PyPI. `null` is a row without a text.
"""

import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent
WORDS = ["a", "tale", "of", "naïve", "日本語", "😀", "and", "\n", "many words", "'s"]


def texts():
    yield from ["", None, "one", "one", None, "\u0000", "x" * 5000]
    for i in range(200):
        yield None if i % 17 == 3 else " ".join(WORDS[(i * j + j) % len(WORDS)] for j in range(i % 40))


FILES = {
    "plain": dict(compression="none", use_dictionary=False),
    "snappy": dict(compression="snappy"),
    "gzip_v2": dict(compression="gzip", data_page_version="2.0"),
    "zstd": dict(compression="zstd", use_dictionary=False),
    "zstd_v2": dict(compression="zstd", data_page_version="2.0", write_page_checksum=True),
    "delta_length": dict(compression="snappy", use_dictionary=False,
                         column_encoding={"text": "DELTA_LENGTH_BYTE_ARRAY", "meta.text": "PLAIN", "id": "PLAIN"}),
    "brotli": dict(compression="brotli"),
    "lz4": dict(compression="lz4", data_page_version="2.0"),
    "checksums": dict(compression="none", use_dictionary=False, write_page_checksum=True),
    "delta_strings": dict(compression="zstd", use_dictionary=False, data_page_version="2.0",
                          column_encoding={"text": "DELTA_BYTE_ARRAY", "meta.text": "PLAIN", "id": "PLAIN"}),
}


def main():
    rows = list(texts())
    (HERE / "texts.jsonl").write_text("".join(json.dumps(text) + "\n" for text in rows))
    table = pa.table({
        "id": pa.array(range(len(rows)), pa.int64()),
        "text": pa.array(rows, pa.string()),
        "meta": pa.array([None if text is None else {"text": text} for text in rows],
                         pa.struct([("text", pa.string())])),
        "tags": pa.array([["x", text] for text in rows], pa.list_(pa.string())),
    })
    for name, options in FILES.items():
        pq.write_table(table, HERE / f"{name}.parquet", row_group_size=80, data_page_size=1500,
                       write_batch_size=16, **options)
    # Writers that flush before they have rows leave groups without any.
    with pq.ParquetWriter(HERE / "empty_groups.parquet", table.schema, compression="snappy") as writer:
        for part in [table.slice(0, 0), table.slice(0, 80), table.slice(0, 0), table.slice(80), table.slice(0, 0)]:
            writer.write_table(part)
    pq.write_table(table.slice(0, 0), HERE / "no_rows.parquet")
    pq.write_table(pa.table([["one"], ["two"]], names=["body", "body"]), HERE / "two_columns.parquet")
    whole = [text for text in rows if text is not None]
    schema = pa.schema([pa.field("body", pa.string(), nullable=False)])
    pq.write_table(pa.table([whole], schema=schema), HERE / "required.parquet")
    # The least and the largest text are in each page's header, which is longer than 4 KiB.
    long = [letter * 3000 for letter in "amz"]
    pq.write_table(pa.table([long], names=["body"]), HERE / "statistics.parquet")


if __name__ == "__main__":
    main()
