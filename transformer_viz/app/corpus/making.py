"""Run of the page Corpus: an atlas of the bundled sentences for one model.

A plain function of a model, which imports torch when called.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...checkpoints.common.bundled import PRETRAINED, SENTENCES

if TYPE_CHECKING:
    from ...checkpoints import Model

SHARD = 100  # sentences; at most this many are lost if a run stops


def made(model: Model, folder: str, on_progress: Callable[[int, int], None]) -> Path:
    """Return the atlas of the held-out sentences in a folder; existing parts are reused.

    Raises:
        ValueError: The model does not read sentences.
    """
    from ...corpus.engines import run
    from ...corpus.plan import make_plan, settle_plan

    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    lines = (PRETRAINED / SENTENCES).read_text(encoding="utf-8").splitlines()
    pairs = model.kind == "encoder-decoder"
    text = lines if pairs else [line.partition("\t")[0] for line in lines]
    file = out / "sentences.tsv"
    file.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    plan = make_plan(model, file, size=SHARD)
    settle_plan(plan, out / "atlas")
    run(plan, file, out / "atlas", model, on_progress=on_progress)
    return out / "atlas"
