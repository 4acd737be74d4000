"""Serialization of a trace's tables as arrays: one per site and column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from .schema import require_places

Arrays = dict[str, np.ndarray]
Namer = Callable[[tuple[Any, ...], str], str]


def put(arrays: Arrays, name: str, array: np.ndarray | None) -> None:
    """Add an array under its name; None is skipped.

    Raises:
        ValueError: The name is taken.
    """
    if array is None:
        return
    if name in arrays:
        raise ValueError(f"Two parts of the trace are called {name}; a file can hold only one.")
    arrays[name] = array


def cut(frame: pd.DataFrame, keys: tuple[str, ...], name: Namer, arrays: Arrays) -> dict[str, Any]:
    """Split a table of tokens into one array per site and column.

    Runs of rows with equal keys, tokens counted from 0, are recorded in order. So the table can be
    rebuilt even if a site occurs twice.
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
        put(arrays, title, np.concatenate(pieces))
    return _columns(frame) | {"runs": runs}


def _runs(frame: pd.DataFrame, keys: tuple[str, ...]) -> list[list[Any]]:
    """Return the runs of a table as ``[*keys, rows]``."""
    columns = [[None if pd.isna(v) else plain(v) for v in frame[key]] for key in keys]
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


def join(
    fields: dict[str, Any], keys: tuple[str, ...], name: Namer, arrays: Arrays
) -> pd.DataFrame:
    """Return the table that :func:`cut` split."""
    runs, columns = fields["runs"], _values(fields["columns"], keys)
    lengths = [run[-1] for run in runs]
    sums: dict[str, int] = defaultdict(int)
    for *run, length in runs:
        for one in columns:
            sums[name(tuple(run), one)] += length
    fits = all(rows <= len(arrays[title]) for title, rows in sums.items())
    if not fits or (not columns and sum(lengths)):
        raise IndexError  # more rows than the arrays hold
    table: dict[str, Any] = {"token": [n for length in lengths for n in range(length)]}
    for place, key in enumerate(keys):
        table[key] = [run[place] for run in runs for _ in range(run[-1])]
    require_places(table)
    for column in columns:
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


def cut_heads(frame: pd.DataFrame, arrays: Arrays) -> dict[str, Any]:
    """Split the table of heads into one array per column; texts become indices into a list."""
    texts: dict[str, list[str]] = {}
    for column in frame.columns:
        if pd.api.types.is_numeric_dtype(frame[column].dtype):
            put(arrays, f"heads.{column}", frame[column].to_numpy())
        else:
            codes, found = pd.factorize(frame[column])
            put(arrays, f"heads.{column}", codes.astype(np.int64))
            texts[column] = list(found)
    return _columns(frame) | {"texts": texts}


def join_heads(fields: dict[str, Any], arrays: Arrays) -> pd.DataFrame:
    """Return the table that :func:`cut_heads` split."""
    table: dict[str, Any] = {}
    for column in fields["columns"]:
        values, found = arrays[f"heads.{column}"], fields["texts"].get(column)
        table[column] = values if found is None else [found[code] for code in values]
    require_places(table)
    return _frame(table, fields)


def _columns(frame: pd.DataFrame) -> dict[str, Any]:
    return {
        "columns": [str(column) for column in frame.columns],
        "dtypes": {str(column): str(dtype) for column, dtype in frame.dtypes.items()},
    }


def _frame(table: dict[str, Any], fields: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(table, columns=fields["columns"]).astype(fields["dtypes"])


def plain(value: Any) -> Any:
    """Return a numpy scalar as a Python number.

    Raises:
        ValueError: The value is not plain data.
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, int | float | str | bool):
        return value
    raise ValueError(
        f"A trace file cannot hold {value!r} ({type(value).__name__}) in its manifest; give plain "
        "text, numbers, lists and dictionaries."
    )
