"""Strange things that a person types or opens, and what the screen then says: one list.

`test_inputs.py` holds the app to it, and `docs/make_screenshots.py` draws it as a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlencode

from playwright.sync_api import Page
from safetensors.torch import save_file

from tests.conftest import make_module
from tests.support import first_run
from tests.support.browser import running_app
from tests.support.rest import rest
from transformer_viz.app.ui.text_format import JOINER
from transformer_viz.checkpoints import available
from transformer_viz.checkpoints.common.bundled import CONFIG, WEIGHTS
from transformer_viz.core.interventions import Edit, Intervention, Pad, Temperature

BOX = "English sentence"
BEGIN = "Type an English sentence above, or choose one of the examples."
BOXED = ", ".join(available())
NO_JSON = (
    "The intervention is not JSON (Expecting property name enclosed in double quotes: line 1 "
    'column 2 (char 1)). Write it like {"edits": [{"kind": "temperature", "value": 2.0}]}.'
)
KINDS = (
    "temperature, scale_head, uniform_head, causal, window, block_keys, block_edges, pad, "
    "scale_positions, shuffle_positions, scale_residual, mean_head, swap_head, swap_pattern, "
    "swap_stream"
)
SITES = ", ".join(
    f"{block} L{layer} ({first_run.CONFIG['heads']} heads)"
    for stack, blocks in (("encoder", ("encoder",)), ("decoder", ("decoder", "cross")))
    for layer in range(first_run.CONFIG[f"{stack}_layers"])
    for block in blocks
)
LAST_WORD, LAST_ROW = len(first_run.SOURCE) - 1, len(first_run.TARGET) - 1
MISSING = "no-such-model"
GPT = "gpt"


@dataclass(frozen=True)
class Input:
    """Something strange, and the exact sentence in the box that explains it.

    Where ``reads`` is given the app translates all the same, with that among the source's chips.
    ``text`` is typed into the sentence's box; ``link`` and ``page`` are opened.
    """

    name: str
    done: str
    says: tuple[str, ...] = ()
    text: str | None = None
    link: Mapping[str, str] = field(default_factory=dict)
    page: str = ""
    reads: str = ""


def _bad(name: str, value: str, why: str) -> Input:
    """A link with one value that cannot be used."""
    says = f"In the link, {name} {why}. It was left out."
    return Input(f"link-{name}", f"the link says {name}={value}", (says,), link={name: value})


def _bytes(*characters: str) -> tuple[str]:
    """What is said of characters that the model reads as bytes only."""
    seen = ", ".join(characters)
    return (
        f"The model's vocabulary has no piece for {seen}: it reads bytes instead, which it has "
        "hardly met in training. Do not trust this translation.",
    )


def _edits(*edits: Edit) -> dict[str, str]:
    return {"edits": Intervention(edits).to_json()}


TYPED = (
    Input("empty", "nothing is typed", (BEGIN,), ""),
    Input("blank", "blanks and a tab", (BEGIN,), "   \t "),
    Input("control", "nothing but control characters", (BEGIN,), "\x00\x01\x1b\x7f"),
    Input("escape", "a terminal's colour codes", _bytes("["),
          "\x1b[31mred\x07 alert\x00", reads="["),
    Input("one", "one character", (), "a", reads="a"),
    Input("emoji", "emoji, one made of three people",
          _bytes("🙂", "🙃", "👩", "U+200D", "👧"), "🙂🙃 👩‍👩‍👧", reads="🙂 1/4"),
    Input("right-to-left", "a sentence in Arabic",
          _bytes("\u2068" + ", ".join("مرحبالع") + "\u2069"), "مرحبا بالعالم", reads="م 1/2"),
    Input("direction", "marks that turn the direction", (
        "The model's vocabulary lacks some typed characters and reads others instead: "
        "U+202E → nothing, U+202C → nothing.",
    ), "\u202eabc\u202c", reads="ab"),
    Input("markup", "HTML, Markdown and a formula", _bytes(*first_run.unknown("<>()/*$")),
          "<script>alert(1)</script> **bold** $x$",
          reads="<"),
    Input("long", "1,500 words", (
        "This text has 1,501 tokens and the app takes at most 1,024. Shorten it, or use "
        "transformer-viz trace for longer texts.",
    ), "word " * 1500),
)  # fmt: skip
OPENED = (
    Input("link-model", "the link names a model that is not there", (
        "The model that was asked for is not here. There is no model '../../etc' here; there is "
        f"{', '.join(['en-de', *(name for name in available() if name != 'en-de')])}.",
    ), link={"model": "../../etc"}),
    _bad("edits", "{", f"cannot be read: {NO_JSON[:-1]}"),
    Input("edits-kind", "the link's edits are of a kind that is not there", (
        f"In the link, edits cannot be read: There is no edit of kind 'explode'; known are "
        f"{KINDS}. It was left out.",
    ), link={"edits": '{"edits":[{"kind":"explode"}]}'}),
    Input("edits-damaged", "the link's compressed edits are damaged", (
        "In the link, edits cannot be read: the compressed text is damaged. It was left out.",
    ), link={"edits": "z.AAAA"}),
    Input("edits-nowhere", "an edit that fits no place of the model", (
        f"The edit “L77: temperature 2” matches no place in this model; it has {SITES}.",
    ), link=_edits(Temperature(value=2.0, layer=77))),
    Input("edits-padding", "1,600 tokens of padding", (
        f"This text has {len(first_run.SOURCE)} tokens and its padding 1,600; the app takes at "
        "most 1,024 in all. Take padding away.",
    ), link=_edits(Pad(count=1600))),
    Input("link-layer", "the link says layer=99",
          ("There is no layer 99 here; there are 0 to 2. Layer 0 is shown.",),
          link={"layer": "99"}),
    _bad("head", "-1", "is '-1'; it must be a whole number from 0"),
    Input("link-token", "the link says token=500",
          (f"There is no word 500 here; there are 0 to {LAST_ROW}. Word 0 is shown.",),
          link={"token": "500"}),
    _bad("block", "sideways", "is 'sideways'; it can be encoder, decoder, cross"),
    _bad("beam", "x", "is 'x'; it can be 1 to 8"),
    _bad("compare", "never", "is 'never'; it can be now, before, difference"),
    Input("link-statistic", "on Norms, the link says statistic=colour", (
        "In the link, statistic is 'colour'; it can be mean, std, rms, input_norm, "
        "output_mean, output_std, output_rms, output_norm. It was left out.",
    ), link={"statistic": "colour"}, page="norms"),
    Input("link-reach", "on Positions, the link says reach=nowhere", (
        "In the link, reach is 'nowhere'; it can be both, encoder, decoder. It was left out.",
    ), link={"reach": "nowhere"}, page="positions"),
    Input("link-site", "on Norms, the link says site=nowhere", (
        "There is no norm 'nowhere' in this stack; encoder.layers.0.self_norm is shown.",
    ), link={"site": "nowhere"}, page="norms"),
    Input("link-place", "on Positions, the link says place=999", (
        f"There is no position 999 here; there are 0 to {LAST_WORD}. Position 0 is shown.",
    ), link={"place": "999"}, page="positions"),
    Input("link-several", "several things in a link are wrong at once", (
        "In the link, block is 'sideways'; it can be encoder, decoder, cross. It was left out.",
        "In the link, head is 'x'; it must be a whole number from 0. It was left out.",
        "There is no layer 99 here; there are 0 to 2. Layer 0 is shown.",
    ), link={"layer": "99", "head": "x", "block": "sideways"}),
)  # fmt: skip
#: Where the app was started with a checkpoint that is missing, beside a model that takes ids.
ODD = (
    Input("no-ids", "words for a model without a vocabulary", (
        "'words' is no token id. This model has no vocabulary: type token ids such as 2 45 3, each "
        "from 0 to 40.",
    ), link={"model": GPT, "text": "words"}),
    Input("no-checkpoint", "a checkpoint that is missing", (
        f"There is no model, folder or file '{MISSING}'. In the box: {BOXED}. Models of the Hub "
        "are named owner/name or owner/name@revision.",
    )),
)  # fmt: skip


@contextmanager
def odd_app() -> Iterator[str]:
    """The address of an app that was started as ``ODD`` needs it."""
    with TemporaryDirectory() as folder:
        write_gpt(Path(folder))
        variables = {"TRANSFORMER_VIZ_MODEL": MISSING, "TRANSFORMER_VIZ_MODELS": folder}
        with running_app(**variables) as url:
            yield url


def write_gpt(folder: Path) -> None:
    """A tiny decoder-only checkpoint that came without its vocabulary, for the list of models."""
    (folder / GPT).mkdir()
    module = make_module(encoder_layers=0, source_vocab=0)
    save_file(module.state_dict(), folder / GPT / WEIGHTS)
    (folder / GPT / CONFIG).write_text(json.dumps(module.config.to_dict()), encoding="utf-8")


def do(page: Page, url: str, strange: Input) -> None:
    """Type it, or open it, and wait for the answer."""
    if strange.text is None:
        page.goto(f"{url}/{strange.page}?{urlencode(strange.link)}")
        page.locator(".tv-foot").wait_for()
    else:
        box = page.get_by_label(BOX)
        box.fill(strange.text)
        box.press("Enter")
        page.wait_for_timeout(300)
    rest(page)


def said(page: Page) -> tuple[str, ...]:
    """What stands in the boxes for notices and errors, without the joiners in addresses."""
    texts = page.get_by_test_id("stAlert").all_inner_texts()
    return tuple(text.replace(JOINER, "").strip() for text in texts)
