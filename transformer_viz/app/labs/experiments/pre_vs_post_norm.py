"""Lab on pre-norm and post-norm: gradients at initialization, and the residual stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from .... import views
from ....core.interventions import Intervention
from ....i18n import mark, say
from ....metrics.residual.residual_stream import stream_lengths
from ....views.charts.curves import Curve
from ...ui import layout
from .. import jobs
from ..bench import Bench
from ..lab import Lab
from ..tiny_models import LABS, Tiny, reads_english, translations
from .layer_vs_batch_norm import OTHERS

if TYPE_CHECKING:
    from ....inference.experiments.initial_gradients import Beginning

WAYS = {"pre": "scaled-dot", "post": "post-norm"}
DEPTHS = (2, 4, 6, 9, 12)
SEEDS = (1, 2, 3)
UNEVEN = 1.5  # ratio of unevenness above which the kinds count as different


@dataclass(frozen=True, eq=False)
class PreVsPostResult:
    """New models of both kinds, and the two trained tiny ones (None: not bundled)."""

    pre: Beginning
    post: Beginning
    stack: str
    trained: tuple[Tiny | None, ...]

    def unevenness(self, norm: str) -> float:
        """Return the largest gradient of a layer over the smallest, in the chosen stack."""
        sizes = getattr(self, norm).gradients[self.stack]
        return float(max(sizes) / min(sizes))


def experiment(bench: Bench) -> PreVsPostResult:
    """Draw the controls (depth, stack) and measure new models on one batch."""
    with layout.row("bottom", gap="medium"):
        depth = int(bench.slide("layers", say("layers of each stack"), DEPTHS, 6))
        stacks = {"encoder": say("Encoder"), "decoder": say("Decoder")}
        stack = bench.choose("stack", say("stack"), stacks, "decoder")
    trained = translations(bench, tuple(WAYS.values()), Intervention())
    texts = (*OTHERS["first"], *OTHERS["second"])  # fixed, so results are cached
    says = say("Making fresh models of {depth} layers ...", depth=depth)
    pre, post = bench.ask(LABS + WAYS["pre"], jobs.began, texts, depth, SEEDS, says=says)
    found = PreVsPostResult(pre, post, stack, trained)
    with st.container(key="pictures-pre-post"):
        left, middle, right = st.columns(3)
        with left:
            _gradients(bench, found)
        with middle:
            _lengths(bench, found)
        with right:
            _trained(bench, found)
    return found


def _names() -> dict[str, str]:
    return {"pre": say("norm before (pre)"), "post": say("norm after the sum (post)")}


def _gradients(bench: Bench, found: PreVsPostResult) -> None:
    layers = range(found.pre.layers)
    bench.chart(
        "gradients",
        say("How large is the gradient in each layer before the first update?"),
        lambda: views.curves(
            [
                Curve(name, layers, getattr(found, norm).gradients[found.stack])
                for norm, name in _names().items()
            ],
            say("layer"),
            say("norm of the gradient"),
            say(
                "all weights of a layer together · means over {seeds} fresh models · logarithmic: "
                "equal steps up are equal factors",
                seeds=found.pre.seeds,
            ),
            names=[f"L{layer}" for layer in layers],
            log="y",
            dark=bench.dark,
        ),
    )


def _lengths(bench: Bench, found: PreVsPostResult) -> None:
    bench.chart(
        "lengths",
        say("How long is a word's vector on its way, in the fresh models?"),
        lambda: _growth(
            bench,
            {name: getattr(found, norm).lengths[found.stack] for norm, name in _names().items()},
            (say("words"), *(say("after {layer}", layer=f"L{n}") for n in range(found.pre.layers))),
            say("mean over the words of the batch and {seeds} models", seeds=found.pre.seeds),
        ),
    )


def _trained(bench: Bench, found: PreVsPostResult) -> None:
    grown = {
        name: stream_lengths(tiny.trace, found.stack)[1].mean(axis=1)
        for name, tiny in zip(_names().values(), found.trained, strict=True)
        if tiny is not None
    }
    steps = next(stream_lengths(tiny.trace, found.stack)[0] for tiny in found.trained if tiny)
    bench.chart(
        "trained",
        say("And in the two trained tiny models, on this sentence?"),
        lambda: _growth(
            bench,
            grown,
            steps,
            say(
                "after each sum, before the norm that may follow · mean over the words of the "
                "sentence"
            ),
        ),
    )


def _growth(
    bench: Bench, lengths: dict[str, Sequence[float]], steps: Sequence[str], caption: str
) -> object:
    return views.curves(
        [Curve(name, range(len(values)), values) for name, values in lengths.items()],
        "",
        say("length"),
        caption,
        names=steps,
        least=0,
        dark=bench.dark,
    )


def answer(found: PreVsPostResult) -> int:
    """Return the option of the norm with the more uneven gradients."""
    ratio = found.unevenness("post") / found.unevenness("pre")
    if ratio > UNEVEN:
        return 1
    return 0 if ratio < 1 / UNEVEN else 2


def reveal(bench: Bench, found: PreVsPostResult) -> None:
    """Draw the effect of the norm's position on gradients and on vector lengths."""
    with st.container(key="pictures-pre-post-why"):
        left, right = st.columns(2)
        with left:
            _why(bench, found)
        with right:
            _sizes(bench, found)
    bench.quiet(
        say(
            "The batch are six sentences that are always the same; the wanted words are the "
            "translations of the tiny model {name}. The loss is the mean of -ln p over them, "
            "without dropout and label smoothing. The pre-norm models have the last norm that such "
            "models have; the post-norm ones have none, as in the paper.",
            name=LABS + WAYS["pre"],
        )
    )


