"""A report is one page that needs nothing else: its size, its safety, the numbers inside."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from tests.support.component_stage import decoded
from tests.views.conftest import make_trace
from tests.views.large import large_trace
from transformer_viz.components.standalone_page import framed
from transformer_viz.core.trace import Trace
from transformer_viz.metrics.attention.map_cells import cells
from transformer_viz.metrics.attention.map_difference import difference
from transformer_viz.views.export.atlas import atlas
from transformer_viz.views.export.html_report import MAX_PAGE_BYTES, heads_in_words, report
from transformer_viz.views.export.lines import lines
from transformer_viz.views.export.report_data import STEPS


def of_words(trace: Trace) -> Trace:
    """The run as one of words: the one made by hand could be of a picture too."""
    return replace(trace, manifest={"model": "by hand"})


CLEAN, WARM = of_words(make_trace()), of_words(make_trace(temperature=3.0))
EVIL = ("</script><img src=x onerror=alert(1)>", "<!--<script>", "\"'&amp;", "${x}`", "</title>")


class Reader(HTMLParser):
    """What a browser would find in a page: elements with their attributes, and their words."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile() -> Trace:
    source = replace(CLEAN.source, labels=EVIL, pieces=EVIL)
    return replace(CLEAN, source=source, manifest=CLEAN.manifest | {"model": EVIL[0]})


