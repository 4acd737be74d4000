"""``python -m tests.families.explained``: write docs/tables/explained.csv; ``--check`` compares it.

For every checkpoint layout and every Hugging Face kind that opens: do the contributions sum to what
each block made, and the direct terms to the logit?
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.support.measured_tables import read_table, write_table
from transformer_viz.checkpoints import Model
from transformer_viz.inference.explanation.explaining import Explainer
from transformer_viz.inference.explanation.question import ask

from .catalogue import Family, inputs
from .table import EACH, figure, opened, without_figures

TABLE = "explained"
CONTRIBUTIONS, LOGITS = 1e-5, 1e-4  # the most that each figure may be
#: Modules of tests/checkpoints that measure layouts, and those whose ``compared`` they call.
LAYOUTS = (
    *("annotated", "fairseq", "gpt", "hugging_face", "jadore", "labml", "opennmt", "timm"),
    *("torch_core", "torch_tutorial"),
)
COMPARE = ("annotated", "drawn", "hugging_face", "jadore", "labml")
COLUMNS = ("of", "model", "kind", "contributions", "bias apart", "logits", "note")


@dataclass(frozen=True)
class Row:
    """What was measured of one kind; ``None`` where it is not served."""

    name: str
    kind: str
    contributions: float | None = None
    apart: bool | None = None
    logits: float | None = None
    note: str = ""


def measured(name: str, model: Model, source: Any, target: Any = None) -> Row:
    """The figures of one model on one input."""
    kind, notes = f"{model.kind}, {model.gives}", []
    try:
        asked = Explainer(ask(model, source, 1, target))
    except ValueError as error:
        return Row(name, kind, note=str(error))
    found: dict[str, float | None] = {"contribution": None, "logits": None}
    for method in found:
        try:
            found[method] = asked.answer(method).complete
        except ValueError as error:
            notes.append(str(error))
    if found["logits"] is not None:
        q = asked.question
        found["logits"] /= max(1.0, float(q.logits(asked.anatomy.output).abs().max()))
    apart = None if found["contribution"] is None else not asked.anatomy.whole_values
    note = " ".join(part.partition(", so none of its rows")[0] for part in notes)
    for quoted in (repr(model.name), f"“{model.name}”"):
        note = note.replace(f"model {quoted}", "model").replace(quoted, "this model")
    return Row(name, kind, found["contribution"], apart, found["logits"], note)


def of_family(family: Family) -> Row:
    """One Hugging Face kind, opened from its folder."""
    model = opened(family)
    if not isinstance(model, Model):
        return Row(family.name, "no", note=model.partition(";")[0].partition(" tv.")[0])
    given = {name: x[0] for name, x in inputs(family).items()}
    if model.takes == "image":
        return measured(family.name, model, given["pixel_values"].numpy())
    if model.takes == "audio":
        sound = given.get("input_values", torch.linspace(-1, 1, 16000).sin())
        target = given.get("decoder_input_ids")
        written = None if target is None else target.tolist()
        return measured(family.name, model, sound.numpy(), written)
    target = given["decoder_input_ids"].tolist() if model.kind == "encoder-decoder" else None
    return measured(family.name, model, given["input_ids"].tolist(), target)


@contextmanager
def listening(heard: list[tuple[Model, tuple[Tensor, ...]]]) -> Iterator[None]:
    """Hears every model that the table of checkpoints compares, and its inputs."""
    modules = [import_module(f"tests.checkpoints.{name}") for name in COMPARE]
    plain = modules[0].compared

    def compared(model: Model, given: Any, *rest: Any) -> Any:
        heard.append((model, given))
        return plain(model, given, *rest)

    for module in modules:
        module.compared = compared
    try:
        yield
    finally:
        for module in modules:
            module.compared = plain


@cache
def of_layouts() -> tuple[Row, ...]:
    """Every layout and arrangement with all its variants, as the table of checkpoints makes them:
    the worst figures."""
    heard: list[tuple[Model, tuple[Tensor, ...]]] = []
    with listening(heard):
        for name in LAYOUTS:
            module = import_module(f"tests.checkpoints.{name}")
            getattr(module.rows, "__wrapped__", module.rows)()
    found: dict[tuple[str, str], list[Row]] = {}
    for model, given in {id(model): (model, given) for model, given in heard}.values():
        source, *rest = (None if x is None else _plain(x[0]) for x in given)
        target = rest[0] if rest and model.kind == "encoder-decoder" else None
        row = measured(model.layout, model, source, target)
        found.setdefault((row.name, row.kind), []).append(row)
    return tuple(_worst(rows) for _, rows in sorted(found.items()))


def _worst(rows: list[Row]) -> Row:
    """Several variants in one row."""
    sums, logits = (
        [value for row in rows if (value := getattr(row, name)) is not None]
        for name in ("contributions", "logits")
    )
    apart = [row.apart for row in rows if row.apart is not None]
    notes = " ".join(dict.fromkeys(row.note for row in rows if row.note))
    served = "" if len(sums) in (0, len(rows)) else f"{len(sums)} of {len(rows)} variants. "
    return Row(
        f"{rows[0].name} ({len(rows)})",
        rows[0].kind,
        max(sums, default=None),
        all(apart) if apart else None,
        max(logits, default=None),
        served + notes,
    )


def _plain(x: Tensor) -> Any:
    return x.float().numpy().astype(np.float32) if x.is_floating_point() else x.tolist()


def families() -> list[Row]:
    """Every Hugging Face kind, by name."""
    torch.set_num_threads(1)
    return sorted((of_family(family) for family in EACH), key=lambda one: one.name)


def cells(of: str, one: Row) -> dict[str, str]:
    """Return a row of the table, by column; ``of``: a layout of checkpoints, or a family."""
    apart = "-" if one.apart is None else "yes" if one.apart else "no"
    sums, logits = figure(one.contributions), figure(one.logits)
    values = (of, one.name, one.kind, sums, apart, logits, one.note)
    return dict(zip(COLUMNS, values, strict=True))


def measured_rows() -> list[dict[str, str]]:
    """Measure all layouts, then all families."""
    layouts = [cells("layout", one) for one in of_layouts()]
    return layouts + [cells("family", one) for one in families()]


def stands(one: Row) -> bool:
    """Return whether the table in docs has this row of a family, figures aside."""
    return without_figures(cells("family", one)) in map(without_figures, read_table(TABLE))


def main() -> None:
    found = measured_rows()
    if "--check" not in sys.argv[1:]:
        write_table(TABLE, found)
    elif list(map(without_figures, found)) != list(map(without_figures, read_table(TABLE))):
        sys.exit("docs/tables/explained.csv is stale; run python -m tests.families.explained")


if __name__ == "__main__":
    main()
