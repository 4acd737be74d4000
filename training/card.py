"""Model card: training data, quality, examples and known weaknesses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from transformer_viz.checkpoints.common.bundled import WEIGHTS, called
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.inference.generation import translate_lines

from . import pictures
from .batches import CHOSEN, HIDDEN, REPLACED
from .evaluate import UNSURE, Guesses, Hits, Score
from .recipe import AVERAGED, CONTINUED_WARMUP, Recipe, Schedule

BEAM = 4
FILLS = 3  # guesses shown for a masked word
#: Units of an update and of the whole run, by task.
UNITS = {
    "translation": ("target tokens", "target tokens"),
    "language": ("tokens", "tokens"),
    "masked": ("tokens", "hidden tokens"),
    "digits": ("images", "images"),
}


def card(
    recipe: Recipe,
    model: Model,
    state: Mapping[str, Any],
    *,
    score: Score | Guesses | Hits | None,
    sure: str = "",
    source: str,
    origin: Mapping[str, Any],
) -> str:
    """Return the card of a packaged model as Markdown.

    Args:
        recipe: The recipe of the run.
        model: The packaged model.
        state: Resume file of the run (``step``, ``tokens``, ``seconds``).
        score: Measured quality of the model, or None.
        sure: Section about the certainty of translations.
        source: File name of the recipe.
        origin: The weights that the run continued; empty without.
    """
    sections = {
        "": numbers(recipe, model),
        "How it was trained": training(recipe, model, state, source, origin),
        "Snapshots": snapshots(recipe, model),
        "How good it is": "\n\n".join(
            filter(None, (quality(recipe, model, score), recipe.card.findings.strip()))
        ),
        "How sure it is": sure,
        "Examples": examples(recipe, model),
        "Known weaknesses": bullets(recipe.card.weaknesses),
        "Data and licence": data(recipe),
    }
    parts = [f"# {recipe.title or recipe.name}"]
    for title, text in sections.items():
        if text:
            parts += [f"## {title}", text] if title else [text]
    return "\n\n".join(parts) + "\n"


def numbers(recipe: Recipe, model: Model) -> str:
    """Return the model's properties as a table."""
    assert model.folder is not None
    size = (model.folder / WEIGHTS).stat().st_size / 1e6
    shape = pictures.shape if recipe.data.task == "digits" else shape_of_text
    rows = [
        *shape(model),
        ("parameters", f"{model.parameters:,}"),
        ("file", f"{WEIGHTS}, {model.file_dtype}, {size:.1f} MB; computed in {model.dtype}"),
        ("SHA-256", f"`{model.hash}`"),
    ]
    return table(("what", "this model"), rows)


def shape_of_text(model: Model) -> list[tuple[str, str]]:
    """Return kind, layers, heads, width and vocabulary of a text Transformer."""
    config = model.config
    stacks = [(config[f"{stack}_layers"], stack) for stack in ("encoder", "decoder")]
    shared = {"encoder-decoder": ", shared by both languages", "decoder-only": ""}
    return [
        (
            "kind",
            f"Transformer, {model.kind}, {config['norm']}-norm, {config['positions']} positions",
        ),
        ("layers", " + ".join(f"{count} {stack}" for count, stack in stacks if count)),
        ("heads", f"{config['heads']} of width {config['d_k']}"),
        ("width", f"{config['d_model']}, feed-forward {config['d_ff']}"),
        (
            "vocabulary",
            f"{config['target_vocab']:,} pieces{shared.get(model.kind, ', one of them the mask')}",
        ),
    ]


def fading(schedule: Schedule) -> str:
    """Return the card's text about a learning rate falling with the square root of the updates."""
    if not schedule.fade_from:
        return ""
    return f"from update {schedule.fade_from:,} lowered with the square root of the updates, "


