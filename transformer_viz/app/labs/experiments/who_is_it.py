"""Lab on the pronoun "it": the heads that decide between er, sie and es."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from html import escape

import numpy as np
import streamlit as st

from .... import views
from ....core.trace import Trace
from ....i18n import join_words, mark, numeral, say
from ....metrics.attention.it_head import candidates
from ....metrics.output.pronouns import WORDS, drawn, preferred
from ...ui import layout
from ...ui.text_format import escape_markdown
from .. import head_map, jobs, lab_state, sentence_pairs
from ..bench import Bench
from ..lab import Lab
from ..pronoun_heads import ALL, Picture, WhoIsItResult, earlier, it_of, pictures_of
from ..sentence_pairs import SentencePair
from . import who_is_it_swapped
from .multi_head import MAP_NAMES, MAX_HEADS, arranged

FEW = 8  # heads that are ablated together


def experiment(bench: Bench) -> WhoIsItResult:
    """Draw the pair, the maps of two heads, and the effect of ablating every head."""
    pair = sentence_pairs.chosen(bench)
    model = bench.scene.question.model
    traces = [
        bench.ask(model, jobs.held_run, text, before) for text, before, _ in pair.held
    ]  # raises ValueError for texts that are too long
    measured: jobs.WithoutHeads = bench.ask(
        model,
        jobs.without_heads,
        pair.held,
        MAX_HEADS,
        says=say("Switching off one head after the other ..."),
        stepped=True,
    )
    layout.heading(escape(say("What comes at ▢?")), 3)
    held = f"{pair.place.before} ▢".strip()
    quoted = say("“{word}”", word=escape(held))
    st.html(f'<p class="tv-lab-say" data-what="held">{quoted}</p>')
    table = st.container()
    right, candidates = _settled(bench, pair, measured, traces)
    with table:
        _probabilities(bench, pair, measured.clean, right)
    if right[0] == right[1]:
        raise ValueError(
            say(
                "The same pronoun is right in both sentences, so there is nothing to tell apart; "
                "choose different ones."
            )
        )
    found = _without_few(bench, pair, measured, right, pictures_of(pair, traces, candidates))
    words = (pair.place.words[right[0]], pair.place.words[right[1]])
    found = replace(
        found, carried=who_is_it_swapped.carried(bench, pair, words, found.measured.sites)
    )
    _maps(bench, found, traces)
    _every_head(bench, found)
    _together(bench, found)
    if found.carried is not None:
        who_is_it_swapped.show(bench, pair, found.carried, found.pictured)
    return found


def _settled(
    bench: Bench, pair: SentencePair, measured: jobs.WithoutHeads, traces: list[Trace]
) -> tuple[tuple[int, int], str]:
    """Return the index of the right word in each sentence, and the noun: "all", or one word.

    The app does not know the right word; the default is the one that the model prefers.
    """
    written = dict(zip(WORDS, pair.place.words, strict=True))
    taken = preferred(measured.clean)
    it = it_of(traces[0], pair)
    before = [word.text for word in earlier(traces[0], it)]
    guessed = join_words(word.text for word in candidates(traces[0].source, it))
    named = {ALL: guessed} | {text: text for text in before if text.isalpha()}
    with st.expander(say("what is right, and which word is the noun"), key="lab-it-settled"):
        chosen = [
            bench.choose(
                f"right{number}",
                say("right in “… {words}”", words=escape_markdown(pair.named[number])),
                written,
                WORDS[taken[number]],
            )
            for number in range(2)
        ]
        noun = ALL
        if guessed:
            noun = bench.pick("noun", say("nouns that “it” may look at"), named, ALL)
        bench.quiet(
            say(
                "What is right is not known to the app: at first it is what the model prefers. The "
                "nouns are the words behind “the”, “a”, “my” and the like."
            )
        )
    first, second = (WORDS.index(word) for word in chosen)
    return (first, second), noun


def _probabilities(
    bench: Bench, pair: SentencePair, logs: np.ndarray, right: tuple[int, int]
) -> None:
    chances = np.exp(logs)
    rows = [
        (f"… {named}", *(_share(p) for p in row), pair.place.words[word])
        for named, row, word in zip(pair.named, chances, right, strict=True)
    ]
    heads = (
        say("probability of"),
        *(say("“{word}”", word=word) for word in pair.place.words),
        say("taken as right"),
    )
    bench.table(heads, rows)


def _share(chance: float) -> str:
    return f"{chance:.3f}" if chance >= 0.001 else f"{chance:.1e}"


def _without_few(
    bench: Bench,
    pair: SentencePair,
    measured: jobs.WithoutHeads,
    right: tuple[int, int],
    pictures: dict[str, Picture],
) -> WhoIsItResult:
    """Return the result with the first few heads ablated together, and as many random ones."""
    few = min(FEW, len(measured.sites) // 2)
    found = WhoIsItResult(pair, measured, right, pictures, measured.clean, measured.clean, few)
    groups = [found.ranked[:few], drawn(found.ranked, few, lab_state.counted("draw"))]
    first, chance = (
        bench.ask(
            bench.scene.question.model,
            jobs.without_all,
            pair.held,
            tuple(measured.sites[one] for one in group),
        )
        for group in groups
    )
    return replace(found, first=first, chance=chance)


def _maps(bench: Bench, found: WhoIsItResult, traces: list[Trace]) -> None:
    """Draw two heads on one of the sentences, and a table of their weights on both."""
    layout.heading(escape(say("Where does it look?")), 3)
    names = {str(n): f"… {escape_markdown(one)}" for n, one in enumerate(found.pair.named)}
    shown = traces[int(bench.choose("shown", say("sentence"), names, "0"))]
    titles = {
        "encoder": say("encoder: the head whose “it” looks most at a noun"),
        "cross": say("cross-attention: the head that looks most at a noun where ▢ is written"),
    }
    for side, (block, picture) in zip(st.columns(2), found.pictures.items(), strict=False):
        with side:
            layout.heading(escape(titles[block]), 3)
            assert picture.site.head is not None
            head_map.head(
                bench,
                block,
                shown,
                block,
                picture.site.layer,
                picture.site.head,
                numbers="",
                token=picture.row[-1],
            )
    rows = [
        (
            f"{say(MAP_NAMES[block])} {picture.site.label} · {named}",
            *(f"{weight:.2f}" for weight in weights),
        )
        for block, picture in found.pictures.items()
        for named, weights in zip(found.pair.named, picture.weights, strict=True)
    ]
    any_picture = next(iter(found.pictures.values()), None)
    if any_picture is not None:
        bench.table(
            (say("weight on"), *(say("“{word}”", word=noun) for noun in any_picture.nouns)), rows
        )


def _every_head(bench: Bench, found: WhoIsItResult) -> None:
    layout.heading(escape(say("Every head switched off alone")), 3)
    sites, lost = found.measured.sites, found.lost
    places = [(site.map, site.layer, site.head or 0) for site in sites]
    limit = float(max(0.1, np.abs(lost).max()))
    caption = say(
        "bits that the lead of the right pronoun loses without this head, mean of both sentences · "
        "colours from −{end:.3g} to {end:.3g}",
        end=limit,
    )
    charts = arranged(places, [float(one) for one in lost])
    with st.container(key="lab-it-off"):
        columns = st.columns(len(charts))
    for column, (name, bits) in zip(columns, charts.items(), strict=True):
        with column:
            draw = partial(views.head_cost, bits, limit, caption=caption, dark=bench.dark)
            bench.chart(f"off-{name}", say(MAP_NAMES[name]), draw)
    pictured = [found.number(picture.site) for picture in found.pictures.values()]
    top = found.ranked[: found.few]
    listed = [*top, *(one for one in sorted(pictured, key=found.ranked.index) if one not in top)]
    rows = [_row(found, head, pictured) for head in listed]
    heads = (say("switched off alone"), say("place"), say("bits lost"), *_rights(found))
    bench.table(heads, rows)
    bench.quiet(
        say(
            "The lead of the right pronoun is log₂ of how many times more probable it is than the "
            "other sentence's. {count} heads, {runs} passes of both sentences together in "
            "{seconds:.1f} s. “The picture” marks the heads shown above.",
            count=len(sites),
            runs=len(sites) + 1,
            seconds=found.measured.seconds,
        )
    )


def _row(found: WhoIsItResult, head: int, pictured: list[int]) -> tuple[str, ...]:
    site = found.measured.sites[head]
    name = f"{say(MAP_NAMES[site.map])} {site.label}"
    shown = say("{head} (the picture)", head=name) if head in pictured else name
    each = np.exp(found.measured.each[head])
    chances = (_share(each[sentence, word]) for sentence, word in enumerate(found.right))
    return (shown, str(found.place(site)), numeral(found.lost[head], "+.2f"), *chances)


def _together(bench: Bench, found: WhoIsItResult) -> None:
    with layout.row("center", gap="medium"):
        layout.heading(escape(say("Several heads switched off together")), 3, fit=True)
        bench.press("draw", say("draw others by chance"))
    first = found.measured.sites[found.ranked[0]]
    named = f"{say(MAP_NAMES[first.map])} {first.label}"
    groups = (
        (say("none"), found.measured.clean),
        (say("the first of the ranking: {head}", head=named), found.measured.each[found.ranked[0]]),
        (say("the first {count} of the ranking", count=found.few), found.first),
        (say("{count} others drawn by chance", count=found.few), found.chance),
    )
    rows = [
        (name, *_leading(found, logs), say("{count} of {rows}", count=found.hits(logs), rows=2))
        for name, logs in groups
    ]
    bench.table((say("heads off"), *_rights(found), say("right")), rows)


def _leading(found: WhoIsItResult, logs: np.ndarray) -> list[str]:
    """Return the right word's probability per sentence, and the leading word if it differs."""
    cells = []
    for row, right in zip(logs, found.right, strict=True):
        chance, most = _share(np.exp(row[right])), int(row.argmax())
        word = found.pair.place.words[most]
        led = say("{chance} ({word} leads)", chance=chance, word=word)
        cells.append(chance if most == right else led)
    return cells


