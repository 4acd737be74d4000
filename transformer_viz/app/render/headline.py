"""Single-line answer of a model that does not translate."""

from __future__ import annotations

from html import escape

from ...core.numerics import LOGIT
from ...i18n import say
from ...metrics.output.answer_span import is_mark_alone
from ...preprocessing.token_names import spelled
from ..session.scene import Scene
from ..ui import layout
from ..ui.text_format import ending
from .outcome_html import answer_text, class_names


def lead(scene: Scene) -> str:
    """Return the clean run's answer as HTML; empty for vectors and for word classes.

    The letters predicted for a sound are joined to its text.
    """
    kind = scene.kind
    if kind.takes == "audio" and kind.gives == "tags" and scene.before.logits is not None:
        model = scene.engine.model(scene.question.model)
        best = scene.before.logits.argmax(axis=1).tolist()
        text = spelled(model.tokenizer, best, model.pad_id or 0)
        return f'<span data-what="lead">{escape(text)}</span>'
    if kind.gives in ("vectors", "tags") or scene.before.logits is None:
        return ""
    if kind.gives == "classes":
        return _class(scene)
    if kind.gives == "spans":
        found = f'<span data-what="lead">{escape(answer_text(scene, scene.before))}</span>'
        none = is_mark_alone(scene.before)
        return f"{found} {layout.quiet_span(say('no answer'))}" if none else found
    said = _next_word(scene) if kind.continues else _filled(scene)
    return f'<span data-what="lead">{said}</span>'


def _class(scene: Scene) -> str:
    produced = scene.before.produced
    assert produced is not None
    name = class_names(scene)[produced.ids[0]]
    chance = say("with probability {probability:.3f}", probability=produced.probability[0])
    if scene.kind.unit == LOGIT:
        assert scene.before.logits is not None
        chance = say("score {score:.3f}", score=float(scene.before.logits[produced.ids[0]]))
    return f'<span data-what="lead">{escape(name)}</span> {layout.quiet_span(chance)}'


def _next_word(scene: Scene) -> str:
    """Return the text, and the most probable next word."""
    logits = scene.before.logits
    assert logits is not None
    ids, name, best = scene.before.source.ids, scene.question.model, int(logits[-1].argmax())
    start, whole = (scene.engine.text_of(name, said) for said in (ids, [*ids, best]))
    word = whole.removeprefix(start) if whole.startswith(start) else ""
    if not word.strip():  # a special token, which is invisible in text
        word = f" {scene.engine.pieces(name)[best]}"
    gap = " " if word != word.lstrip() else ""
    return f'{escape(ending(start))}{gap}<span class="tv-new">{escape(word.strip())}</span>'


def _filled(scene: Scene) -> str:
    """Return the sentence with the best prediction at each mask, predictions marked."""
    logits, source = scene.before.logits, scene.before.source
    assert logits is not None
    ids, name = list(source.ids), scene.question.model
    for place in scene.question.masked:
        ids[place] = int(logits[place].argmax())
    whole, said, done = scene.engine.text_of(name, ids), "", 0
    for place in scene.question.masked:
        start, end = (scene.engine.text_of(name, ids[:stop]) for stop in (place, place + 1))
        if not (whole.startswith(end) and end.startswith(start)):
            return escape(whole)
        word = end[len(start) :]
        begin = len(start) + len(word) - len(word.lstrip())
        said += escape(whole[done:begin])
        said += f'<span class="tv-new">{escape(whole[begin : len(end)])}</span>'
        done = len(end)
    return said + escape(whole[done:])
