"""What holds on every page: the link, the shared state, and the way a page refuses.

The page of the guide docs/add-a-page.md is one of them: it works as it is written.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.support.paths import ROOT
from tests.support.widgets import click, edits, fine, keys, ok, put, runs
from transformer_viz.app import pages
from transformer_viz.app.lessons.navigation import FIRST, HOME
from transformer_viz.app.page_template import Page
from transformer_viz.app.session.url_state import (
    BLOCKS,
    DEFAULTS,
    KEYS,
    SCALES,
    SEARCHES,
    SORTS,
    VERSUS,
    VIEWS,
)
from transformer_viz.core.editing.edit_controls import REACHES, SCOPES
from transformer_viz.core.interventions import (
    BlockKeys,
    Causal,
    Intervention,
    Pad,
    ScaleHead,
    ScalePositions,
    Temperature,
    UniformHead,
    Window,
)
from transformer_viz.core.palette import RAMPS
from transformer_viz.i18n import catalogue, languages
from transformer_viz.lessons import STATIONS
from transformer_viz.metrics.residual.norm_statistics import STATISTICS

from ...support.component_events import slide
from ...support.map_pages import MAP_PAGES
from ...support.page_content import address, chips, drawn, go, html, part, said, told

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
WARM = Intervention((Temperature(value=2.0),)).to_json()
GUIDE = ROOT / "docs" / "add-a-page.md"

#: What each key of a link may hold in a random state, but for `layer` and `edits`.
CHOICES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("words", "special", "present", "pooled", "gold_from_one"), (True, False)),
    **dict.fromkeys(("place", "shift", "word", "order", "seed", "played"), (0, 1, 2)),
    **dict.fromkeys(("head", "answer"), (0, 1)),
    "token": (0, 2),  # the first token of a word, whole words or not
    "beam": (1, 2, 3, 4),
    "pair": tuple(range(8)),
    "step": tuple(range(5)),
    "top": (0, 3),
    "chosen": (None, 3),
    "key": (None, 1),
    "gamma": (1.0, 0.5),
    "threshold": (0.0, 0.1),
    "drawing": (1.0, 0.5),
    "text": ("The cat sat.", "A dog sat on the mat."),
    "target": ("", "The dog."),
    "second": ("", "A dog."),
    "other": ("", "The dog sat."),
    "between": ("", "a, b"),
    "picture": ("", "seven"),
    "corpus": ("", "path:runs/nowhere"),
    "lab": ("", "scale"),
    "tried": ("", "guess=0"),
    "gold": ("", "0-0 1p1"),
    "aligned": ("", "1", "0.1"),
    "masked": ((), (1,), (0, 2)),
    "overlay": ((), ((0, 1), (1, 0))),
    "zoom": (None, ((0, 2), (1, 3))),
    "predicted": ((), ((1, 0), (2, 3))),
    "moments": ((), (4, 64)),
    "block": ("encoder", "decoder", "cross"),
    "stack": ("encoder", "decoder"),
    "compare": ("now", "before", "difference"),
    "over": ("weights", "gradients"),
    "heads_on": ("stored", "sentence", "file"),
    "heads_by": ("layer", "effect", "previous"),
    "removal": ("mean", "zero"),
    "aligned_row": ("out", "in"),
    "swapped": ("heads", "patterns", "stream"),
    "corpus_by": ("previous", "entropy"),
    "weighed": ("raw", "content"),
    "opposite": ("place", "match"),
    "scope": tuple(SCOPES),
    "statistic": tuple(one.name for one in STATISTICS),
    "reach": tuple(REACHES),
    "lang": tuple(languages()),
    "view": VIEWS,
    "blocks": BLOCKS,
    "sort": SORTS,
    "scale": SCALES,
    "ramp": tuple(RAMPS),
    "search": SEARCHES,
    "versus": VERSUS,
    **dict.fromkeys(("site", "checkpoint", "number", "branch", "beside", "seen"), ("",)),
    "model": ("tiny",),
    "station": (0,),
}


def random_state(seed: int) -> dict[str, Any]:
    """Some state that a visitor of the tiny model may be in; every key is drawn."""
    draw = random.Random(seed)
    kinds = (
        Temperature(value=draw.choice((0.0, 0.5, 3.0))),
        Window(radius=draw.randrange(4), stack="encoder"),
        Causal(on=False, stack="decoder", block="self"),
        BlockKeys(keys=(1,), stack="encoder"),
        ScaleHead(value=draw.choice((0.0, 0.5)), stack="decoder", block="cross", layer=0, head=1),
        UniformHead(stack="decoder", layer=1, head=0),
        Pad(count=draw.randint(1, 3), masked=draw.random() < 0.5),
        ScalePositions(value=draw.choice((0.0, 0.5))),
    )
    edited = Intervention(tuple(draw.sample(kinds, draw.randrange(len(kinds)))))
    state = {key: draw.choice(values) for key, values in CHOICES.items()}
    layers = 3 if state["block"] == "encoder" else 2
    return state | {"edits": edited.to_json(), "layer": draw.randrange(layers)}


@pytest.mark.parametrize(
    "seed",
    [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 12))],
)
def test_a_random_state_comes_back_from_its_link_on_every_page(visit: Visit, seed: int) -> None:
    state = random_state(seed)
    assert set(state) == {key.name for key in KEYS}
    given = {name: value for name, value in state.items() if value not in ("", None)}
    link = {key.name: key.write(given[key.name]) for key in KEYS if key.name in given}
    for page in MAP_PAGES:
        first = go(visit(**link), page)
        assert not first.exception and not first.error, (page, told(first))
        again = go(visit(**address(first)), page)
        assert address(again) == address(first) and drawn(again) == drawn(first), page
        for name in DEFAULTS:
            if name not in ("token", "key", "site"):  # fitted to what this page shows
                assert again.session_state[name] == state[name], (page, name)


def test_every_page_shares_sentence_model_and_edits(visit: Visit) -> None:
    link = {"text": "A dog sat.", "layer": "1", "head": "1", "block": "encoder", "words": "on"}
    link |= {"scope": "layer", "statistic": "std", "reach": "decoder", "pair": "3"}
    app = visit(**link, edits=WARM)
    there, seen = address(app), set[str]()
    assert link.items() <= there.items()
    for page in ("positions", "norms", "about", "positions", "about", "norms", ""):
        runs(go(app, page), page)
        assert there.items() <= address(app).items(), page
        once = page != "about" and page not in seen  # the second visit finds what was chosen
        seen.add(page)
        for compare in ("before", "difference", "now") if once else ():
            put(app, {"compare": compare})  # choices outlive many changes on another page
            assert not app.exception and not app.error, (page, compare)
        assert there.items() <= address(app).items(), page
    assert app.text_input(key="text").value == "A dog sat."

    app = put(go(visit(), "positions"), {"position_drop": True})
    assert keys(go(app, "norms"), "edit-") == ["edit-0"]
    slide(go(app, ""), "temperature", "2")
    click(go(app, "norms"), "undo")
    assert app.session_state["edits"] == Intervention((ScalePositions(value=0.0),)).to_json()

    app = visit()  # a change that comes together with another page
    app.text_input(key="text").set_value("A dog sat.")
    slide(app, "temperature", "2")
    go(app, "norms")
    assert app.session_state["text"] == "A dog sat." and "temperature" in app.session_state["edits"]
    assert address(app)["text"] == "A dog sat."


def test_what_was_chosen_on_a_page_that_was_left_stays_chosen(visit: Visit) -> None:
    app = put(go(visit(), "norms"), {"statistic": "std"})
    go(put(app, {"stack": "decoder"}), "")
    for block in ("encoder", "decoder", "cross"):  # several runs that draw none of these widgets
        put(app, {"block": block})
        assert address(app)["statistic"] == "std" and address(app)["stack"] == "decoder", block
    assert go(app, "norms").selectbox(key="statistic").value == "std"


def test_an_empty_sentence_and_an_edit_that_fits_nowhere_are_explained(visit: Visit) -> None:
    nowhere = Intervention((Temperature(value=2.0, layer=77),)).to_json()
    warm = Intervention((Temperature(value=4.0),)).to_json()
    for page in MAP_PAGES:
        assert "Type an English sentence" in told(runs(visit(page, text=" "), page)), page
        app = visit(page, edits=nowhere)
        assert not app.exception and len(app.error) == 1 and "matches no place" in told(app), page
        assert app.text_input(key="text").value == "The cat sat.", page
        click(app, "clean-after-error")
        assert not app.error and drawn(app), page
        app = click(visit(page, edits=warm, compare="difference"), "clean")
        clean = visit(page, compare="now")  # a difference without changes is the run itself
        assert drawn(app) == drawn(clean), page


def test_chips_show_what_is_chosen_hidden_and_where_it_stands(visit: Visit) -> None:
    hidden = Intervention((BlockKeys(keys=(1,), stack="decoder", block="cross"),)).to_json()
    app = visit(edits=hidden, token="2")
    source, target = (row["chips"] for row in chips(app))
    assert [n for n, chip in enumerate(source) if chip["gone"]] == [1]
    assert [n for n, chip in enumerate(target) if chip["on"]] == [3]  # row 2 produces token 3
    assert [chip["column"] for chip in source] == [f"source:{n}" for n in range(len(source))]
    rows = [f"produced:{n}" for n in range(len(target) - 1)]
    assert [chip["row"] for chip in target] == [None, *rows]
    assert part(app, "head")[0]["said"].startswith(f"“{target[3]['text']}” looks")
    app = visit(edits=Intervention((BlockKeys(keys=(1,)),)).to_json())
    assert "word 1" in app.button(key="edit-0").label  # of both sentences: no word is named
    ten = ScaleHead(value=10.0, stack="decoder", block="cross", layer=0, head=0)
    app = visit(edits=Intervention((ten,)).to_json())  # a factor beyond the box is shown as it is
    assert app.number_input(key="factor").value == 10.0 and edits(app)[0]["value"] == 10.0


def test_bad_values_in_a_link_fall_back_on_their_page_and_say_so(visit: Visit) -> None:
    unknown = "which this search did not weigh"
    chain = {"block": "encoder"}
    for page, link, says in (
        ("norms", {"site": "nowhere"}, "no norm 'nowhere'"),
        ("norms", {"statistic": "weight"}, "statistic is 'weight'"),
        ("norms", {"word": "99"}, "no word 99"),
        ("positions", {"place": "99"}, "no position 99"),
        ("positions", {"shift": "99"}, "no shift 99"),
        ("positions", {"pair": "999"}, "no pair of dimensions 999"),
        ("positions", {"reach": "all"}, "reach is 'all'"),
        ("", {"answer": "77"}, "no word 77"),
        ("align", {"aligned": "7.1"}, "There is no cross-attention L7 H1 here"),
        ("step-inside", chain | {"step": "99"}, "There is no station 99"),
        ("step-inside", chain | {"token": "99"}, "There is no word 99"),
        *(
            ("step-inside", chain | {"step": step, "number": number}, "no sum of this chain")
            for step, number in (
                ("4", "score.self/out/99"), ("4", "nonsense"), ("6", "mask.self/out/0"),
            )
        ),
        ("play", {"branch": "900.0"}, f"branch is '900.0', {unknown}; its best text is"),
        ("play", {"branch": "0.99"}, f"branch is '0.99', {unknown}"),
        ("play", {"branch": "winner"}, f"branch is 'winner', {unknown}"),
        ("play", {"played": "999"}, "played is 999; this text has the steps 0 to "),
        ("play", {"played": "-1"}, "played is '-1'; it must be a whole number from 0"),
        ("play", {"search": "deep"}, "search is 'deep'; it can be greedy, sample, beam"),
        ("play", {"drawing": "0"}, "drawing is '0'; it must be a number from 0.1 to 5"),
        ("play", {"pooled": "yes"}, "pooled is 'yes'; it can be on, off"),
    ):  # fmt: skip
        app = ok(visit(page, **link), (page, link))
        warnings = [str(box.value).replace("\\", "") for box in app.warning]
        assert len(warnings) == 1 and says in warnings[0], (page, link, warnings)
        if page == "play":
            header, _ = part(app, "play")
            assert header["chosen"] == header["best"][0], link
        if page == "step-inside":
            assert part(app, "inside")[0]["sum"] is None, link
        if page == "align":
            assert app.selectbox(key="aligned").value == ""


def test_other_kinds_of_models_are_told_what_a_page_needs(meet: Visit) -> None:
    for page, models, words in (
        ("why", ("vit", "core"), "asks about the words of one text"),
        ("swap", ("vit", "core"), "reads something else"),
        ("compare", ("vit",), "the model at hand reads something else"),
        ("align", ("lm", "mlm", "vit"), "the model at hand has none"),
        *((page, ("mlm",), "click a word above to mask it") for page in ("why", "swap")),
        ("play", ("vit", "mlm", "core"), "Choose a translation model"),
        ("play", ("mlm",), "reads a whole sentence at once and writes nothing by itself"),
        ("play", ("vit",), "names a class and writes no words"),
        ("play", ("core",), "gives vectors and no words"),
    ):
        for model in models:
            app = meet(model, page)
            assert not app.exception and not app.error and words in told(app), (page, model)


def test_short_and_long_sentences_and_targets(visit: Visit) -> None:
    app = visit(text="The cat sat on the mat and the dog sat on the rug.", token="9", answer="9")
    fine(put(app, {"text": "Go."}))
    produced = app.selectbox(key="answer")
    assert produced.value < len(produced.options)
    padded = Intervention((Pad(count=2),)).to_json()
    app = visit(text="the cat " * 35, edits=padded, compare="difference", beam="1", block="encoder")
    assert not app.exception and not app.error
    assert "too many to compare at a glance" in told(app) and "head-view" in drawn(app)
    assert app.number_input(key="pad").value == 2
    app = runs(visit(target="the cat " * 600))
    assert "This target has" in told(app) and app.text_input(key="text").value == "The cat sat."
    free, held = said(visit(), "now"), visit(target="The dog.")
    assert ">held</span>" in said(held, "translation") and "The dog." in said(held, "translation")
    words = re.compile(r'data-what="now">(.*?)</span>')
    assert words.findall(said(held, "now")) == words.findall(free)  # the model's own beside


# ---- The tuple of pages, and a page of one's own


def from_guide() -> Page:
    """The page that the guide's two blocks of code make."""
    file, entry = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(file + entry, str(GUIDE), "exec", dont_inherit=True), names)
    page = names["ENTRY"]
    assert isinstance(page, Page)
    return page


