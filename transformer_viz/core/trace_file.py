"""A trace as one safetensors file: each array under its name, all else as one JSON text.

Names of the tensors, with their axes:

- ``attention.{map}.{layer}`` ``[head, query, key]`` (``map`` is encoder, decoder or cross).
  ``scores``, ``q``, ``k``, ``v``, ``gradients`` are named in the same way, if kept. A block with a
  single kept head has the suffix ``.{head}``.
- With tiles, instead of ``attention``: ``q.{map}.{layer}.part{n}`` ``[head, query, width]``,
  ``k...`` ``[key head, key, width]``, and ``rows...`` ``.log_sum`` ``[head, query]``, ``.edges``,
  ``.ends``, ``.bias`` and others, see `core/tiles/parts.py`.
- ``thumbnail.{map}`` ``[layer, head, query, key]``; ``logits`` ``[position, vocabulary]``;
  ``output`` ``[token, d_model]``
- ``hidden.{stack}.{layer}`` ``[token, d_model]``; ``positions.{name}``
- ``norm.{site}.{column}`` ``[token]``; ``gain.{site}``, ``bias.{site}`` ``[d_model]``
- ``residual.{stack}.{layer}.{place}`` ``[token]``; ``heads.{column}`` ``[head of the model]``. A
  text column holds indices into the list under ``frames.heads.texts``.

The metadata ``trace`` holds tokens, produced, sites, intervention, report, manifest, and the layout
of the tables. Saving and loading is an identity; equal traces give equal bytes.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd
import safetensors
import safetensors.numpy

from .errors import short, visible, whole
from .guesses import guesses_in
from .interventions import Intervention
from .sites import Site
from .stored import schema
from .stored.field_types import require_types
from .stored.file_names import utf8_name
from .stored.schema import FormError
from .stored.tables import Arrays, cut, cut_heads, join, join_heads, plain, put
from .tiles import Tiles
from .tiles.arrays import read, written
from .trace_parts import LEFT_OUT, Attention, KernelRun, Produced, Report, Tokens, read_only

FORMAT = 1
#: Parts of an attention block, and the names of their tensors.
PARTS = {
    "weights": "attention",
    "scores": "scores",
    "q": "q",
    "k": "k",
    "v": "v",
    "gradients": "gradients",
}
NAME = r"'?[\w.]+'?"  # name of an invalid array or field
BESIDE = ("query", "key", "scale", "cap")  # plain fields of an attention block
NORM_KEYS = ("site", "stack", "layer")
RESIDUAL_KEYS = ("stack", "layer", "place")
Part = TypeVar("Part")


class TraceFields(Protocol):
    """Fields of :class:`transformer_viz.core.trace.Trace` that are written to a file."""

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
    """Write a trace to one safetensors file, atomically.

    Raises:
        ValueError: A table is not in the order of tokens, or the manifest is not JSON.
        OSError: The folder is missing, the path is a folder, or the disk fails. An existing file is
            kept.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent}; make it, or name another file.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it.")
    arrays: Arrays = {}
    words = _describe(trace, arrays)
    text = json.dumps(words, ensure_ascii=False, default=plain)
    if not whole(text):
        raise ValueError("A trace file cannot hold half a character (\\ud800); give whole ones.")
    half = path.with_name(path.name + ".part")
    contents = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    try:
        half.touch()
        mode = half.stat().st_mode
        safetensors.numpy.save_file(contents, half, metadata={"trace": text})
        half.chmod(mode)  # safetensors writes files that only their owner can read
        os.replace(half, path)
    except BaseException as error:
        half.unlink(missing_ok=True)
        if isinstance(error, safetensors.SafetensorError):  # a disk error
            raise OSError(f"{path} could not be written ({error}); make room there.") from error
        raise


def load_fields(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the fields of a trace, by name, from a file that :func:`save_trace` wrote.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is no trace, of a later format, or incomplete. The message names the
            problem.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {visible(str(path))}.")
    name = visible(path.name)
    try:
        with utf8_name(path) as place, safetensors.safe_open(place, framework="numpy") as file:
            text = (file.metadata() or {})["trace"]
            titles = list(file.keys())
            if len(text) > schema.MOST_TEXT or len(titles) > schema.MOST_ARRAYS:
                raise FormError(
                    f"{name} holds more words than a trace can have; record it again, with "
                    "a shorter input."
                )
            words = dict(json.loads(text))
            if words.get("format") == FORMAT:
                _require(name, words, {one: file.get_slice(one).get_shape() for one in titles})
            arrays = {one: read_only(file.get_tensor(one)) for one in titles}
    except FormError:
        raise
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{name} is not a trace file; expected one that trace.save() or "
            "`transformer-viz trace --out` wrote."
        ) from error
    if words.get("format") != FORMAT:
        raise ValueError(
            f"{name} has trace format {short(words.get('format'))}; this version reads {FORMAT}. "
            "Record the trace again."
        )
    try:
        return _rebuild(words, arrays)
    except MemoryError as error:
        raise ValueError(
            f"{name} needs more memory than there is; record the trace again, with less kept."
        ) from error
    except Exception as error:  # a damaged table can raise any error in pandas
        named = isinstance(error, KeyError | TypeError) and re.fullmatch(NAME, str(error))
        what = f" at {str(error)[:80]}" if named else ""
        raise ValueError(
            f"{name} is an incomplete trace file, or a damaged one{what}; record the trace again."
        ) from error