def averaging(schedule: Schedule) -> str:
    """Return the card's text about averaged weights."""
    if not schedule.average:
        return ""
    last = round(AVERAGED / (1 - schedule.average))
    return f"the weights are a running average of about the last {last:,} updates; "


def training(
    recipe: Recipe, model: Model, state: Mapping[str, Any], source: str, origin: Mapping[str, Any]
) -> str:
    """Return updates, time, the command that repeats the run, and the initial weights."""
    schedule = recipe.schedule
    name = source or f"{recipe.name}.toml"
    one, all_ = UNITS[recipe.data.task]
    digits = recipe.data.task == "digits"
    text = (
        f"{state['step']:,} of {schedule.steps:,} updates of "
        f"{'' if digits else 'about '}{schedule.batch_tokens} {one}, "
        f"{amount(state['tokens'])} {all_} in all, {duration(state['seconds'])}; seed "
        f"{recipe.seed}. {shown(recipe)}AdamW, learning rate {schedule.peak:g} after "
        f"{schedule.warmup} updates of warm-up, held, {fading(schedule)}and lowered in a straight "
        f"line to zero from update {schedule.decay_from:,}; {averaging(schedule)}"
        f"label smoothing {schedule.label_smoothing:g}, dropout "
        f"{recipe.model.get('dropout', 0)}. The curve is in `log.csv`.\n\nThe recipe with every "
        f"number, and the command that runs it{'' if digits else ' (DIR holds the data)'}:\n\n"
        f"    transformer-viz train recipes/{name}{'' if digits else ' --data DIR'} --out "
        f"pretrained/{Path(name).with_name(recipe.name).as_posix()}"
    )
    if origin:
        size = f"{origin['parameters']:,}" if "parameters" in origin else ""
        grew = size and size != f"{model.parameters:,}"
        text += (
            f"\n\nThe run did not begin at random: it continued the float16 weights of "
            f"{origin['name']} (SHA-256 `{origin['hash']}`) with a fresh optimiser and a warm-up "
            f"of at most {CONTINUED_WARMUP} updates. The numbers above count the continuation only."
        )
        if grew:
            text += (
                f" That model had {size} parameters. What is new began by adding nothing, and a "
                "new piece as the mean of the old pieces of its text."
            )
    return text


def shown(recipe: Recipe) -> str:
    """Return sentences about the training input, where it is not obvious."""
    sentences = []
    if recipe.data.join > 1:
        sentences.append(f"A row holds 1 to {recipe.data.join} sentences, by chance.")
    if recipe.data.task == "masked":
        sentences.append(
            f"{CHOSEN:.0%} of the tokens of each batch were to be guessed, chosen afresh each "
            f"time: {HIDDEN:.0%} of these hidden behind the mask, {REPLACED:.0%} replaced by any "
            "piece, the others as they are (Devlin et al. 2018, section 3.1)."
        )
    if recipe.data.task == "digits":
        sentences.append(pictures.SHOWN)
    return "".join(f"{sentence} " for sentence in sentences)


def amount(count: int) -> str:
    return f"{count / 1e6:.1f} million" if count >= 1e6 else f"{count:,}"


def duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"


def snapshots(recipe: Recipe, model: Model) -> str:
    """Return the section on snapshots stored beside the final weights."""
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