def packed(content: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The blob of a page, unpacked by other code than the browser's."""
    (letters,) = re.findall(r'id="tv-data">([^<]*)<', content)
    return decoded(zlib.decompress(base64.b64decode(letters, validate=True)))


def weights_of(
    book: dict[str, Any], arrays: dict[str, np.ndarray], run: int, place: str
) -> tuple[np.ndarray, np.ndarray]:
    """What a page holds of one head: its numbers ``[cell]``, and which cells are masked."""
    entry = book["runs"][run]
    high, low, bits = (arrays[name] for name in entry["heads"][place]["arrays"][:3])
    steps = high.astype(np.int64) * 256 + low
    numbers = np.where(steps > STEPS, np.nan, entry["low"] + (1 - entry["low"]) * steps / STEPS)
    return numbers, np.unpackbits(bits)[: len(steps)].astype(bool)


def test_every_head_and_every_change_is_inside_within_a_step() -> None:
    book, arrays = packed(report(CLEAN))
    assert len(book["runs"]) == 1 and len(book["runs"][0]["heads"]) == len(CLEAN.heads)
    for block, layer, head in itertools.product(CLEAN.maps, range(2), range(3)):
        shown, masked = weights_of(book, arrays, 0, f"{block} {layer} {head}")
        wanted = cells(CLEAN, block, layer, head)
        assert np.abs(shown - wanted.weights.reshape(-1)).max() <= 0.5 / STEPS + 1e-9, block
        assert np.array_equal(masked, wanted.masked.reshape(-1)), (block, layer, head)
    # A comparison holds both runs and what changed.
    book, arrays = packed(report(WARM, CLEAN))
    assert [run["name"] for run in book["runs"]] == ["Now", "Before", "Difference"]
    for run, trace in enumerate((WARM, CLEAN)):
        shown, _ = weights_of(book, arrays, run, "cross 1 2")
        wanted = trace.attention("cross", layer=1)[2].reshape(-1)
        assert np.abs(shown - wanted).max() <= 0.5 / STEPS + 1e-9
    shown, _ = weights_of(book, arrays, 2, "decoder 1 2")
    wanted = difference(*(cells(t, "decoder", 1, 2) for t in (WARM, CLEAN))).reshape(-1)
    assert np.array_equal(np.isnan(shown), np.isnan(wanted))
    assert np.nanmax(np.abs(shown - wanted)) <= 1 / STEPS + 1e-9


def test_it_opens_the_most_decided_head_or_the_one_that_was_named() -> None:
    cross = CLEAN.heads[CLEAN.heads["block"] == "cross"]
    best = cross.loc[cross["entropy"].idxmin()]
    assert packed(report(CLEAN))[0]["opened"] == ["cross", best["layer"], best["head"]]
    book, _ = packed(report(CLEAN, opened=("encoder", 0, 1)))
    assert book["opened"] == ["encoder", 0, 1]
    best = CLEAN.heads[CLEAN.heads["stack"] == "encoder"].sort_values("entropy").iloc[0]
    named = f"encoder L{best['layer']} H{best['head']} ({best['entropy']:.2f} bits)"
    said = heads_in_words(CLEAN, ["encoder"])
    assert said.startswith(f"6 heads; those that look least widely: {named}")
    other = replace(CLEAN, source=replace(CLEAN.source, ids=(1, 2, 3, 4, 5)))
    for make, what in (
        (lambda: report(CLEAN, opened=("encoder", 7, 1)), "no layer 7"),
        (lambda: report(replace(CLEAN, attentions=())), "were not kept"),
        (lambda: report(CLEAN, other), "different words"),
        (lambda: lines(CLEAN, "cross", [(0, n) for n in range(9)]), "one to 8 heads"),
    ):
        with pytest.raises((LookupError, ValueError), match=what):
            make()


def test_nothing_outside_the_page_is_named_and_words_stay_words() -> None:
    content = report(CLEAN)
    plain = Reader(content)
    for _, attributes in plain.found:
        assert not {"src", "href", "srcset", "action"} & set(attributes)
    assert "@import" not in content and "url(" not in content
    (policy,) = (
        attributes["content"]
        for tag, attributes in plain.found
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy and policy.startswith("default-src 'none'; script-src 'sha256-")
    script = content.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in policy
    content = report(hostile(), title=EVIL[0])
    read = Reader(content)
    assert [tag for tag, _ in read.found] == [tag for tag, _ in plain.found]
    assert EVIL[0] in read.text and "<img" not in content


def test_the_page_says_whose_and_how_exact() -> None:
    said = Reader(report(CLEAN)).text
    for part in (
        "by hand: the cat the",
        "clean run, nothing changed",
        "steps of 1/65534.",
        "Capture report amber",  # made by hand: no site was watched
        "do not explain",
        "allow it to run",
    ):
        assert part in said
    assert "changes of them in steps of 2/65534" in Reader(report(WARM, CLEAN)).text
    assert "kept below 3 MB" not in said


@pytest.mark.slow
def test_large_models_stay_below_three_megabytes() -> None:
    content = report(large_trace(12, 12, 64))
    assert len(content.encode()) < MAX_PAGE_BYTES
    assert len(packed(content)[0]["runs"][0]["heads"]) == 144
    trace = large_trace(11, 5, 200)  # what does not fit is left out and said
    content = report(trace, opened=("encoder", 4, 3))
    assert len(content.encode()) < MAX_PAGE_BYTES
    kept = list(packed(content)[0]["runs"][0]["heads"])
    assert 10 < len(kept) < 55
    ranked = trace.heads.sort_values("entropy")[["layer", "head"]].to_numpy().tolist()
    names = [f"encoder {layer} {head}" for layer, head in ranked if (layer, head) != (4, 3)]
    assert kept == ["encoder 4 3", *names[: len(kept) - 1]]
    assert f"the exact weights of {len(kept)} of 55 heads" in Reader(content).text
    trace = large_trace(1, 2, 300)  # a long text keeps what draws it
    content = report(trace)
    book, arrays = packed(content)
    head = book["runs"][0]["heads"]["encoder 0 1"]
    assert head["long"]
    words, inside = decoded(arrays[head["arrays"][3]].tobytes())
    assert words["stride"] == [2, 2] and inside["pooled"].shape == (150, 150)
    shown, _ = weights_of(book, arrays, 0, "encoder 0 1")
    wanted = trace.attention("encoder", layer=0)[1].reshape(-1)
    assert np.abs(shown - wanted).max() <= 0.5 / STEPS + 1e-9
    assert len(content.encode()) < MAX_PAGE_BYTES


def test_notebook_pictures_hold_their_page_and_say_what_is_in_it() -> None:
    for picture, words in (
        (atlas(hostile()), "18 heads; those that look least widely"),
        (atlas(CLEAN, "cross"), "6 heads"),
        (lines(hostile(), "encoder", [(0, 1), (1, 2)]), "encoder L0 H1, L1 H2 as lines"),
        (lines(CLEAN, "cross", before=WARM), "looks most at"),
    ):
        read = Reader(picture._repr_html_())
        assert [tag for tag, _ in read.found] == ["iframe", "p"], words
        _, frame = read.found[0]
        assert frame["sandbox"] == "allow-scripts" and frame["title"], words
        assert packed(frame["srcdoc"] or "")[0]["runs"], words
        assert words in picture.caption and picture.caption in read.text
    picture = lines(CLEAN, "cross", [(1, 0), (0, 2)])  # holds its heads alone
    book, _ = packed(Reader(picture.html).found[0][1]["srcdoc"] or "")
    assert list(book["runs"][0]["heads"]) == ["cross 1 0", "cross 0 2"]
    assert book["overlaid"] == [[0, 2]] and book["view"] == "lines"
    read = Reader(framed('<p title="a">&amp;</p>', title='"quoted"', height=7))
    look = {"width": "100%", "height": "7", "style": "border:0", "sandbox": "allow-scripts"}
    frame = {"srcdoc": '<p title="a">&amp;</p>', "title": '"quoted"', **look}
    assert read.found == [("iframe", frame)]