def _require(name: str, words: Mapping[str, Any], shapes: Mapping[str, Sequence[int]]) -> None:
    """Raise if fields or arrays violate the schema, before they are read further.

    Raises:
        FormError: The message names the invalid part.
    """
    try:
        schema.require_words(words)
        for title, shape in shapes.items():
            schema.require_array(title, shape)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # Python's own messages do not name the part of the file
        what = f" ({str(error)[:120]})" if isinstance(error, FormError) else ""
        raise FormError(
            f"{name} is an incomplete trace file, or a damaged one{what}; record the trace again."
        ) from error


def _describe(trace: TraceFields, arrays: Arrays) -> dict[str, Any]:
    """Add the trace's arrays to ``arrays``, and return all else as plain data."""
    for attention in trace.attentions:
        for part, title in PARTS.items():
            put(arrays, f"{title}.{_block(attention.site)}", getattr(attention, part))
    for name, picture in trace.thumbnails.items():
        put(arrays, f"thumbnail.{name}", picture)
    for stack, states in trace.hiddens.items():
        for layer, state in enumerate(states):
            put(arrays, f"hidden.{stack}.{layer}", state)
    for name, table in trace.positions.items():
        put(arrays, f"positions.{name}", table)
    for site, (gain, bias) in trace.gains.items():
        put(arrays, f"gain.{site}", gain)
        put(arrays, f"bias.{site}", bias)
    put(arrays, "logits", trace.logits)
    put(arrays, "output", trace.output)
    tiles = written(trace.tiles, partial(put, arrays))
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
        "report": _report_words(trace.report),
        "manifest": trace.manifest,
        "frames": {
            "heads": cut_heads(trace.heads, arrays),
            "norms": cut(trace.norms, NORM_KEYS, _norm_name, arrays),
            "residuals": cut(trace.residuals, RESIDUAL_KEYS, _residual_name, arrays),
        },
        "thumbnails": list(trace.thumbnails),
        "hiddens": {stack: len(states) for stack, states in trace.hiddens.items()},
        "positions": list(trace.positions),
        "gains": list(trace.gains),
        "tiles": tiles,
    }


def _rebuild(fields: Mapping[str, Any], arrays: Arrays) -> dict[str, Any]:
    """Return the fields of a trace, the inverse of :func:`_describe`."""
    frames, target = fields["frames"], fields["target"]
    return {
        "source": _tokens(fields["source"]),
        "target": None if target is None else _tokens(target),
        "produced": _produced(fields["produced"]),
        "heads": join_heads(frames["heads"], arrays),
        "thumbnails": {name: arrays[f"thumbnail.{name}"] for name in fields["thumbnails"]},
        "attentions": tuple(_attention(site, arrays) for site in fields["sites"]),
        "norms": join(frames["norms"], NORM_KEYS, _norm_name, arrays),
        "gains": {
            site: (arrays.get(f"gain.{site}"), arrays.get(f"bias.{site}"))
            for site in fields["gains"]
        },
        "residuals": join(frames["residuals"], RESIDUAL_KEYS, _residual_name, arrays),
        "positions": {name: arrays[f"positions.{name}"] for name in fields["positions"]},
        "logits": arrays.get("logits"),
        "output": arrays.get("output"),
        "tiles": read(fields.get("tiles", ()), arrays),  # older files lack them
        "report": _report(fields["report"], fields["manifest"]),
        "manifest": fields["manifest"],
        "intervention": Intervention.from_json(fields["intervention"]),
        "hiddens": {
            stack: read_only(np.stack([arrays[f"hidden.{stack}.{n}"] for n in range(layers)]))
            for stack, layers in fields["hiddens"].items()
        },
    }


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
    found = Attention(weights, site, fields["query"], fields["key"], **parts, scale=scale, cap=cap)
    return _typed(found)


def _typed(part: Part) -> Part:
    """Return a part of a trace after a check of its field types."""
    require_types(part)
    return part


def _tokens(fields: dict[str, Any]) -> Tokens:
    return _typed(Tokens(**{name: tuple(values) for name, values in fields.items()}))


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
    return _typed(Produced(ids, pieces, labels, probability, rank))


def _report_words(report: Report) -> dict[str, Any]:
    """Return the report without fields that are in the manifest and unknown to older versions."""
    words = dataclasses.asdict(report)
    return {name: v for name, v in words.items() if name not in ("guessed", "left_out")}


def _report(fields: dict[str, Any], manifest: Any) -> Report:
    words = ("sites", "replaced", "unrecognised", "untold")
    lists: dict[str, Any] = {name: tuple(fields[name]) for name in words if name in fields}
    if "kernels" in fields:
        lists["kernels"] = tuple(KernelRun(**kernel) for kernel in fields["kernels"])
    left_out = manifest.get(LEFT_OUT, "") if isinstance(manifest, dict) else ""
    noted: dict[str, Any] = {"guessed": tuple(guesses_in(manifest)), "left_out": left_out}
    return _typed(Report(**(fields | lists), **noted))


def _norm_name(key: tuple[Any, ...], column: str) -> str:
    return f"norm.{key[0]}.{column}"


def _residual_name(key: tuple[Any, ...], column: str) -> str:
    name = "residual.{}.{}.{}".format(*key)
    return name if column == "norm" else f"{name}.{column}"
