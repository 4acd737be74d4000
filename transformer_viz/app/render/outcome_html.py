"""Outcome panel as HTML: bars of target tokens, predictions at a position, classes, vectors."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ...components.ruler import row_sentence
from ...components.tokens import spot
from ...core.trace import Trace
from ...i18n import mark, say
from ...metrics.output.answer_span import NO_ANSWER, answer_tokens, answer_words, is_mark_alone
from ...views.html.candidate_bars import candidates
from ...views.html.picture import Picture
from ...views.html.probability_bars import outcome as bars
from ...views.html.vector_change import vector_change
from ..session.scene import Scene

ENDS = (mark("Where does the answer start?"), mark("Where does the answer end?"))
MASKS = 4  # masks with candidates shown at once
CLASSES = 10  # classes shown at once
SHOWN = 60  # tokens with bars shown at once


def outcome(scene: Scene) -> str:
    """Return the outcome before and after: target tokens, masks, classes, tags or vectors."""
    if scene.kind.gives == "classes":
        names = class_names(scene)
        return _guesses(scene, 0, names, len(names) if len(names) <= CLASSES else 5)
    if scene.kind.gives == "spans" and scene.before.logits is not None:
        return _answer(scene)
    if scene.is_long and scene.kind.writes:
        return _held(scene)
    if scene.kind.gives == "vectors" or scene.before.logits is None:
        return _drawn(
            vector_change(scene.before, _after(scene), scene.kind.stacks[-1], dark=scene.look.dark)
        )
    if scene.kind.gives == "tags":
        return _held(scene)
    if scene.kind.writes:
        return _held(scene) + (_next(scene) if scene.kind.continues else "")
    return _masks(scene) if scene.question.masked else ""


def answer_text(scene: Scene, trace: Trace) -> str:
    """Return the best answer of a run as text, or its tokens if they have no text."""
    tokens, first, last = answer_tokens(trace)
    ids = tokens.ids[first : last + 1]
    text = scene.engine.text_of(scene.question.model, ids).strip() if ids else ""
    return text or answer_words(trace)


def _answer(scene: Scene) -> str:
    """Return the marked answer of each run, and candidates for its start and end."""
    found = f'<p class="tv-say" data-what="answer">{escape(_said(scene, scene.before))}</p>'
    after = _after(scene)
    if after is not None:
        told = say("changed run: {answer}", answer=_said(scene, after))
        found += f'<p class="tv-say" data-what="answer-now">{escape(told)}</p>'
    names = scene.before.source.labels
    for row, question in enumerate(ENDS):
        found += f'<h3 class="tv-question">{escape(say(question))}</h3>'
        found += _guesses(scene, row, names)
    return found


def _said(scene: Scene, trace: Trace) -> str:
    tokens, first, last = answer_tokens(trace)
    found = say(
        "Answer: “{text}” (from “{first}” to “{last}”, tokens {start} to {end})",
        text=answer_text(scene, trace),
        first=tokens.labels[first],
        last=tokens.labels[last],
        start=first,
        end=last,
    )
    return f"{found}. {say(NO_ANSWER)}" if is_mark_alone(trace) else found


def guesses(scene: Scene) -> str:
    """Return the most probable tokens at the chosen position; empty if all are shown anyway."""
    if not asks(scene):
        return ""
    row = min(scene.look.answer, len(places(scene)) - 1)
    whose = spot(row_sentence(scene.before, scene.before.maps[-1]), row)
    return f'<div data-row="{whose}">{_guesses(scene, row, _names(scene))}</div>'


def asks(scene: Scene) -> bool:
    """Return True if there is a position to choose with alternative tokens."""
    if scene.before.logits is None or scene.kind.gives != "words":
        return False
    return scene.kind.writes or not scene.question.masked


def places(scene: Scene) -> tuple[str, ...]:
    """Return the labels of the positions with alternative tokens."""
    produced = scene.before.produced
    if scene.kind.writes and produced is not None:
        return produced.labels
    return scene.before.source.labels


def class_names(scene: Scene) -> Sequence[str]:
    """Return the names of the classes; numbers for those without one."""
    logits = scene.before.logits
    count = 0 if logits is None else len(logits)
    labels = scene.kind.labels
    return tuple(
        labels[n] if n < len(labels) else say("class {number}", number=n) for n in range(count)
    )


def _after(scene: Scene) -> Trace | None:
    return scene.now if scene.changes else None


def _names(scene: Scene) -> Sequence[str]:
    return scene.engine.pieces(scene.question.model)


def _held(scene: Scene) -> str:
    """Return the bars of the target tokens; for a long text those around the chosen row."""
    count = len(places(scene))
    row = scene.look.token if scene.place.map_name != "encoder" else scene.look.answer
    first = max(0, min(row - SHOWN // 2, count - SHOWN))
    rows = range(first, min(count, first + SHOWN))
    tags = scene.kind.gives == "tags"
    picture = bars(scene.before, _after(scene), rows=rows, classes=tags, dark=scene.look.dark)
    left_out = say(
        "Words {first} to {last} of {count:,} are shown, those around the chosen row.",
        first=rows.start + 1,
        last=rows.stop,
        count=count,
    )
    return _drawn(picture, " " + left_out if len(rows) < count else "")


def _next(scene: Scene) -> str:
    """Return a language model's predictions after the whole text."""
    question = f'<h3 class="tv-question">{escape(say("What could come next?"))}</h3>'
    return question + _guesses(scene, len(places(scene)) - 1, _names(scene))


def _masks(scene: Scene) -> str:
    """Return the candidates at the masks, and the probabilities of the original tokens."""
    masked, produced = scene.question.masked, scene.before.produced
    assert produced is not None
    found = _drawn(bars(scene.before, _after(scene), rows=masked, dark=scene.look.dark))
    for place in masked[:MASKS]:
        question = say("What could stand where “{word}” is hidden?", word=produced.labels[place])
        found += f'<h3 class="tv-question">{escape(question)}</h3>'
        found += f'<div data-row="{spot("source", place)}">'
        found += f"{_guesses(scene, place, _names(scene))}</div>"
    if len(masked) > MASKS:
        found += _quiet(
            say("The other {count} masks have no list of their own.", count=len(masked) - MASKS)
        )
    return found


def _guesses(scene: Scene, row: int, names: Sequence[str], count: int = 5) -> str:
    """Return the most probable tokens or classes at one position, before and after."""
    picture = candidates(scene.before, _after(scene), row, names, count=count, dark=scene.look.dark)
    return _drawn(picture)


def _drawn(picture: Picture, more: str = "") -> str:
    """Return a figure's HTML with its caption."""
    return picture.html + _quiet(picture.caption + more)


def _quiet(words: str) -> str:
    return f'<p class="tv-quiet">{escape(words)}</p>'