def test_the_page_of_the_guide_is_a_page_like_the_others(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = from_guide()
    bare = Page("frames", "Frames", "Does it stand?", longest.draw, pages.SEE, framed=False)
    monkeypatch.setattr(pages, "PAGES", (*pages.PAGES, longest, bare))
    app = visit()
    entries = {one["url_pathname"]: one["page_name"] for one in app._registered_pages.values()}
    assert entries[longest.path] == "Longest"
    app = ok(go(app, longest.path))
    assert '<p data-what="longest">sat.</p>' in html(app)
    put(app, {"text": "Two elephants sat."})
    assert '<p data-what="longest">elephants</p>' in html(app)
    assert address(go(app, ""))["text"] == "Two elephants sat."
    app = runs(visit(longest.path, text="A <b>crocodile</b> sat.", layer="99"))
    assert 'data-what="longest"' in html(app)
    assert "&lt;b&gt;crocodile&lt;/b&gt;" in html(app) and "There is no layer 99" in told(app)
    app = visit("frames")  # without the sentence's box
    assert not [one for one in app.text_input if one.key == "text"]
    assert address(go(app, "norms"))["text"] == "The cat sat."


def test_addresses_titles_and_stations() -> None:
    found = [page.address for page in pages.PAGES]
    assert len({*found}) == len(found)
    assert [page.address for page in pages.PAGES if page.first] == [FIRST]
    assert pages.PAGES[0].path == "" and all(page.path for page in pages.PAGES[1:])
    assert {station.page for station in STATIONS} | {HOME, FIRST} <= {*found}
    known = catalogue("zh")
    for page in pages.PAGES:
        assert {page.title, page.question} <= set(known), page.address
