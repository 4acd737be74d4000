"""A trace as one safetensors file: every array under its name, everything else as one JSON text.

Names of the tensors, with their axes:

- ``attention.{map}.{layer}`` ``[head, query, key]`` (``map`` is encoder, decoder or cross), and in
  the same way ``scores``, ``q``, ``k``, ``v``, ``gradients``, where they were kept; a block of
  which one head alone was kept has ``.{head}`` behind it
- in the place of ``attention``, where tiles were kept: ``q.{map}.{layer}.part{n}`` ``[head, query,
  width]``, ``k...`` ``[key head, key, width]``, and ``rows...`` ``.log_sum`` ``[head, query]``,
  ``.edges``, ``.ends``, ``.bias`` and the like, which `core/tiles/maps.py` explains
- ``thumbnail.{map}`` ``[layer, head, query, key]``; ``logits`` ``[position, vocabulary]``;
  ``output`` ``[token, d_model]``
- ``hidden.{stack}.{layer}`` ``[token, d_model]``; ``positions.{name}``
- ``norm.{site}.{column}`` ``[token]``; ``gain.{site}``, ``bias.{site}`` ``[d_model]``
- ``residual.{stack}.{layer}.{place}`` ``[token]``; ``heads.{column}`` ``[head of the model]``, a
  column of words as numbers into the list under ``frames.heads.texts``

The metadata ``trace`` holds tokens, produced, sites, intervention, report, manifest, and how the
tables are put together. Saving and loading is an identity, and the same trace gives the same bytes.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import safetensors
import safetensors.numpy

from .interventions import Intervention
from .sites import Site
from .tiles import Tiles
from .tiles.arrays import read, written
from .trace_parts import Attention, KernelRun, Produced, Report, Tokens, read_only

FORMAT = 1
#: The parts of an attention block, and what their tensors are called.
PARTS = {
    "weights": "attention",
    "scores": "scores",
    "q": "q",
    "k": "k",
    "v": "v",
    "gradients": "gradients",
}
BESIDE = ("query", "key", "scale", "cap")  # the words and numbers of an attention block
NORM_KEYS = ("site", "stack", "layer")
RESIDUAL_KEYS = ("stack", "layer", "place")
Arrays = dict[str, np.ndarray]
Namer = Callable[[tuple[Any, ...], str], str]


class TraceFields(Protocol):
    """What is written of a trace: the fields of :class:`transformer_viz.core.trace.Trace`."""

    @property
    def source(self) -> Tokens: ...
    @property
    def target(self) -> Tokens | None: ...
    @property
    def produced(self) -> Produced | None: ...
    @property
    def heads(self) -> pd.DataFrame: ...
    @property
    def thumbnails(self) -> dict[str, np.ndarray]: ...
    @property
    def attentions(self) -> tuple[Attention, ...]: ...
    @property
    def norms(self) -> pd.DataFrame: ...
    @property
    def gains(self) -> dict[str, tuple[np.ndarray | None, np.ndarray | None]]: ...
    @property
    def residuals(self) -> pd.DataFrame: ...
    @property
    def positions(self) -> dict[str, np.ndarray]: ...
    @property
    def logits(self) -> np.ndarray | None: ...
    @property
    def report(self) -> Report: ...
    @property
    def manifest(self) -> dict[str, Any]: ...
    @property
    def intervention(self) -> Intervention: ...
    @property
    def hiddens(self) -> dict[str, np.ndarray]: ...
    @property
    def output(self) -> np.ndarray | None: ...
    @property
    def tiles(self) -> tuple[Tiles, ...]: ...


def save_trace(trace: TraceFields, path: str | os.PathLike[str]) -> None:
    """Write a trace to one safetensors file; the file appears whole or not at all.

    Raises:
        ValueError: a table whose rows are not in the order of tokens, or a manifest that JSON
            cannot hold.
        OSError: no such folder, the path is one, or the disk fails; what was there stays.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent}; make it, or name another file.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it.")
    arrays: Arrays = {}
    words = _describe(trace, arrays)
    text = json.dumps(words, ensure_ascii=False, default=_plain)
    half = path.with_name(path.name + ".part")
    contents = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    try:
        half.touch()
        mode = half.stat().st_mode
        safetensors.numpy.save_file(contents, half, metadata={"trace": text})
        half.chmod(mode)  # safetensors lets nobody else read what it writes
        os.replace(half, path)
    except BaseException as error:
        half.unlink(missing_ok=True)
        if isinstance(error, safetensors.SafetensorError):  # of the disk
            raise OSError(f"{path} could not be written ({error}); make room there.") from error
        raise


