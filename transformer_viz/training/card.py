"""The model card: what was trained on what, how good it is, and what to expect of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..checkpoints.model import Model
from ..checkpoints.shelf import WEIGHTS
from ..decode import translate_lines
from .evaluate import Score
from .recipe import CONTINUED_WARMUP, Recipe

BEAM = 4


def card(
    recipe: Recipe,
    model: Model,
    state: Mapping[str, Any],
    *,
    score: Score | None,
    source: str,
    origin: Mapping[str, str],
) -> str:
    """The card of a packaged model as Markdown.

    ``state`` is the run's resume file (``step``, ``tokens``, ``seconds``), ``score`` the measured
    BLEU if there is one, ``source`` the recipe's file name, ``origin`` the weights that the run
    continued, if any.
    """
    sections = {
        "": numbers(recipe, model, state),
        "How it was trained": training(recipe, state, source, origin),
        "Snapshots": snapshots(recipe, model),
        "How good it is": quality(recipe, model, score),
        "Examples": examples(recipe, model),
        "Known weaknesses": bullets(recipe.card.weaknesses),
        "Data and licence": data(recipe),
    }
    parts = [f"# {recipe.title or recipe.name}"]
    for title, text in sections.items():
        if text:
            parts += [f"## {title}", text] if title else [text]
    return "\n\n".join(parts) + "\n"


def numbers(recipe: Recipe, model: Model, state: Mapping[str, Any]) -> str:
    """What the model is, as a table."""
    config = model.config
    assert model.folder is not None
    size = (model.folder / WEIGHTS).stat().st_size / 1e6
    rows = [
        (
            "kind",
            f"Transformer, {model.kind}, {config['norm']}-norm, {config['positions']} positions",
        ),
        ("layers", f"{config['encoder_layers']} encoder + {config['decoder_layers']} decoder"),
        ("heads", f"{config['heads']} of width {config['d_k']}"),
        ("width", f"{config['d_model']}, feed-forward {config['d_ff']}"),
        ("vocabulary", f"{config['target_vocab']:,} pieces, shared by both languages"),
        ("parameters", f"{model.parameters:,}"),
        ("file", f"{WEIGHTS}, {model.file_dtype}, {size:.1f} MB; computed in {model.dtype}"),
        ("SHA-256", f"`{model.hash}`"),
    ]
    return table(("what", "this model"), rows)


def training(
    recipe: Recipe, state: Mapping[str, Any], source: str, origin: Mapping[str, str]
) -> str:
    """Updates, time, how to make it again, and where it began."""
    schedule = recipe.schedule
    name = f"recipes/{source or recipe.name + '.toml'}"
    text = (
        f"{state['step']:,} of {schedule.steps:,} updates of about {schedule.batch_tokens} target "
        f"tokens, {state['tokens'] / 1e6:.1f} million target tokens in all, "
        f"{state['seconds'] / 60:.0f} minutes; seed {recipe.seed}. AdamW, learning rate "
        f"{schedule.peak:g} after {schedule.warmup} updates of warm-up, held, and lowered in a "
        f"straight line to zero from update {schedule.decay_from:,}; label smoothing "
        f"{schedule.label_smoothing:g}, dropout {recipe.model.get('dropout', 0)}. The curve is in "
        "`log.csv`.\n\nThe recipe with every number, and the command that runs it (DIR holds "
        f"the data):\n\n    transformer-viz train {name} --data DIR --out pretrained/{recipe.name}"
    )
    if origin:
        text += (
            f"\n\nThe run did not begin at random: it continued the float16 weights of "
            f"{origin['name']} (SHA-256 `{origin['hash']}`) with a fresh optimiser and a warm-up "
            f"of at most {CONTINUED_WARMUP} updates. The numbers above count the continuation only."
        )
    return text


def snapshots(recipe: Recipe, model: Model) -> str:
    """Which moments of the training lie beside the final weights."""
    assert model.folder is not None
    steps = sorted(
        int(p.stem.removeprefix("step-")) for p in model.folder.glob("step-*.safetensors")
    )
    if not steps:
        return ""
    listed = ", ".join(f"{step:,}" for step in steps)
    return (
        f"The weights after update {listed} are in `step-<update>.safetensors`; they share config "
        f"and vocabulary with the final ones. Open one with "
        f'`tv.load("{recipe.name}/step-{steps[0]}")`.'
    )


def quality(recipe: Recipe, model: Model, score: Score | None) -> str:
    """BLEU, and the command that measures it."""
    if score is None:
        return "BLEU was not measured when this card was written."
    assert model.folder is not None
    return (
        f"**BLEU {score.bleu:.1f}** on all {score.sentences:,} sources of `{recipe.data.test}`, "
        f"beam {score.beam}, every reference of a sentence, cased and detokenised (sacrebleu "
        f"`{score.signature}`). Measured by:\n\n    python -m transformer_viz.training.evaluate "
        f"{model.folder.name} --data DIR --file {recipe.data.test} --beam {score.beam}"
    )


def examples(recipe: Recipe, model: Model) -> str:
    """The recipe's sentences and what the model makes of them, right or wrong."""
    lines = list(recipe.card.examples)
    if not lines:
        return ""
    made = [hypothesis.text for hypothesis in translate_lines(model, lines, BEAM)]
    rows = table(("source", f"beam {BEAM}"), zip(lines, made, strict=True))
    return f"As the model gives them, none left out:\n\n{rows}"


def data(recipe: Recipe) -> str:
    """Where the sentences are from, and under which licences data and weights stand."""
    words = recipe.card
    quoted = "\n".join(f"> {line}" for line in words.attribution.strip().splitlines())
    licence = words.licence and (
        f"Licence of the data: {words.licence}. The weights may be used under the licence of this "
        "project (MIT); keep the notice above with them."
    )
    return "\n\n".join(part for part in (words.data.strip(), quoted, licence) if part)


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    """Two columns as a Markdown table."""
    lines = [head, ("---", "---"), *rows]
    return "\n".join(f"| {left} | {right.replace('|', chr(92) + '|')} |" for left, right in lines)
