"""``transformer-viz match``: one picture and several captions, for CLIP and SigLIP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..core.guesses import guess_entry, guesses_in, with_mark
from .arguments import existing_picture
from .options import load_model, model_path, set_option
from .terminal import after_a_second, tell

if TYPE_CHECKING:
    from ..inference.matching import Match

BOTH = "both"  # towers


@click.command()
@model_path
@click.argument("picture")
@click.argument("captions", metavar="CAPTION...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
@set_option
@click.option(
    "--out", metavar="DIR", help="Store the runs: picture.safetensors, caption-1.safetensors ..."
)
def match(
    path: str,
    picture: str,
    captions: tuple[str, ...],
    as_json: bool,
    words: tuple[str, ...],
    out: str | None,
) -> None:
    """Say how well captions go with a picture, for CLIP and SigLIP.

    CLIP chooses among the captions, so its probabilities sum to 1; SigLIP judges each by itself.
    """
    image = existing_picture(picture, "PICTURE")
    folder = None if out is None else _new_folder(out)
    model = load_model(path, words, part=BOTH)
    from ..inference.matching import match as compare

    with after_a_second("Comparing"):
        found = compare(model, captions, image)
    if folder is not None:
        _save(found, folder)
    tell(json.dumps(_words(found), indent=2) if as_json else _lines(found))


def _new_folder(out: str) -> Path:
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"--out {out!r} is there already; name a folder that is new or empty.")
    return folder


def _save(found: Match, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    found.picture.save(folder / "picture.safetensors")
    for number, run in enumerate(found.texts, 1):
        run.save(folder / f"caption-{number}.safetensors")


def _words(found: Match) -> dict[str, object]:
    rows = zip(found.captions, found.probabilities, found.logits, strict=True)
    return {
        "probability": "sigmoid" if found.sigmoid else "softmax",
        "captions": [
            {"caption": caption, "probability": float(chance), "logit": float(logit)}
            for caption, chance, logit in rows
        ],
        "reports": [run.report.status for run in (found.picture, *found.texts)],
        **guess_entry(guesses_in(found.picture, *found.texts)),
    }


def _lines(found: Match) -> str:
    """Return readable lines, the best caption first."""
    rows = zip(found.probabilities, found.logits, found.captions, strict=True)
    ordered = sorted(rows, key=lambda row: -row[0])
    lines = [f"{chance:7.1%}  {logit:8.2f}  {caption}" for chance, logit, caption in ordered]
    how = "each by itself (sigmoid)" if found.sigmoid else "of these captions (softmax)"
    runs = (found.picture, *found.texts)
    status = {run.report.status for run in runs}
    worst = "unchecked" if status == {"green", "unchecked"} else "amber"
    report = with_mark(f"capture report {status.pop() if len(status) == 1 else worst}", *runs)
    return "\n".join([f"probability {how}, logit, caption", *lines, report])
