"""Files of a part. The name ``parts/part-NNNNN.parquet`` is the commit.

The examples are written first and the sums last. Each file is written under a temporary name and
renamed, so an existing part is complete. Every file contains the hash of its plan and the number of
its shard.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..metrics.corpus.selection import Choice
from ..metrics.corpus.totals import Totals
from ..metrics.head_measures.columns import BINS, COLUMNS
from .plan import Plan, Shard, whole

if TYPE_CHECKING:
    from ..inference.corpus.scan import Scanned

PARTS, EXAMPLES = "parts", "examples"
NAME = re.compile(r"part-(\d{5,})\.parquet")
LEFT = ".tmp"  # suffix of files of killed workers, which are ignored
KEPT = 20  # maximum number of refused sentences listed per shard
#: A head: stack, block, layer, head.
Head = tuple[str, str, int, int]

HEAD_FIELDS = [
    pa.field("stack", pa.string()),
    pa.field("block", pa.string()),
    pa.field("layer", pa.int16()),
    pa.field("head", pa.int16()),
]
FLAT = [f.name for f in fields(Totals) if f.name != "bins"]
SUMS = pa.schema(
    [
        *HEAD_FIELDS,
        pa.field("metric", pa.string()),
        pa.field("offset", pa.int8()),
        *(pa.field(name, pa.int64()) for name in FLAT),
        pa.field("m2", pa.float64()),
        pa.field("bins", pa.list_(pa.int64(), BINS)),
    ]
)
CHOICE = pa.struct(
    [
        pa.field("measure", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("band", pa.int8()),
        pa.field("score", pa.float64()),
        pa.field("draw", pa.int64()),
    ]
)
EXAMPLE = pa.schema(
    [
        *HEAD_FIELDS,
        pa.field("sentence", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("target", pa.string()),
        pa.field("query", pa.list_(pa.string())),
        pa.field("key", pa.list_(pa.string())),
        pa.field("indices", pa.list_(pa.uint16())),
        pa.field("values", pa.list_(pa.uint8())),
        pa.field("chosen", pa.list_(CHOICE)),
    ]
)


def part_name(number: int) -> str:
    """Return the file name of a shard's part."""
    return f"part-{number:05d}.parquet"


def write_part(folder: Path, plan: Plan, shard: Shard, scanned: Scanned) -> None:
    """Write both files of a shard, the examples first."""
    for name in (PARTS, EXAMPLES):
        (folder / name).mkdir(parents=True, exist_ok=True)
    words = notes(plan, scanned.sentences, scanned.refused) | {"shard": str(shard.number)}
    rows = [
        {
            **dict(zip(("stack", "block", "layer", "head"), scanned.heads[one.head], strict=True)),
            **_kept(one),
        }
        for one in scanned.examples
    ]
    file = part_name(shard.number)
    whole(folder / EXAMPLES / file, lambda path: write_examples(path, rows, words))
    whole(
        folder / PARTS / file, lambda path: write_sums(path, scanned.heads, scanned.totals, words)
    )


def _kept(one: Any) -> dict[str, Any]:
    flat = one.weights.reshape(-1)
    places = np.flatnonzero(flat)
    return {
        "sentence": one.sentence,
        "text": one.text,
        "target": one.target,
        "query": list(one.query),
        "key": list(one.key),
        "indices": places.astype(np.uint16),
        "values": flat[places],
        "chosen": [
            {name: getattr(c, name) for name in ("measure", "kind", "band", "score", "draw")}
            for c in one.chosen
        ],
    }


def notes(plan: Plan, sentences: int, refused: Sequence[tuple[int, str]]) -> dict[str, str]:
    """Return the metadata of a file."""
    return {
        "plan": plan.hash,
        "sentences": str(sentences),
        "refused": str(len(refused)),
        "refused_first": json.dumps(list(refused[:KEPT]), ensure_ascii=False),
    }


def write_sums(path: Path, heads: Sequence[Head], totals: Totals, words: dict[str, str]) -> None:
    """Write sums as a table: one row per head and column, one row group per layer."""
    each = len(COLUMNS)
    flat = {name: getattr(totals, name).reshape(-1) for name in FLAT}
    named = [[head[part] for head in heads for _ in range(each)] for part in range(4)]
    columns: list[Any] = [
        pa.array(part, f.type) for part, f in zip(named, HEAD_FIELDS, strict=True)
    ]
    columns += [
        pa.array([name for name, _ in COLUMNS] * len(heads), pa.string()),
        pa.array([offset for _, offset in COLUMNS] * len(heads), pa.int8()),
        *(pa.array(flat[name]) for name in FLAT),
        pa.array(totals.m2.reshape(-1)),
        pa.FixedSizeListArray.from_arrays(pa.array(totals.bins.reshape(-1)), BINS),
    ]
    table = pa.Table.from_arrays(columns, schema=SUMS)
    sizes = [len(list(group)) * each for _, group in groupby(heads, key=lambda head: head[:3])]
    _write(path, table, sizes, words)


def write_examples(path: Path, rows: Sequence[dict[str, Any]], words: dict[str, str]) -> None:
    """Write examples as a table: one row per head and sentence, one row group per layer."""
    table = pa.Table.from_pylist(list(rows), schema=EXAMPLE)
    place = [tuple(row[name] for name in ("stack", "block", "layer")) for row in rows]
    _write(path, table, [len(list(group)) for _, group in groupby(place)], words)