def _why(bench: Bench, found: PreVsPostResult) -> None:
    pre, post = (found.unevenness(norm) for norm in WAYS)
    fields = {"layers": found.pre.layers, "pre": pre, "post": post}
    bench.tell(
        say(
            "In the {layers} layers of the encoder, the largest [gradient] is {pre:.1f} times the "
            "smallest with the norm before, and {post:.1f} times with the norm after the sum.",
            **fields,
        )
        if found.stack == "encoder"
        else say(
            "In the {layers} layers of the decoder, the largest [gradient] is {pre:.1f} times the "
            "smallest with the norm before, and {post:.1f} times with the norm after the sum.",
            **fields,
        )
    )
    if answer(found) == 1:
        bench.tell(
            say(
                "After the sum, the norm rescales the [stream|residual stream] itself, and so the "
                "way back too, once for every sum above. Before the sub-layer, the stream runs "
                "past all norms: the gradient finds a straight way down, and the vectors grow from "
                "layer to layer instead. This is why deep post-norm models need a slow warm-up "
                "(Xiong et al. 2020)."
            )
        )
    else:
        bench.tell(
            say(
                "What Xiong et al. 2020 describe, small gradients far below and large ones at the "
                "end with the norm after each sum, does not show here. Choose the decoder and more "
                "layers: there it does."
            )
        )


def _sizes(bench: Bench, found: PreVsPostResult) -> None:
    names = _names()
    rows = [
        (
            f"L{layer}",
            *(f"{getattr(found, norm).gradients[found.stack][layer]:.3f}" for norm in names),
        )
        for layer in range(found.pre.layers)
    ]
    bench.table((say("gradient"), *names.values()), rows)
    bleus = [
        say("{name}: BLEU {bleu}", name=name, bleu=tiny.score)
        for name, tiny in zip(names.values(), found.trained, strict=True)
        if tiny is not None and tiny.score
    ]
    if bleus:
        bench.tell(
            say(
                "With two layers both could be trained: {scores} on the whole test file.",
                scores=" · ".join(bleus),
            )
        )


PRE_POST = Lab(
    name="pre-post",
    title=mark("Norm before or after?"),
    question=mark(
        "A fresh, untrained Transformer sees its first batch. Where do the gradients of its "
        "layers differ more: with the norm before each sub-layer, or after each sum?"
    ),
    options=(
        mark("With the norm before each sub-layer (pre)"),
        mark("With the norm after each sum (post)"),
        mark("No difference worth mentioning"),
    ),
    experiment=experiment,
    answer=answer,
    reveal=reveal,
    lacks=reads_english,
)