def _rights(found: WhoIsItResult) -> list[str]:
    """Return column titles for the probabilities of the right pronouns."""
    return [
        say("p({word}) in “… {words}”", word=found.pair.place.words[word], words=named)
        for word, named in zip(found.right, found.pair.named, strict=True)
    ]


def answer(found: WhoIsItResult) -> int | None:
    """Return the option the ablations support; a head decides if a pronoun is wrong without it."""
    clean, first = found.measured.clean, found.ranked[0]
    if found.hits(clean) < 2:
        return None
    alone = [head for head in found.ranked if found.hits(found.measured.each[head]) < 2]
    if not alone:
        return 2 if found.hits(found.first) < 2 else 3
    picture = found.pictures.get("encoder")
    decides = first if first in alone else alone[0]
    return 0 if picture and decides == found.number(picture.site) else 1


def reveal(bench: Bench, found: WhoIsItResult) -> None:
    bench.tell(*_why(found))
    for block, picture in found.pictures.items():
        bench.tell(*_pictured(found, block, picture))
    if found.carried is not None:
        bench.tell(*who_is_it_swapped.told(found.carried, found.pictured))
    bench.tell(
        say(
            "A [weight] says how much of one word's [value] is mixed in, not what becomes of it. "
            "So do not stop at the picture: switch the head off, or swap it, and see."
        )
    )
    bench.quiet(
        say(
            "The ranking was made from the very pair that it is then tried on, so its first heads "
            "must matter here; on another pair they may be others. A head that can be switched off "
            "unharmed is not useless: others may stand in for it."
        )
    )


