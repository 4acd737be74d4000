"""Token tables of an adapter's model, which may have more or fewer rows than the base model's."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..files.adapters import Adapter


def saved(adapter: Adapter) -> dict[str, Tensor]:
    """Return the weights an adapter stores whole (a head, biases), by their names in the model.

    With embeddings that grew, peft writes a trained table up to three times: as trained
    (``modules_to_save``), as it was (``original_module``), and under its plain name.
    """
    whole = {
        name.replace(".base_layer.", ".").replace(".token_adapter.", "."): tensor
        for name, tensor in adapter.tensors.items()
        if not any(mark in name for mark in ("lora_", ".original_module.", "trainable_tokens_"))
    }
    plain = {name: tensor for name, tensor in whole.items() if ".modules_to_save." not in name}
    return plain | {
        name.replace(".modules_to_save.", "."): tensor
        for name, tensor in whole.items()
        if name not in plain
    }


def resize_tables(module: Any, adapter: Adapter) -> None:
    """Resize a model's token tables in place to the rows that an adapter was trained with.

    Tokens added before the training exist only in the adapter's files. A row that they hold for one
    of two tied tables is used for both. If the adapter's tables are smaller, the last rows are
    removed, as in the library's own resizing.
    """
    rows, had = _trained_rows(module, adapter), _rows(module)
    if rows in (0, had):
        return
    with torch.random.fork_rng(devices=[]):
        module.resize_token_embeddings(rows, mean_resizing=False)
    _separate(module)
    tables, given = _token_tables(module), saved(adapter)
    whole = {path: given.get(f"{path}.weight") for path in tables}
    known = [t for t in whole.values() if t is not None and t.shape[0] == rows]
    with torch.no_grad():
        for path, table in tables.items():
            first = adapter.tensors.get(f"{path}.original_module.weight")
            if first is not None and first.shape == table.weight.shape:
                table.weight[had:] = first[had:]  # for the table tied to this one
            if whole[path] is not None:
                continue
            table.weight[had:] = known[0][had:].to(table.weight) if known else 0
            if getattr(table, "bias", None) is not None:
                table.bias[had:] = 0


def _separate(module: Any) -> None:
    """Replace each further path to a token table by a separate module with the same parameter.

    T5's encoder holds its shared table as a second module. The resizing makes them one. A table
    that peft trains under one path would then appear under the other.
    """
    for path, table in _token_tables(module).items():
        for other, part in list(module.named_modules(remove_duplicate=False)):
            if part is table and other != path:
                twin = copy.copy(table)
                twin._parameters = dict(table._parameters)
                module.set_submodule(other, twin)


def resizing_note(module: Any, adapter: Adapter) -> str:
    """Return the note on tokens that an adapter's model has beyond, or fewer than, its base."""
    rows, had = _trained_rows(module, adapter), _rows(module)
    if rows in (0, had):
        return ""
    count = abs(rows - had)
    tokens = "1 token" if count == 1 else f"{count:,} tokens"
    if rows < had:
        return (
            f"The adapter was trained with {tokens} fewer than its base has; the last of the base "
            "are left out."
        )
    unknown = ", ".join(unknown_rows(module, adapter))
    rest = "rows are its own"
    if unknown:
        rest = f"rows of {unknown} that are in no file are 0 here (a resizing draws them at random)"
    return f"The adapter was trained with {tokens} more than its base has; their {rest}."


def unknown_rows(module: Any, adapter: Adapter) -> tuple[str, ...]:
    """Return the token tables with added rows that no file holds; these rows become 0."""
    given, rows, had = saved(adapter), _trained_rows(module, adapter), _rows(module)
    lost = [
        path
        for path in _token_tables(module)
        if len(given.get(f"{path}.weight", ())) != rows
        and not set(range(had, rows)) <= set(_single_rows(adapter, path))
    ]
    whole = module.config.tie_word_embeddings and len(lost) < len(_token_tables(module))
    return () if whole else tuple(lost)


def _rows(module: Any) -> int:
    """Return the number of tokens in both token tables of a model."""
    return min((table.weight.shape[0] for table in _token_tables(module).values()), default=0)


def _trained_rows(module: Any, adapter: Adapter) -> int:
    """Return the number of tokens of an adapter's model; 0 if only one of two tables grew.

    A larger output layer without an embedding for its tokens, or the reverse, belongs to another
    model. Rows that were trained one by one need no table in the files.
    """
    tables = _token_tables(module)
    rows = [_rows_of(adapter, path) for path in tables]
    single = max((n + 1 for path in tables for n in _single_rows(adapter, path)), default=0)
    single = single if single > _rows(module) else 0
    if not rows or (min(rows) < max(rows) and not module.config.tie_word_embeddings):
        return 0
    return max(*rows, single)


def _token_tables(module: Any) -> dict[str, Any]:
    """Return the embedding and the output layer of a model by their paths."""
    wanted = []
    for find in ("get_input_embeddings", "get_output_embeddings"):
        try:
            wanted.append(getattr(module, find)())
        except (AttributeError, NotImplementedError):
            continue
    return {
        path: part
        for path, part in module.named_modules()
        if any(part is table for table in wanted) and isinstance(part, nn.Embedding | nn.Linear)
    }


def _rows_of(adapter: Adapter, path: str) -> int:
    """Return the number of tokens of a table in an adapter's tensors; 0 if it has none."""
    rows = 0
    for name, tensor in adapter.tensors.items():
        if not name.startswith(f"{path}.") or tensor.dim() != 2:
            continue
        if "lora_embedding_A" in name:  # [rank, token]
            rows = max(rows, tensor.shape[1])
        elif "lora_embedding_B" not in name and "lora_A" not in name and "delta" not in name:
            rows = max(rows, tensor.shape[0])  # [token, width], or lora_B [token, rank]
    return rows


def _single_rows(adapter: Adapter, path: str) -> list[int]:
    """Return the indices of table rows that were trained one by one."""
    chosen = adapter.words.get("trainable_token_indices") or ()
    if isinstance(chosen, Mapping):
        chosen = [i for name, ids in chosen.items() if path.endswith(str(name)) for i in ids]
    elif not path.endswith(("embed_tokens", "shared", "wte", "word_embeddings", "embed_in")):
        chosen = ()
    return [i for i in chosen if isinstance(i, int) and not isinstance(i, bool)]