def _write(path: Path, table: pa.Table, sizes: Sequence[int], words: dict[str, str]) -> None:
    schema = table.schema.with_metadata(words)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        start = 0
        for size in sizes:
            writer.write_table(table.slice(start, size).cast(schema), row_group_size=size)
            start += size


def finished(folder: Path, plan: Plan) -> set[int]:
    """Return the shards whose parts exist.

    Raises:
        ValueError: A part is truncated, of another plan, duplicate or unknown. The message names
            it.
    """
    found: dict[int, Path] = {}
    for path in sorted((folder / PARTS).glob("*")) if (folder / PARTS).is_dir() else ():
        if path.name.endswith(LEFT):
            continue
        words = opened(path, plan)
        number = int(words.get("shard", -1))
        if number in found:
            raise ValueError(
                f"{path} and {found[number].name} are both the part of shard {number}; take one "
                "away."
            )
        if not 0 <= number < len(plan.shards):
            raise ValueError(f"{path} is of shard {number}, which this plan has not; take it away.")
        named = NAME.fullmatch(path.name)
        if named is None or int(named[1]) != number:
            raise ValueError(
                f"{path} is the part of shard {number} and should be named {part_name(number)}; "
                "rename it, or take it away."
            )
        examples = folder / EXAMPLES / path.name
        if not examples.is_file():
            raise ValueError(
                f"{path} has no examples beside it: {EXAMPLES}/{path.name} is not there. Take the "
                "part away, and the same command makes both again."
            )
        other = int(opened(examples, plan).get("shard", -1))
        if other != number:
            raise ValueError(
                f"{examples} is of shard {other}; take it away, and {PARTS}/{path.name} too, and "
                "the same command makes both again."
            )
        found[number] = path
    return set(found)


def opened(path: Path, plan: Plan) -> dict[str, str]:
    """Return the metadata of a file.

    Raises:
        ValueError: The file is truncated, or of another plan.
    """
    try:
        known = pq.read_schema(path).metadata or {}
        words = {key.decode(): value.decode() for key, value in known.items()}
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(
            f"{path} is half-written or no part of an atlas; take it away, and the same command "
            "makes it again."
        ) from error
    if words.get("plan") != plan.hash:
        raise ValueError(
            f"{path} is a part of another atlas: it bears the plan "
            f"{words.get('plan', 'none')[:12]} and this folder's is {plan.hash[:12]}. Take it away."
        )
    return words


def read_sums(path: Path) -> tuple[list[Head], Totals]:
    """Return heads and sums of a part, or of the whole atlas.

    Raises:
        ValueError: The file is truncated, or rows are missing, duplicate or unknown.
    """
    table = _rows(path, SUMS)
    each = len(COLUMNS)
    names = list(zip(*(table[name].to_pylist() for name in ("metric", "offset")), strict=True))
    heads = list(zip(*(table[f.name].to_pylist()[::each] for f in HEAD_FIELDS), strict=True))
    if names != list(COLUMNS) * len(heads) or len(set(heads)) != len(heads):
        raise ValueError(
            f"{path} lacks rows, or has some twice or of other measures; take it away."
        )
    shape = (len(heads), each)
    flat = [table[name].to_numpy().reshape(shape) for name in FLAT]
    bins = table["bins"].combine_chunks().flatten().to_numpy() if heads else np.zeros(0, np.int64)
    parts = [*flat, bins.reshape(*shape, BINS)]
    return heads, Totals(*parts)


def read_examples(path: Path, groups: Sequence[int] | None = None) -> list[dict[str, Any]]:
    """Return the rows of a file of examples, or of some row groups.

    Raises:
        ValueError: The file is truncated.
    """
    return _rows(path, EXAMPLE, groups).to_pylist()


def layers_of(path: Path) -> list[tuple[str, str, int]]:
    """Return stack, block and layer of each row group of a file of examples.

    Raises:
        ValueError: The file is truncated.
    """
    names = ["stack", "block", "layer"]
    try:
        file = pq.ParquetFile(path)
        groups = [file.read_row_group(n, names).slice(0, 1) for n in range(file.num_row_groups)]
        return [tuple(row.values()) for group in groups for row in group.to_pylist()]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _half(path) from error


def _rows(path: Path, schema: pa.Schema, groups: Sequence[int] | None = None) -> pa.Table:
    """Return a table with our schema, or some of its row groups.

    Raises:
        ValueError: The file is truncated, or has other columns.
    """
    try:
        file = pq.ParquetFile(path)
        table = file.read() if groups is None else file.read_row_groups(list(groups))
        table.validate(full=True)
        table = table.cast(schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _half(path) from error
    if any(table[field.name].null_count for field in HEAD_FIELDS):
        raise _half(path)
    return table


def _half(path: Path) -> ValueError:
    return ValueError(f"{path} is half-written or damaged; take it away.")


def choices_of(row: dict[str, Any]) -> list[Choice]:
    """Return the selections for which a row of examples was kept."""
    return [Choice(sentence=row["sentence"], **one) for one in row["chosen"]]
