"""Choice of an option that no file states, by the loss on sample text.

A wrong number of heads opens without an error. The model is then less certain of ordinary
sentences, a little or a lot. Given a vocabulary, the loss on a few sentences finds the right
number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ...preprocessing.tokenizers import PlainIds, target_side
from ...preprocessing.vocabularies import types_ids
from .build_reference import possible_heads
from .model import Model
from .word_checks import usual_heads

#: The same six sentences in four languages, since the language of the training is unknown.
SAMPLES = {
    "en": (
        "A man in a blue shirt is standing on a ladder.",
        "Two young girls are playing in the park.",
        "I do not know what you want to say.",
        "The house at the end of the street is very old.",
        "She asked him whether he had read the book.",
        "We will talk about it tomorrow.",
    ),
    "de": (
        "Ein Mann in einem blauen Hemd steht auf einer Leiter.",
        "Zwei junge Mädchen spielen im Park.",
        "Ich weiß nicht, was du sagen willst.",
        "Das Haus am Ende der Straße ist sehr alt.",
        "Sie fragte ihn, ob er das Buch gelesen habe.",
        "Wir werden morgen darüber sprechen.",
    ),
    "fr": (
        "Un homme en chemise bleue est debout sur une échelle.",
        "Deux jeunes filles jouent dans le parc.",
        "Je ne sais pas ce que tu veux dire.",
        "La maison au bout de la rue est très vieille.",
        "Elle lui a demandé s'il avait lu le livre.",
        "Nous en parlerons demain.",
    ),
    "es": (
        "Un hombre con camisa azul está de pie en una escalera.",
        "Dos niñas juegan en el parque.",
        "No sé lo que quieres decir.",
        "La casa al final de la calle es muy vieja.",
        "Ella le preguntó si había leído el libro.",
        "Hablaremos de ello mañana.",
    ),
}
GIVE_HEADS = "Give the number you trained with, as tv.load(..., heads=8) or --set heads=8."
TIE = 0.005  # nats; losses that differ by less look the same in the note
BLIND = 0.9  # of the loss of blind guessing; a model that is no better decides nothing


def calibrated(
    words: Sequence[str],
    candidates: Sequence[Any],
    usual: Any,
    make: Callable[[dict[str, Any]], Model],
    advice: str = "",
) -> Model:
    """Return the model under the candidate with the lowest loss on sample text, or the usual one.

    Args:
        words: The open option, then those that follow from it.
        candidates: Possible values of the option.
        usual: Value taken without a vocabulary, or if sample text does not decide.
        make: Opens the model with an override for the option.
        advice: Sentence that states what a user can do about a guess.

    Returns:
        The model with one note about the choice. Its ``provenance`` of the options is
        ``calibration`` or ``convention``.
    """
    word = words[0]
    model = make({word: usual})
    losses = _losses(model, word, candidates, usual, make)
    best = min(losses, key=lambda candidate: losses[candidate]) if losses else usual
    tied = [one for one in losses if losses[one] - losses[best] < TIE]
    knowing = bool(losses) and losses[best] < BLIND * math.log(len(model.tokenizer.pieces))
    if knowing and len(tied) > 1:
        best = usual if usual in tied else best
        origin = "convention"
        others = ", ".join(str(one) for one in tied if one != best)
        note = (
            f"{word}={best} is a guess that nothing supports: sample text is as probable with "
            f"{others} (loss {losses[best]:.2f} nats)."
        )
        model = model if best == usual else make({word: best})
    elif knowing:
        origin, note = "calibration", _note(word, losses)
        model = model if best == usual else make({word: best})
    else:
        origin = "convention"
        note = guess(word, usual)
    provenance = model.provenance | dict.fromkeys(words, origin)
    note = f"{note} {advice}".strip()
    return replace(model, provenance=provenance, notes=(*model.notes, note))


def guess(word: str, usual: Any) -> str:
    """Return the note on an option that has its usual value."""
    return f"{word}={usual} is a guess, the usual choice: nothing in the file says it."


def calibrated_heads(rows: Mapping[str, int], make: Callable[[dict[str, Any]], Model]) -> Model:
    """Return the model with a calibrated number of heads, see :func:`calibrated`.

    ``rows`` are the rows of the key projections (``d_k``) and, if different, of the values.
    """
    usual = usual_heads(math.gcd(*rows.values()))
    model = calibrated(("heads", "d_k", "d_v"), possible_heads(rows), usual, make)
    if model.provenance["heads"] != "convention":
        return model
    return replace(model, notes=(*model.notes[:-1], f"{model.notes[-1]} {GIVE_HEADS}"))


def _losses(
    model: Model,
    word: str,
    candidates: Sequence[Any],
    usual: Any,
    make: Callable[[dict[str, Any]], Model],
) -> dict[Any, float]:
    """Return each candidate's mean loss on sample text, in the language that fits the model best.

    The usual candidate and one other try all languages; the rest try the best of them. Empty
    without a vocabulary, or without a choice.
    """
    others = [candidate for candidate in candidates if candidate != usual]
    typed = types_ids(model.tokenizer) or isinstance(target_side(model.tokenizer), PlainIds)
    if typed or not others:
        return {}
    try:
        tried = {usual: sample_losses(model), others[0]: sample_losses(make({word: others[0]}))}
    except (ValueError, IndexError):  # no start token, or ids that the model does not know
        return {}
    numbers = [(loss, name) for losses in tried.values() for name, loss in losses.items()]
    if not numbers:
        return {}
    language = min(numbers)[1]
    tried |= {other: sample_losses(make({word: other}), language) for other in others[1:]}
    return {candidate: found[language] for candidate, found in tried.items() if language in found}


def _note(word: str, losses: Mapping[Any, float]) -> str:
    best, *rest = sorted(losses, key=lambda candidate: losses[candidate])
    second = f", next best {rest[0]} with {losses[rest[0]]:.2f}" if rest else ""
    return (
        f"{word}={best} was chosen because sample text is most probable with it: loss "
        f"{losses[best]:.2f} nats{second}."
    )


def sample_losses(model: Model, only: str = "") -> dict[str, float]:
    """Return the mean loss on sample text in nats per token, by language or language pair.

    A translator reads a sentence and predicts the same one in another language. A GPT-like model
    predicts each next token. ``only`` restricts the losses to one language or pair (``en-de``).
    Losses that are not finite are left out. Other models return an empty dictionary.
    """
    if model.takes != "text" or model.gives != "words" or model.kind == "encoder-only":
        return {}
    read, losses = model.tokenizer, {}
    if model.kind == "decoder-only":
        for name, texts in SAMPLES.items():
            if only in ("", name):
                losses[name] = _loss(model, [read.prompt_ids(text) for text in texts])
    else:
        for one, other in permutations(SAMPLES, 2):
            if only in ("", name := f"{one}-{other}"):
                targets = [read.target_ids(text) + _end(model) for text in SAMPLES[other]]
                sources = [read.source_ids(text) for text in SAMPLES[one]]
                losses[name] = _loss(model, targets, sources)
    return {name: loss for name, loss in losses.items() if math.isfinite(loss)}


def _end(model: Model) -> list[int]:
    return [] if model.eos_id is None else [model.eos_id]


def _loss(model: Model, targets: list[list[int]], sources: list[list[int]] | None = None) -> float:
    """Return the mean cross-entropy of the target tokens after the first, in nats.

    Sentences with too few tokens in the vocabulary are left out; NaN if none remains.
    """
    pairs = list(zip(targets, sources or targets, strict=True))
    whole = [(target, source) for target, source in pairs if len(target) > 1 and source]
    if not whole:
        return math.nan
    given, there = _rectangle([target for target, _ in whole], model)
    with torch.no_grad():
        if sources is None:
            logits = model.calls.forward(given[:, :-1])
        else:
            source, visible = _rectangle([source for _, source in whole], model)
            logits = model.calls.forward(source, given[:, :-1], visible)
    lost = F.cross_entropy(logits.float().transpose(1, 2), given[:, 1:], reduction="none")
    return float(lost[there[:, 1:]].mean())


def _rectangle(rows: list[list[int]], model: Model) -> tuple[Tensor, Tensor]:
    """Return rows of different lengths as one tensor ``[row, token]``, and the mask of its tokens.

    Rows longer than the model's limit are cut.
    """
    rows = [row[: model.max_tokens] for row in rows]
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=model.device)
    lengths = torch.tensor([len(row) for row in rows], device=model.device)
    return ids, torch.arange(width, device=model.device) < lengths[:, None]