def quality(recipe: Recipe, model: Model, score: Score | Guesses | Hits | None) -> str:
    """Return the score, and the command that measures it."""
    if score is None:
        return "It was not measured when this card was written."
    assert model.folder is not None
    file = recipe.data.test
    command = f"python -m training.evaluate {called(model.folder)}"
    if isinstance(score, Hits):
        share = f"{score.right / score.images:.1%}"
        said = f"**Accuracy {share}** ({score.right} of {score.images}) {pictures.HELD}"
    elif isinstance(score, Score):
        said = (
            f"**BLEU {score.bleu:.1f}** on all {score.sentences:,} sources of `{file}`, beam "
            f"{score.beam}, every reference of a sentence, cased and detokenised (sacrebleu "
            f"`{score.signature}`)."
        )
        command += f" --data DIR --file {file} --beam {score.beam}"
    else:
        asked = (
            "each piece in turn hidden behind the mask and guessed from both sides "
            "(pseudo-perplexity, Salazar et al. 2020)"
            if model.kind == "encoder-only"
            else "each next piece and the end of the sentence guessed from what stands before"
        )
        said = (
            f"**Perplexity {score.perplexity:.1f} per token, first guess right "
            f"{score.first:.1%}**, on the {score.tokens:,} tokens of the {score.sentences:,} "
            f"English sentences of `{file}`, none of which was trained on: {asked}."
        )
        command += f" --data DIR --file {file}"
    return f"{said} Measured by:\n\n    {command}"


def sureness(limit: float, file: str) -> str:
    """Return the section on certainty, and on the limit below which the app shows a warning."""
    return (
        "The certainty of a translation is the geometric mean of the probabilities that its pieces "
        f"had (beam {BEAM}). It is {limit:.0%} or more for {1 - UNSURE:.0%} of the sources of "
        f"`{file}`, which were not trained on; below that the app says that the model is not "
        "sure. A translation can be sure and wrong."
    )


def examples(recipe: Recipe, model: Model) -> str:
    """Return the model's output on the recipe's examples, right or wrong."""
    if model.takes == "image":
        head = ("picture", "the model says")
        return pictures.INTRODUCED + table(head, pictures.answers(model))
    lines = list(recipe.card.examples)
    if not lines:
        return ""
    if model.kind == "encoder-only":
        head = ("sentence", "guesses for the word in brackets")
        made = [fills(model, line) for line in lines]
    elif model.kind == "decoder-only":
        head = ("beginning", "greedy continuation")
        made = [hypothesis.text.strip() for hypothesis in translate_lines(model, lines, 1)]
    else:
        head = ("source", f"beam {BEAM}")
        made = [hypothesis.text for hypothesis in translate_lines(model, lines, BEAM)]
    rows = table(head, zip(lines, made, strict=True))
    return f"As the model gives them, none left out:\n\n{rows}"


def hide(model: Model, line: str) -> tuple[list[int], list[int]]:
    """Return the ids of a sentence with the word in ``[brackets]`` masked, and the original ids.

    Raises:
        ValueError: No word in brackets, or one that is not a single piece.
    """
    before, _, rest = line.partition("[")
    word, _, after = rest.partition("]")
    ids = model.tokenizer.source_ids(before + word + after)
    place = len(model.tokenizer.source_ids(before.rstrip())) - 1  # the end token is no word
    if not word or model.tokenizer.decode(ids[place : place + 1]) != word:
        raise ValueError(
            f"The example {line!r} needs one word in [brackets] that is a single piece of the "
            "vocabulary; choose a more common word."
        )
    assert model.mask_id is not None
    return [model.mask_id if i == place else token for i, token in enumerate(ids)], ids


def fills(model: Model, line: str) -> str:
    """Return the most probable pieces for the masked word, with their probabilities."""
    shown, _ = hide(model, line)
    with torch.inference_mode():
        logits = model.calls.forward(torch.tensor([shown], device=model.device))[0]
    chance, pieces = logits[shown.index(model.mask_id or 0)].softmax(-1).topk(FILLS)
    said = [
        f"{model.tokenizer.decode([piece]) or model.tokenizer.pieces[piece]} {share:.0%}"
        for piece, share in zip(pieces.tolist(), chance.tolist(), strict=True)
    ]
    return ", ".join(said)


def data(recipe: Recipe) -> str:
    """Return the origin of the sentences, and the licences of data and weights."""
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
    """Return two columns as a Markdown table."""
    lines = [head, ("---", "---"), *rows]
    return "\n".join(f"| {left} | {right.replace('|', chr(92) + '|')} |" for left, right in lines)
