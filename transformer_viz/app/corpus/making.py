"""The run behind Corpus: an atlas of the sentences in the box, for one model.

A plain function of a model, which imports torch when it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...checkpoints.common.bundled import PRETRAINED, SENTENCES

if TYPE_CHECKING:
    from ...checkpoints import Model

SHARD = 100  # sentences: what a stopped run may lose


def made(model: Model, folder: str, on_progress: Callable[[int, int], None]) -> Path:
    """The atlas of the held-out sentences, in a folder; parts that are there are not made again.

    Raises:
        ValueError: the model reads no sentences.
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
