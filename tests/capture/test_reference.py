"""The reference Transformer's own notes are what the probe sees; where they are not, it is asked.

Maps, norms, lengths and outputs are the same bit for bit; of statistics, which are reckoned of many
maps at once, the last digits may differ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.support import same_trace
from transformer_viz import trace
from transformer_viz.capture import CaptureRequest
from transformer_viz.capture.reference import NotingTransformer, noting
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.checkpoints.common.native import wrap
from transformer_viz.core.interventions import (
    BlockEdges,
    BlockKeys,
    Causal,
    Edit,
    Intervention,
    Pad,
    ScaleHead,
    ScalePositions,
    ScaleResidual,
    ShufflePositions,
    Temperature,
    UniformHead,
    Window,
)
from transformer_viz.core.trace import Trace
from transformer_viz.inference.decoding import watched_calls
from transformer_viz.model import ModelConfig, Transformer
from transformer_viz.model.transformer import Attention, Layer

SIZES = {"d_model": 24, "heads": 4, "d_ff": 40, "max_positions": 80}
BOTH = {"encoder_layers": 2, "decoder_layers": 3, "source_vocab": 50, "target_vocab": 40}
DECODER = {"decoder_layers": 3, "target_vocab": 50}
ENCODER = {"encoder_layers": 2, "source_vocab": 50}
LEARNED = {"positions": "learned"}
#: Kinds that tell of themselves.
TOLD: dict[str, dict[str, Any]] = {
    "pre": BOTH,
    "post": BOTH | {"norm": "post", "final_norm": False},
    "query alone": BOTH | {"norm": "query_only"},
    "rms": BOTH | {"norm_kind": "rms"},
    "rms post": BOTH | {"norm_kind": "rms", "norm": "post"},
    "norm of embeddings": BOTH | {"embedding_norm": True, "final_norm": False},
    "learned": BOTH | {"positions": "learned"},
    "halves": BOTH | {"positions": "sinusoidal_halves"},
    "no positions": BOTH | {"positions": "none"},
    "dot": BOTH | {"score": "dot"},
    "general": BOTH | {"score": "general"},
    "-1e9": BOTH | {"mask_fill": -1e9},
    "-1e4": BOTH | {"mask_fill": -1e4},
    "gated, odd widths": BOTH | {"gated": True, "d_k": 5, "d_v": 7, "activation": "silu"},
    "no biases": BOTH | {"attention_bias": False, "output_bias": True, "tied": "output"},
    "decoder": DECODER,
    "decoder, post": DECODER | {"norm": "post", "positions": "learned"},
    "encoder": ENCODER,
    "encoder with words": ENCODER | {"target_vocab": 50, "norm": "post", "embedding_norm": True},
    "vectors": {"encoder_layers": 2},
}
#: Kinds of which the probe is asked.
ASKED: dict[str, dict[str, Any]] = {
    "rotary": BOTH | {"positions": "rotary"},
    "annotated": BOTH | {"norm_kind": "annotated"},
    "additive": BOTH | {"score": "additive"},
    "location": BOTH | {"score": "location"},
    "a mild mask": BOTH | {"mask_fill": -20.0},
}
SOURCE, TARGET = [5, 9, 31, 7, 0, 3], [2, 8, 11, 4]  # 0 is padding
KEEP = ("weights", "scores", "hidden")
EDITS: dict[str, tuple[Edit, ...]] = {
    "none": (),
    "temperature": (Temperature(value=2.5),),
    "cold": (Temperature(value=0),),
    "one head": (Temperature(value=0.3, layer=1, head=2),),
    "overridden": (
        Temperature(value=3),
        Temperature(value=1, head=1),
        Temperature(value=2, layer=0),
    ),
    "off": (ScaleHead(value=0, layer=0, head=1),),
    "louder": (ScaleHead(value=1.5), Temperature(value=0.5, head=3)),
    "uniform": (UniformHead(layer=1), UniformHead(layer=1, head=0, on=False)),
    "causal": (Causal(on=True, layer=0),),
    "lifted": (Causal(on=False),),
    "window": (Window(radius=1), Temperature(value=2, head=0)),
    "a word hidden": (BlockKeys(keys=(1,)),),
    "all words hidden": (BlockKeys(keys=tuple(range(6)), head=2),),
    "links cut": (BlockEdges(edges=((0, 0), (2, 1))),),
    "padded": (Pad(count=2), Temperature(value=2)),
    "padding seen": (Pad(count=2, masked=False),),
    "idle": (Temperature(value=1), Window(radius=None)),
}
OTHER: dict[str, tuple[Edit, ...]] = {
    "positions": (ScalePositions(value=0.5),),
    "shuffled": (ShufflePositions(seed=3),),
    "residual": (ScaleResidual(value=0.5), Temperature(value=2)),
}


def model_of(words: dict[str, Any], dtype: torch.dtype = torch.float32) -> Model:
    torch.manual_seed(0)
    module = Transformer(ModelConfig(**(SIZES | words))).to(dtype)
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if "norm" in name:  # gains of 1 and biases of 0 would hide what they do
                weight.add_(torch.randn_like(weight), alpha=0.2)
    return wrap(module)


def inputs(model: Model) -> tuple[Any, Any]:
    if model.takes == "vectors":
        return np.random.default_rng(0).standard_normal((5, 24)).astype(np.float32), None
    return SOURCE, TARGET if model.kind == "encoder-decoder" else None


def both(model: Model, edits: tuple[Edit, ...] = (), **words: Any) -> tuple[Trace, Trace, bool]:
    """Return a trace as it is made, that of the probe, and whether the notes made the first."""
    made: list[bool] = []

    def noted(*given: Any) -> NotingTransformer | None:
        found = noting(*given)
        made.append(found is not None)
        return found

    source, target = words.pop("given", None) or inputs(model)
    words = {"keep": KEEP, "check": False, "intervention": Intervention(edits), **words}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watched_calls, "noting", noted)
        one = trace(model, source, target, **words)
        patch.setattr(watched_calls, "noting", lambda *given: None)
        return one, trace(model, source, target, **words), bool(made) and all(made)


#: A decoder alone appends its text to a source, and vectors have no padding id.
UNPADDED = ("decoder", "decoder, post", "vectors")


#: Kinds that differ in how they attend: under every edit. The others differ in norms, positions
#: and stacks: under every third, and all of them in soak.
ATTEND = ("pre", "dot", "-1e9", "-1e4", "gated, odd widths", "decoder", "vectors")


@pytest.mark.slow
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("part", range(2))
def test_notes_are_what_the_probe_sees(part: int, step: int) -> None:
    for number, kind in list(enumerate(TOLD))[part::2]:
        model = model_of(TOLD[kind])
        for edits in EDITS if kind in ATTEND else list(EDITS)[number % step :: step]:
            if kind in UNPADDED and edits.startswith("padd"):
                continue
            one, other, told = both(model, EDITS[edits])
            assert told, (kind, edits)
            assert_same(one, other, (kind, edits))


def assert_same(one: Trace, other: Trace, case: object, sums: float = 2e-6) -> None:
    try:
        same_trace.same(one, other, sums=sums)
    except AssertionError as error:
        raise AssertionError(f"{case}: {error}") from error


def test_the_probe_is_asked_where_the_notes_do_not_tell() -> None:
    for kind, words in ASKED.items():
        one, other, told = both(model_of(words), EDITS["temperature"])
        assert not told, kind
        assert_same(one, other, kind)
    for name, edits in OTHER.items():
        one, other, told = both(model_of(BOTH), edits)
        assert not told, name
        assert_same(one, other, name)
    for keep in ("qkv", "gradients", "tiles"):
        one, _, told = both(model_of(BOTH), keep=(keep,))
        assert not told and (one.attentions or one.tiles), keep


def text(length: int) -> list[int]:
    return [4 + (7 * n) % 30 for n in range(length)]


@pytest.mark.slow
def test_notes_of_other_types_sizes_and_requests() -> None:
    few = {"max_positions": 3}  # a table of so few rows is none to the probe
    deep = DECODER | {"decoder_layers": 6, "max_positions": 400}
    many = BOTH | {"d_k": 8, "d_v": 8, "max_positions": 200, "encoder_layers": 5}
    types = (torch.float64, torch.bfloat16, torch.float16)
    cases: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
        *((BOTH, "one head", {"keep": keep}) for keep in ((), *((name,) for name in KEEP))),
        *((BOTH, e, {"dtype": d}) for d in types for e in ("none", "temperature", "window")),
        *((w, "none", {"given": ([5], [2])}) for w in (BOTH, BOTH | LEARNED, BOTH | few)),
        (DECODER, "none", {"given": ([5], None)}),  # one token
        *(  # each number of heads and each length under both
            (
                many | {"heads": heads},
                ("none", "window")[(i + j) % 2],
                {"given": (text(n), text(n))},
            )
            for i, heads in enumerate((1, 3, 6))
            for j, n in enumerate((5, 67, 91, 190))
        ),
        (deep, "temperature", {"given": (text(400), None)}),  # more than one block of rows
        (DECODER, "none", {"given": ([4 + n % 40 for n in range(120)], None)}),
    ]
    for words, edits, more in cases:
        case = words, edits, more
        model = model_of(words, more.get("dtype", torch.float32))
        asked = {name: value for name, value in more.items() if name != "dtype"}
        one, other, told = both(model, EDITS[edits], **asked)
        assert told, case
        assert_same(one, other, case)
    assert one.manifest["beyond"] == 80  # the last text is longer than the table of positions


def test_what_has_no_place_and_no_attention_is_said() -> None:
    for edit in (ScaleHead(value=0, head=9), Causal(on=True, block="cross")):
        with pytest.raises(ValueError, match="matches no place"):
            trace(model_of(BOTH), SOURCE, TARGET, intervention=Intervention((edit,)), check=False)
    # A stack without layers says that no attention was seen.
    model = model_of(ENCODER)
    module: Any = model.module
    module.encoder.layers = nn.ModuleList()
    report = trace(model, SOURCE, check=False).report
    assert report.unrecognised and "no attention was seen" in report.unrecognised[0]


class Louder(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def change(m: Any, how: str) -> None:
    """Do to a built module what its notes do not know of."""
    first, second = m.decoder.layers[:2]
    attention = m.encoder.layers[0].self_attention
    if how == "hook":
        second.register_forward_hook(lambda *given: 2 * given[-1])
    elif how == "hook before":
        m.output.register_forward_pre_hook(lambda _, x: (2 * x[0],))
    elif how == "louder":
        old = attention.value
        attention.value = Louder(old.in_features, old.out_features)
        attention.value.load_state_dict(old.state_dict())
    elif how == "patched":
        part = first.feed_forward
        part.forward = lambda x: 2 * type(part).forward(part, x)
    elif how == "replaced":
        part = first.cross_attention
        part.weigh = lambda scores, mask: type(part).weigh(part, 2 * scores, mask)
    elif how == "exchanged":
        m.encoder.layers[0].self_norm = nn.Linear(24, 24).eval()
    elif how == "another norm":
        second.dropout = nn.LayerNorm(24).eval()
    elif how == "mild":
        first.self_attention.fill = -5.0
    elif how == "a norm for two":
        first.feed_forward_norm = first.self_norm
    elif how == "a layer twice":
        m.decoder.layers[1] = first
    elif how == "positions for both":  # alone changes no logit
        m.decoder.embedding.positions = m.encoder.embedding.positions


CHANGES = (
    *("hook", "hook before", "louder", "patched", "replaced", "exchanged", "another norm"),
    *("mild", "a norm for two", "a layer twice", "positions for both"),
)


def test_a_module_that_is_not_as_it_was_built_is_asked_of_the_probe() -> None:
    for how in CHANGES:
        model = model_of(BOTH)
        before = trace(model, SOURCE, TARGET, check=False)
        change(model.module, how)
        one, other, told = both(model)
        assert not told, how
        assert_same(one, other, how, sums=0.0)
        assert before.logits is not None and one.logits is not None
        assert np.allclose(before.logits, one.logits) == (how == "positions for both"), how


def test_unusual_parts_and_calls() -> None:
    model = model_of(BOTH)
    norm: Any = model.module.encoder.layers[0].self_norm
    gain = norm.weight.detach()
    del norm.weight
    norm.register_buffer("weight", gain)
    one, other, _ = both(model)
    assert_same(one, other, "buffer")
    assert np.array_equal(one.gains["encoder.layers.0.self_norm"][0], gain)
    # Calls of ones own are made.
    model = model_of(BOTH)
    mine = replace(model.calls, forward=lambda *given: 2 * model.calls.forward(*given))
    one, other, told = both(replace(model, calls=mine))
    plain = trace(model, SOURCE, TARGET, check=False)
    assert not told and one.logits is not None and plain.logits is not None
    np.testing.assert_allclose(one.logits, 2 * plain.logits)
    assert_same(one, other, "calls")
    # Positions that are alike are no table.
    model = model_of(BOTH | LEARNED)
    table: Any = model.module.encoder.embedding.positions.table.weight
    table.data[:] = table.data[0].clone()
    one, other, told = both(model)
    assert told and list(one.positions) == ["table.decoder"]
    assert_same(one, other, "alike")


def fused(self: Any, x: Tensor, memory: Tensor, mask: Tensor, *rest: Any, **named: Any) -> Tensor:
    q, (k, v) = self.split(self.query(x)), self.keys_and_values(memory)
    context = nn.functional.scaled_dot_product_attention(q, k, v, mask)
    out: Tensor = self.output(context.transpose(1, 2).flatten(2))
    return out


def filled(self: Any, scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -9e9).softmax(-1)


def test_a_class_that_was_patched_is_asked_of_the_probe() -> None:
    for kind, name, method in (
        (Attention, "forward", fused),
        (Attention, "weigh", filled),
        (Layer, "after", lambda self, norm, x: 2 * x),
        (nn.LayerNorm, "forward", lambda self, x: x * self.weight),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kind, name, method)
            one, other, told = both(model_of(BOTH))
        assert not told and len(one.attentions) == 8, (kind, name)
        assert_same(one, other, (kind, name), sums=0.0)


def test_global_hooks_are_respected_and_nothing_of_a_run_is_kept() -> None:
    module = model_of(BOTH).module
    parts = {path: (type(part), dict(part.__dict__)) for path, part in module.named_modules()}
    made = noting(module, Intervention(EDITS["temperature"]), CaptureRequest())
    assert made is not None
    with torch.inference_mode():
        made(torch.tensor([SOURCE]), torch.tensor([TARGET]))
    assert made.finished() is not None
    after = {path: (type(part), dict(part.__dict__)) for path, part in module.named_modules()}
    assert parts == after
    words = (module, Intervention(), CaptureRequest())
    handle = nn.modules.module.register_module_forward_hook(lambda part, given, out: None)
    assert noting(*words) is None
    handle.remove()
    assert noting(*words) is not None
    module.train()
    assert noting(*words) is None
