"""Content of a widget as one blob: its pictures, its controls, and messages."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np

from ..components.atlas import atlas_data
from ..components.blob import both_palettes, pack
from ..components.edit_sliders import SLIDERS
from ..components.head_map import head_numbers, map_data
from ..components.lines import lines_data
from ..components.qk import qk_data
from ..components.slider import slider_data
from ..components.tokens import ChipRow, chip_sides, map_chips, tokens_data
from ..core.editing import edit_controls
from ..core.editing.edit_controls import HALF, HEAD_STATES, SCOPES
from ..core.guesses import guess_note
from ..core.sites import called
from ..core.trace import Trace
from ..i18n import mark, say
from ..metrics.attention.map_cells import cells
from ..metrics.output.answer_span import answer_words
from ..preprocessing.token_names import Names
from ..preprocessing.tokenizers import target_side
from ..views.html.candidate_bars import candidates
from ..views.html.picture import Picture
from ..views.html.probability_bars import outcome
from ..views.html.vector_change import vector_change
from .exploration import Exploration

VIEWS = {"map": mark("Map"), "lines": mark("Lines"), "qk": mark("q·k")}
COMPARES = {"now": mark("now"), "before": mark("before"), "difference": mark("difference")}
CLICKS = {"choose": mark("chooses its row"), "hide": mark("hides it")}
CLASSES = 5  # classes that are shown at once
WORDS = 60  # tokens whose bars are shown at once


def frame(exploration: Exploration, seq: int, steps: int, **told: Any) -> bytes:
    """Return everything that a widget shows: one blob, an array of bytes for each part.

    Args:
        exploration: Its state.
        seq: Number of this picture; a browser ignores older ones.
        steps: Number of the newest slider step received.
        told: Plain values for the header: the answered request, and errors.
    """
    parts, problems = {}, [str(told.pop("problem", ""))]
    for name, draw in PARTS.items():
        try:
            made = draw(exploration, seq)
        except (ValueError, LookupError) as error:  # two runs that cannot be compared
            problems.append(_sentence(error))
            continue
        if made is not None:
            parts[name] = np.frombuffer(made, np.uint8)
    for name in SLIDERS:
        parts[f"slider-{name}"] = np.frombuffer(_slider(exploration, name, steps), np.uint8)
    header = {
        "part": "widget",
        "seq": seq,
        "colours": both_palettes(),
        "dark": exploration.shown.dark,
        "choices": _choices(exploration),
        "source": exploration.asked if isinstance(exploration.asked, str) else None,
        "title": f"{called(exploration.shown.block)} {exploration.shown.site.label}",
        "changes": exploration.changes.describe(_words(exploration)),
        "changed": bool(exploration.changes),
        "model": exploration.model.name,
        "guessed": guess_note(exploration.now),
        "problem": " ".join(dict.fromkeys(filter(None, problems))),
    }
    return pack(header | told, **parts)


def _sentence(error: BaseException) -> str:
    """Return the message of an error, without the quotes of a KeyError."""
    said = error.args[0] if isinstance(error, LookupError) and error.args else error
    return str(said)


def _words(exploration: Exploration) -> tuple[str, ...]:
    return exploration.before.source.labels


def pair_of(exploration: Exploration) -> tuple[Trace, Trace | None]:
    """Return the run to draw, and the one to subtract from it."""
    compare = exploration.shown.compare if exploration.changes else "now"
    drawn = exploration.before if compare == "before" else exploration.now
    return drawn, exploration.before if compare == "difference" else None


def _after(exploration: Exploration) -> Trace | None:
    return exploration.now if exploration.changes else None


def _atlas(exploration: Exploration, seq: int) -> bytes:
    (now, before), shown = pair_of(exploration), exploration.shown
    ranked = shown.sort != "change" or before is not None
    return atlas_data(
        now,
        (shown.block,),
        shown.look(seq),
        before=before,
        opened=(shown.block, shown.layer, shown.head),
        overlaid=shown.overlay,
        sort=shown.sort if ranked else "layer",
        scale=shown.scale,
    )


def _head(exploration: Exploration, seq: int) -> bytes:
    (now, before), shown = pair_of(exploration), exploration.shown
    opened = shown.layer, shown.head
    if shown.view == "lines":
        heads = (opened, *(at for at in shown.overlay if at != opened))
        return lines_data(now, shown.block, heads, shown.look(seq), before=before, top=shown.top)
    if shown.view == "qk":
        return qk_data(now, shown.block, *opened, query=shown.token, key=shown.key, seq=seq)
    both = exploration.before, exploration.now
    most = max(float(one.block(shown.block, shown.layer).weights[shown.head].max()) for one in both)
    return map_data(
        now,
        shown.block,
        *opened,
        shown.look(seq),
        before=before,
        most=most or 1.0,
        numbers=head_numbers(*both, shown.site, regrouped=False),
    )


def _chips(exploration: Exploration, seq: int) -> bytes | None:
    """Return the sentences as chips; patches and frames are no text."""
    shown, now, model = exploration.shown, exploration.now, exploration.model
    if model.takes in ("image", "audio") or now.patches is not None:
        return None
    place = shown.place(now.maps)
    found = cells(now, shown.block, shown.layer, shown.head)
    rows = [
        ChipRow(side, map_chips(now, side, tokens, place, found, exploration.changes, shown.token))
        for side, tokens in chip_sides(now, model.takes == "vectors")
    ]
    return pack(tokens_data(rows, dark=shown.dark) | {"seq": seq, "colours": both_palettes()})


def _outcome(exploration: Exploration, seq: int) -> bytes:
    """Return the output of the runs before and after: tokens, classes, tags or vectors."""
    drawn = _pictures(exploration, exploration.before, _after(exploration))
    html = "".join(f'{one.html}<p class="tv-quiet">{one.caption}</p>' for one in drawn)
    return pack({"part": "outcome", "seq": seq, "html": html, "colours": both_palettes()})


def _pictures(exploration: Exploration, before: Trace, after: Trace | None) -> list[Picture]:
    model, dark = exploration.model, exploration.shown.dark
    if before.logits is None or model.gives == "vectors":
        stack = "decoder" if before.maps == ("decoder",) else "encoder"
        return [vector_change(before, after, stack, dark=dark)] if before.hiddens else []
    if before.marks_answer:
        return [_answer(before, after)] + [
            candidates(before, after, row, before.source.labels, dark=dark) for row in (0, 1)
        ]
    if before.logits.ndim == 1:
        labels = model.labels
        names = [
            labels[n] if n < len(labels) else say("class {number}", number=n)
            for n in range(len(before.logits))
        ]
        return [candidates(before, after, 0, names, count=min(CLASSES, len(names)), dark=dark)]
    if before.produced is None:
        return []
    count = len(before.produced.ids)
    tags = model.gives == "tags"
    first = max(0, min(exploration.shown.token - WORDS // 2, count - WORDS))
    rows = range(first, min(count, first + WORDS))
    made = [outcome(before, after, rows=rows, classes=tags, dark=dark)]
    if model.kind == "decoder-only" and not tags:
        pieces = Names(target_side(model.tokenizer))
        made.append(candidates(before, after, count - 1, pieces, dark=dark))
    return made


def _answer(before: Trace, after: Trace | None) -> Picture:
    """Return the answer that each run marks."""
    told = [answer_words(run) for run in (before, after) if run is not None]
    said = say("Answer: “{text}”", text=" → ".join(told))
    return Picture(f'<p data-what="answer">{escape(said)}</p>', "")


def _slider(exploration: Exploration, name: str, steps: int) -> bytes:
    slider = SLIDERS[name]
    value = slider.shown(exploration.changes, exploration.shown.place(exploration.before.maps))
    return slider_data(
        slider.name,
        slider.stops(value),
        chosen=slider.write(value),
        own=slider.write(slider.own),
        title=say(slider.title),
        help=say(slider.help),
        seq=steps,
    )


def _choices(exploration: Exploration) -> list[dict[str, Any]]:
    """Return the controls besides the sliders, each with a name and its values."""
    shown, changes, maps = exploration.shown, exploration.changes, exploration.before.maps
    place = shown.place(maps)
    state, factor = edit_controls.head_state(changes, place)
    states = {name: say(words) for name, words in HEAD_STATES.items()}
    states["scale"] = f"× {factor if state == 'scale' else HALF:g}"
    causal = shown.block != "cross" or shown.scope == "everything"
    on = "on" if causal and edit_controls.causal(changes, place) else "off"
    made = [
        _choice("block", say("attention"), {name: called(name) for name in maps}, shown.block),
        _choice("view", say("view"), _said(VIEWS), shown.view),
        _choice("compare", say("run"), _said(COMPARES), shown.compare if changes else "now"),
        _choice("scope", say("applies to"), _said(SCOPES), shown.scope),
        _choice("head_state", say("heads"), states, state),
        _choice("causal", say("causal mask"), {"on": say("on"), "off": say("off")}, on),
        _choice("click", say("a click on a word"), _said(CLICKS), shown.click),
    ]
    made[2]["disabled"] = not changes
    made[5]["disabled"] = not causal
    return made


def _said(names: dict[str, str]) -> dict[str, str]:
    return {name: say(words) for name, words in names.items()}


def _choice(name: str, title: str, options: dict[str, str], chosen: str) -> dict[str, Any]:
    return {
        "name": name,
        "title": title,
        "options": list(map(list, options.items())),
        "chosen": chosen,
        "disabled": False,
    }


#: Drawing functions by component name, in drawing order.
PARTS: dict[str, Callable[[Exploration, int], bytes | None]] = {
    "tokens": _chips,
    "atlas": _atlas,
    "head": _head,
    "outcome": _outcome,
}