def load_fields(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what :func:`save_trace` wrote: the fields of a trace by name.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a trace file, one of a later format, or an incomplete one; says which.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            words = dict(json.loads((file.metadata() or {})["trace"]))
            arrays = {name: read_only(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path.name} is not a trace file; expected one that trace.save() or "
            "`transformer-viz trace --out` wrote."
        ) from error
    if words.get("format") != FORMAT:
        raise ValueError(
            f"{path.name} has trace format {words.get('format')}; this version reads {FORMAT}. "
            "Record the trace again."
        )
    try:
        return _rebuild(words, arrays)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{path.name} is an incomplete trace file: it lacks {error}.") from error


def _describe(trace: TraceFields, arrays: Arrays) -> dict[str, Any]:
    """Put the trace's arrays into ``arrays``, and return everything else as plain data."""
    for attention in trace.attentions:
        for part, title in PARTS.items():
            _put(arrays, f"{title}.{_block(attention.site)}", getattr(attention, part))
    for name, picture in trace.thumbnails.items():
        _put(arrays, f"thumbnail.{name}", picture)
    for stack, states in trace.hiddens.items():
        for layer, state in enumerate(states):
            _put(arrays, f"hidden.{stack}.{layer}", state)
    for name, table in trace.positions.items():
        _put(arrays, f"positions.{name}", table)
    for site, (gain, bias) in trace.gains.items():
        _put(arrays, f"gain.{site}", gain)
        _put(arrays, f"bias.{site}", bias)
    _put(arrays, "logits", trace.logits)
    _put(arrays, "output", trace.output)
    tiles = written(trace.tiles, partial(_put, arrays))
    return {
        "format": FORMAT,
        "source": dataclasses.asdict(trace.source),
        "target": None if trace.target is None else dataclasses.asdict(trace.target),
        "produced": _produced_words(trace.produced),
        "sites": [
            dataclasses.asdict(a.site) | {name: getattr(a, name) for name in BESIDE}
            for a in trace.attentions
        ],
        "intervention": trace.intervention.to_json(),
        "report": dataclasses.asdict(trace.report),
        "manifest": trace.manifest,
        "frames": {
            "heads": _cut_heads(trace.heads, arrays),
            "norms": _cut(trace.norms, NORM_KEYS, _norm_name, arrays),
            "residuals": _cut(trace.residuals, RESIDUAL_KEYS, _residual_name, arrays),
        },
        "thumbnails": list(trace.thumbnails),
        "hiddens": {stack: len(states) for stack, states in trace.hiddens.items()},
        "positions": list(trace.positions),
        "gains": list(trace.gains),
        "tiles": tiles,
    }


def _rebuild(fields: Mapping[str, Any], arrays: Arrays) -> dict[str, Any]:
    """The inverse of :func:`_describe`."""
    frames, target = fields["frames"], fields["target"]
    return {
        "source": _tokens(fields["source"]),
        "target": None if target is None else _tokens(target),
        "produced": _produced(fields["produced"]),
        "heads": _join_heads(frames["heads"], arrays),
        "thumbnails": {name: arrays[f"thumbnail.{name}"] for name in fields["thumbnails"]},
        "attentions": tuple(_attention(site, arrays) for site in fields["sites"]),
        "norms": _join(frames["norms"], NORM_KEYS, _norm_name, arrays),
        "gains": {
            site: (arrays.get(f"gain.{site}"), arrays.get(f"bias.{site}"))
            for site in fields["gains"]
        },
        "residuals": _join(frames["residuals"], RESIDUAL_KEYS, _residual_name, arrays),
        "positions": {name: arrays[f"positions.{name}"] for name in fields["positions"]},
        "logits": arrays.get("logits"),
        "output": arrays.get("output"),
        "tiles": read(fields.get("tiles", ()), arrays),  # older files lack them
        "report": _report(fields["report"]),
        "manifest": fields["manifest"],
        "intervention": Intervention.from_json(fields["intervention"]),
        "hiddens": {
            stack: read_only(np.stack([arrays[f"hidden.{stack}.{n}"] for n in range(layers)]))
            for stack, layers in fields["hiddens"].items()
        },
    }


def _put(arrays: Arrays, name: str, array: np.ndarray | None) -> None:
    if array is None:
        return
    if name in arrays:
        raise ValueError(f"Two parts of the trace are called {name}; a file can hold only one.")
    arrays[name] = array


def _block(site: Site) -> str:
    head = "" if site.head is None else f".{site.head}"
    return f"{site.map}.{site.layer}{head}"


def _attention(fields: dict[str, Any], arrays: Arrays) -> Attention:
    path = fields.get("path", "")  # older files lack it
    site = Site(fields["stack"], fields["block"], fields["layer"], fields["head"], path)
    parts = {part: arrays.get(f"{title}.{_block(site)}") for part, title in PARTS.items()}
    weights = parts.pop("weights")
    if weights is None:
        raise KeyError(f"attention.{_block(site)}")
    scale, cap = fields.get("scale"), fields.get("cap")  # older files lack them
    return Attention(weights, site, fields["query"], fields["key"], **parts, scale=scale, cap=cap)


def _tokens(fields: dict[str, Any]) -> Tokens:
    return Tokens(**{name: tuple(values) for name, values in fields.items()})


def _produced_words(produced: Produced | None) -> dict[str, Any] | None:
    if produced is None:
        return None
    arrays = {
        name: {"dtype": str(array.dtype), "values": array.tolist()}
        for name, array in (("probability", produced.probability), ("rank", produced.rank))
    }
    return {"ids": produced.ids, "pieces": produced.pieces, "labels": produced.labels, **arrays}


def _produced(fields: dict[str, Any] | None) -> Produced | None:
    if fields is None:
        return None
    probability, rank = (
        read_only(np.array(fields[name]["values"], fields[name]["dtype"]))
        for name in ("probability", "rank")
    )
    ids, pieces, labels = (tuple(fields[name]) for name in ("ids", "pieces", "labels"))
    return Produced(ids, pieces, labels, probability, rank)


def _report(fields: dict[str, Any]) -> Report:
    words = ("sites", "replaced", "unrecognised", "untold")
    lists: dict[str, Any] = {name: tuple(fields[name]) for name in words if name in fields}
    if "kernels" in fields:
        lists["kernels"] = tuple(KernelRun(**kernel) for kernel in fields["kernels"])
    return Report(**(fields | lists))


def _norm_name(key: tuple[Any, ...], column: str) -> str:
    return f"norm.{key[0]}.{column}"


def _residual_name(key: tuple[Any, ...], column: str) -> str:
    name = "residual.{}.{}.{}".format(*key)
    return name if column == "norm" else f"{name}.{column}"


def _cut(frame: pd.DataFrame, keys: tuple[str, ...], name: Namer, arrays: Arrays) -> dict[str, Any]:
    """Cut a table of tokens into one array for each place and column.

    Runs of rows with the same keys, tokens counted from 0, are noted in their order, so that the
    table can be put together again even where a place is passed twice.
    """
    runs = _runs(frame, keys)
    parts: dict[str, list[np.ndarray]] = defaultdict(list)
    start = 0
    for *key, rows in runs:
        for column in _values(list(frame.columns), keys):
            part = frame[column].to_numpy()[start : start + rows]
            parts[name(tuple(key), column)].append(part)
        start += rows
    for title, pieces in parts.items():
        _put(arrays, title, np.concatenate(pieces))
    return _columns(frame) | {"runs": runs}


def _runs(frame: pd.DataFrame, keys: tuple[str, ...]) -> list[list[Any]]:
    """The runs of a table as ``[*keys, rows]``."""
    columns = [[None if pd.isna(v) else _plain(v) for v in frame[key]] for key in keys]
    runs: list[list[Any]] = []
    for token, *key in zip(frame["token"], *columns, strict=True):
        if token == 0 or not runs or runs[-1][:-1] != key:
            runs.append([*key, 0])
        if token != runs[-1][-1]:
            raise ValueError(
                f"The rows of {key} must count tokens from 0 upwards; token {token} came where "
                f"{runs[-1][-1]} was expected. Sort the table by place and token."
            )
        runs[-1][-1] += 1
    return runs


def _join(
    fields: dict[str, Any], keys: tuple[str, ...], name: Namer, arrays: Arrays
) -> pd.DataFrame:
    """The inverse of :func:`_cut`."""
    runs = fields["runs"]
    lengths = [run[-1] for run in runs]
    table: dict[str, Any] = {"token": [n for length in lengths for n in range(length)]}
    for place, key in enumerate(keys):
        table[key] = [run[place] for run in runs for _ in range(run[-1])]
    for column in _values(fields["columns"], keys):
        taken: dict[str, int] = defaultdict(int)
        parts = [np.zeros(0)]
        for *run, rows in runs:
            title = name(tuple(run), column)
            parts.append(arrays[title][taken[title] : taken[title] + rows])
            taken[title] += rows
        table[column] = np.concatenate(parts[1:] or parts)
    return _frame(table, fields)


def _values(columns: list[str], keys: tuple[str, ...]) -> list[str]:
    return [column for column in columns if column not in (*keys, "token")]


def _cut_heads(frame: pd.DataFrame, arrays: Arrays) -> dict[str, Any]:
    """One array for each column; words become numbers into a list."""
    texts: dict[str, list[str]] = {}
    for column in frame.columns:
        if pd.api.types.is_numeric_dtype(frame[column].dtype):
            _put(arrays, f"heads.{column}", frame[column].to_numpy())
        else:
            codes, found = pd.factorize(frame[column])
            _put(arrays, f"heads.{column}", codes.astype(np.int64))
            texts[column] = list(found)
    return _columns(frame) | {"texts": texts}


def _join_heads(fields: dict[str, Any], arrays: Arrays) -> pd.DataFrame:
    """The inverse of :func:`_cut_heads`."""
    table: dict[str, Any] = {}
    for column in fields["columns"]:
        values, found = arrays[f"heads.{column}"], fields["texts"].get(column)
        table[column] = values if found is None else [found[code] for code in values]
    return _frame(table, fields)


def _columns(frame: pd.DataFrame) -> dict[str, Any]:
    return {
        "columns": [str(column) for column in frame.columns],
        "dtypes": {str(column): str(dtype) for column, dtype in frame.dtypes.items()},
    }


def _frame(table: dict[str, Any], fields: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(table, columns=fields["columns"]).astype(fields["dtypes"])


def _plain(value: Any) -> Any:
    """A numpy number as Python's own."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, int | float | str | bool):
        return value
    raise ValueError(
        f"A trace file cannot hold {value!r} ({type(value).__name__}) in its manifest; give plain "
        "text, numbers, lists and dictionaries."
    )