def _why(found: WhoIsItResult) -> list[str]:
    """Return sentences on the effect of single heads, and of a few together."""
    measured, few = found.measured, found.few
    if found.hits(measured.clean) < 2:
        return [
            say(
                "This model does not prefer the right pronoun in both sentences, so no head can be "
                "said to decide it. Choose another pair or model, or what is right."
            )
        ]
    alone = [measured.sites[h] for h in found.ranked if found.hits(measured.each[h]) < 2]
    if alone:
        names = join_words(f"{say(MAP_NAMES[site.map])} {site.label}" for site in alone)
        first = say("Without one of these heads alone a pronoun turns: {heads}.", heads=names)
    else:
        first = say(
            "No head turns a pronoun alone: both stay right, whichever of the {count} is off.",
            count=len(measured.sites),
        )
    together = say(
        "Without the first {few} of the ranking {right} of 2 are right, without {few} others by "
        "chance {chance} of 2.",
        few=few,
        right=found.hits(found.first),
        chance=found.hits(found.chance),
    )
    return [first, together]


def _pictured(found: WhoIsItResult, block: str, picture: Picture) -> list[str]:
    """Return sentences on a drawn head: its largest weights, and the cost of its ablation."""
    (one, other), weights = picture.most, picture.weights.max(axis=1)
    told = {
        "head": f"{say(MAP_NAMES[block])} {picture.site.label}",
        "one": one,
        "other": other,
        "first": weights[0],
        "second": weights[1],
    }
    if one == other:
        looks = say(
            "The head {head} looks at “{one}” in both sentences ({first:.2f} and {second:.2f}): "
            "its picture does not tell them apart.",
            **told,
        )
    else:
        looks = say(
            "The head {head} looks at “{one}” in the first sentence ({first:.2f}) and at "
            "“{other}” in the second ({second:.2f}): its picture tells them apart.",
            **told,
        )
    return [looks, _worth(found, picture)]


def _worth(found: WhoIsItResult, picture: Picture) -> str:
    bits = found.lost[found.number(picture.site)]
    told = {"place": found.place(picture.site), "count": len(found.measured.sites)}
    if bits < 0:
        return say(
            "Switched off alone it even adds {bits:.2f} bits to the right pronoun's lead: place "
            "{place} of {count}.",
            bits=-bits,
            **told,
        )
    return say(
        "Switched off alone it takes {bits:.2f} bits of the right pronoun's lead: place {place} of "
        "{count}.",
        bits=bits,
        **told,
    )


WHO = Lab(
    name="it",
    title=mark("Who is “it”?"),
    question=mark(
        "Two sentences differ in what “it” stands for, and German has a different pronoun for "
        "each. Which head decides?"
    ),
    options=(
        mark("The encoder head whose “it” looks most at a noun."),
        mark("Another single head."),
        mark("No head alone, but a few together."),
        mark("None of these: even without a few of them both stay right."),
    ),
    experiment=experiment,
    answer=answer,
    reveal=reveal,
    lacks=sentence_pairs.lacks,
)
