"""The chain from q and k to a weight: against float64 by hand from the model's own matrices."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tests.conftest import make_model, ramp
from tests.support.refusals import refuses
from transformer_viz.checkpoints import load
from transformer_viz.core.apply_edits import HeadPlan
from transformer_viz.core.interventions import (
    BlockEdges,
    BlockKeys,
    Causal,
    Edit,
    Intervention,
    ScaleHead,
    Temperature,
    UniformHead,
    Window,
)
from transformer_viz.core.sites import Site
from transformer_viz.core.trace import Trace
from transformer_viz.inference.tracing import trace
from transformer_viz.metrics.attention.qk_steps import (
    NoProduct,
    QKSteps,
    Step,
    chain,
    scale_source,
)

SOURCE, TARGET = [5, 17, 6, 29, 8, 11, 3], [2, 7, 31, 9, 4]
KEEP = ("scores", "qkv")
CELLS = [("encoder", 2, 1, 4, 2), ("decoder", 1, 0, 3, 1), ("cross", 0, 1, 2, 6)]


def trace_model(*edits: Edit, **words) -> Trace:
    changes = Intervention(edits)
    model = make_model(**words)
    return trace(model, SOURCE, TARGET, keep=KEEP, check=False, intervention=changes)


def kinds(found: QKSteps) -> list[str]:
    return [step.kind for step in found.steps]


def step(found: QKSteps, kind: str) -> Step:
    (one,) = (step for step in found.steps if step.kind == kind)
    return one


def vectors(model, block: str, layer: int, head: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return q, k ``[token, d_k]`` and where a query may look, in float64 from the model's weights.

    What goes into the attention is caught by a hook, so the probe has no part in it.
    """
    module = model.module.double()
    stack = module.encoder if block == "encoder" else module.decoder
    part = "cross_attention" if block == "cross" else "self_attention"
    attention = getattr(stack.layers[layer], part)
    caught = []
    hook = attention.register_forward_pre_hook(lambda _, given: caught.append(given))
    with torch.inference_mode():
        module(torch.tensor([SOURCE]), torch.tensor([TARGET]))
    hook.remove()
    x, memory, mask = (part[0].numpy() for part in caught[0][:3])

    def projected(linear: nn.Linear, rows: np.ndarray) -> np.ndarray:
        out = rows @ linear.weight.detach().numpy().T
        out = out if linear.bias is None else out + linear.bias.detach().numpy()
        return out.reshape(len(rows), 2, -1)[:, head]

    q, k = projected(attention.query, x), projected(attention.key, memory)
    if model.config["score"] == "general":
        q = q @ attention.score.weight[head].detach().numpy()
    return q, k, np.broadcast_to(mask[0], (len(q), len(k)))


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def test_each_step_equals_the_work_by_hand():
    for kind in ("scaled_dot", "dot", "general"):
        run, model = trace_model(score=kind), make_model(score=kind)
        for case in CELLS:
            block, layer, head, query, key = case
            found = chain(run, *case)
            q, k, seen = vectors(model, block, layer, head)
            scale = 1 / math.sqrt(11) if kind == "scaled_dot" else 1.0
            dots, visible = k @ q[query], seen[query]
            scores = np.where(visible, dots * scale, -np.inf)
            powers, last = np.exp(scores - scores.max()), step(found, "softmax")
            middle = ["seen"] if block == "decoder" else []
            assert kinds(found) == ["dot", "scale", *middle, "softmax"], (kind, case)
            for name, value, wanted, near in (
                ("q", found.q, q[query], 1e-5),
                ("k", found.k, k[key], 1e-5),
                ("product", found.product, q[query] * k[key], 1e-5),
                ("dot", step(found, "dot").result, dots[key], 1e-5),
                ("scale", step(found, "scale").amount, scale, 1e-12),
                ("score", step(found, "scale").result, scores[key], 1e-5),
                ("most", last.most, scores.max(), 1e-5),
                ("total", last.amount, powers.sum(), 1e-5),
                ("weight", last.result, softmax(scores)[key], 1e-5),
                ("exponentials", found.exponentials, powers, 1e-4),
            ):
                said = f"{kind}, {case}: {name}"
                one = 1e-5 if np.ndim(value) and name != "exponentials" else 1e-12
                np.testing.assert_allclose(value, wanted, rtol=near, atol=one, err_msg=said)
            assert found.seen.tolist() == visible.tolist(), (kind, case)
            if kind == "scaled_dot":
                why = "1/√dₖ: dₖ, the width of q and k, is 11"
                assert step(found, "scale").why == why
    for kind in ("additive", "location"):
        said = "no product of a query and a key"
        refuses(said, chain, trace_model(score=kind), "cross", 0, 1, 2, 3, error=NoProduct)


def test_a_cell_that_the_model_masks():
    run = trace_model()
    found = chain(run, "decoder", 1, 0, 1, 3)
    q, k, _ = vectors(make_model(), "decoder", 1, 0)
    assert kinds(found) == ["dot", "scale", "mask", "softmax"]
    assert step(found, "scale").result == pytest.approx(q[1] @ k[3] / math.sqrt(11), rel=1e-5)
    assert step(found, "mask").why == "the model's own mask"
    assert found.steps[-1].result == 0 == run.attention("decoder", 1)[0, 1, 3]
    # A row that the model itself empties: a finite fill looks at all alike, minus infinity gives
    # no number; told as they are.
    for fill, expected in ((-1e9, 1 / 3), (-math.inf, math.nan)):
        model = make_model(mask_fill=fill, target_vocab=0, decoder_layers=0)
        run = trace(model, [0, 0, 0], keep=KEEP, check=False)  # padding alone: all are masked
        found = chain(run, "encoder", 0, 1, 2, 1)
        assert kinds(found) == ["dot", "scale", "mask", "softmax"]
        assert step(found, "mask").result == pytest.approx(fill)
        assert found.steps[-1].result == pytest.approx(expected, nan_ok=True), fill


def test_a_temperature_divides_what_came_before_and_none_takes_the_largest():
    clean = chain(trace_model(), "cross", 1, 1, 2, 4)
    warm = chain(trace_model(Temperature(value=2.5, block="cross", layer=1)), "cross", 1, 1, 2, 4)
    assert kinds(warm) == ["dot", "scale", "temperature", "softmax"]
    assert step(warm, "dot").result == pytest.approx(step(clean, "dot").result)
    assert step(warm, "temperature").amount == 2.5
    result = step(clean, "scale").result / 2.5
    assert step(warm, "temperature").result == pytest.approx(result)
    assert warm.steps[-1].result == pytest.approx(softmax(clean.scores / 2.5)[4], rel=1e-5)
    run = trace_model(Temperature(value=0.0))
    best = int(run.attention("cross", 0)[0, 2].argmax())
    won, lost = (chain(run, "cross", 0, 0, 2, key) for key in (best, (best + 1) % 7))
    assert kinds(won) == kinds(lost) == ["dot", "scale", "hard"]
    assert (won.steps[-1].result, lost.steps[-1].result) == (1.0, 0.0)
    assert won.steps[-1].most == pytest.approx(step(won, "scale").result, rel=1e-5)


def test_what_hides_a_cell():
    run = trace_model(Window(radius=1))
    out = chain(run, "encoder", 0, 1, 2, 5)
    assert kinds(out) == ["dot", "scale", "mask", "softmax"]
    assert step(out, "mask").why == "an edit: sees 1 word to each side"
    assert out.steps[-1].result == 0
    inside = chain(run, "encoder", 0, 1, 2, 3)  # the others share the row
    assert step(inside, "seen").amount == 4
    assert inside.steps[-1].result == pytest.approx(softmax(inside.scores[1:4])[2], rel=1e-6)
    found = chain(trace_model(BlockKeys(keys=tuple(range(7)), block="cross")), "cross", 0, 1, 2, 4)
    assert kinds(found) == ["dot", "scale", "mask", "nothing"]
    assert found.steps[-1].result == 0 and not found.seen.any()
    site = Site("decoder", "self", 0, 1)
    edits = (Causal(on=True), Window(radius=4), BlockKeys(keys=(2,)), BlockEdges(edges=((3, 1),)))
    plan = HeadPlan.at(Intervention(edits), site)
    for cell, place in {(0, 1): 0, (6, 1): 1, (3, 2): 2, (3, 1): 3}.items():
        assert plan.hidden_by(*cell) == edits[place], cell
    assert plan.hidden_by(3, 0) is None
    cross = Intervention((Causal(on=True), Window(radius=None)))
    assert HeadPlan.at(cross, Site("decoder", "cross", 0, 1)).hidden_by(0, 5) is None
    assert HeadPlan.at(Intervention((Causal(on=False),)), site).hidden_by(0, 5) is None


def test_a_head_that_is_scaled_and_one_that_is_even():
    clean = chain(trace_model(), "cross", 0, 1, 2, 4)
    scaled = chain(trace_model(ScaleHead(value=0.25)), "cross", 0, 1, 2, 4)
    # the edit changes what lies below the cross-attention too, so its own softmax is the witness
    assert kinds(scaled) == [*kinds(clean), "head"]
    expected = softmax(scaled.scores)[4]
    assert step(scaled, "softmax").result == pytest.approx(expected, rel=1e-6)
    assert scaled.steps[-1].result == pytest.approx(0.25 * expected, rel=1e-6)
    assert scaled.steps[-1].result == pytest.approx(float(scaled.weights[4]), rel=1e-5)
    run = trace_model(UniformHead(block="self"))
    found, hidden = (chain(run, "decoder", 0, 1, 2, key) for key in (1, 4))
    assert kinds(found) == ["dot", "scale", "seen", "even"]
    assert found.steps[-1].amount == 3 and found.steps[-1].result == pytest.approx(1 / 3)
    assert kinds(hidden)[-2:] == ["mask", "even"] and hidden.steps[-1].result == 0


class Odd(nn.Module):
    """One self-attention whose scores are made in a way of its own."""

    def __init__(self, way: str):
        super().__init__()
        self.way, self.num_heads = way, 2
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(22, 22) for _ in range(4))
        self.own = nn.Parameter(torch.empty(2, 1, 1))

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (2, 11)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        weights = torch.softmax(self.scores(q, k, q @ k.mT), -1)
        weights = weights * 0.5 if self.way == "after" else weights
        return x + self.wo((weights @ v).transpose(1, 2).flatten(2))

    def scores(self, q, k, dots):
        places = torch.arange(q.shape[2])
        bias = (places[:, None] - places).abs() * -0.25
        ways = {
            "cap": lambda: 3 * torch.tanh(dots / 7 / 3) + bias,
            "first": lambda: (dots + bias) * 0.3,
            "heads": lambda: dots * (self.own + 2) + bias,
            "content": lambda: dots * 0.3 + q.sum(-1, keepdim=True) * k.mean(-1)[:, :, None],
            "row": lambda: dots * 0.3 - dots.amax(-1, keepdim=True),
            "bent": lambda: torch.nn.functional.softplus(dots),
            "after": lambda: dots * 0.3,
            "in place": lambda: dots.div_(2).mul_(torch.tensor(0.5)),
        }
        return ways[self.way]()


QUERY, KEY, HEAD = 3, 1, 1
DISTANCE = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))


def told(way: str, expected: str, *edits: Edit) -> tuple[QKSteps, np.ndarray, Trace]:
    """Return the chain of one cell of an odd module, its q·k of one query, and the run.

    The kinds of the chain, its start and its end are checked: q·k by hand in float64, the map.
    """
    module = ramp(Odd(way)).eval()
    x = torch.sin(torch.arange(5 * 22, dtype=torch.float64) * 0.83 + 0.2).view(1, 5, 22)
    words = {"keep": KEEP, "check": False, "intervention": Intervention(edits)}
    run = trace(load(module), x[0].float().numpy(), **words)
    with torch.inference_mode():
        module.double()
        q, k = (w(x)[0].unflatten(-1, (2, 11)).transpose(0, 1) for w in (module.wq, module.wk))
    dots = (q @ k.mT).numpy()[HEAD, QUERY]
    found = chain(run, "encoder", 0, HEAD, QUERY, KEY)
    assert kinds(found) == expected.split(), way
    assert found.steps[0].result == pytest.approx(dots[KEY], rel=1e-5), way
    shown = float(run.attention("encoder", 0)[HEAD, QUERY, KEY])
    assert found.steps[-1].result == pytest.approx(shown, rel=1e-5), way
    return found, dots, run


def test_scores_with_a_cap_a_bias_or_a_scale_of_each_head():
    found, dots, _ = told("cap", "dot scale cap bias softmax")
    capped = 3 * np.tanh(dots / 21)
    assert step(found, "scale").amount == pytest.approx(1 / 7)
    assert step(found, "cap").amount == pytest.approx(3)
    assert step(found, "cap").result == pytest.approx(capped[KEY], rel=1e-5)
    assert step(found, "bias").amount == pytest.approx(-0.5)
    biased = capped - 0.25 * DISTANCE[QUERY]
    assert found.steps[-1].result == pytest.approx(softmax(biased)[KEY], rel=1e-5)
    warm = Temperature(value=2.0)
    found, *_ = told("cap", "dot scale cap bias temperature softmax", warm)
    assert step(found, "temperature").result == pytest.approx(biased[KEY] / 2, rel=1e-5)
    # a bias that is added before the scale is scaled too
    found, dots, run = told("first", "dot scale bias softmax")
    assert step(found, "bias").amount == pytest.approx(-0.15, rel=1e-5)
    np.testing.assert_allclose(run.positions["bias.encoder.0"][HEAD], -0.075 * DISTANCE, rtol=1e-5)
    expected = softmax(0.3 * (dots - 0.25 * DISTANCE[QUERY]))
    assert found.steps[-1].result == pytest.approx(expected[KEY], rel=1e-5)
    found, *_ = told("heads", "dot scale bias softmax")
    own = float(ramp(Odd("heads")).own.detach()[HEAD, 0, 0])
    assert step(found, "scale").amount == pytest.approx(own + 2, rel=1e-5)
    assert "found from all scores of this head" in step(found, "scale").why


def test_terms_that_are_no_bias_are_named_and_shown():
    found, dots, run = told("content", "dot scale other softmax")
    score = run.block("encoder", 0).scores[HEAD, QUERY, KEY]
    assert step(found, "other").amount == pytest.approx(score - 0.3 * dots[KEY], rel=1e-4)
    assert step(found, "other").result == pytest.approx(score, rel=1e-6)
    # what a whole row shares is no term of one word
    found, dots, _ = told("row", "dot scale row softmax")
    assert step(found, "row").amount == pytest.approx(-dots.max(), rel=1e-5)
    # a score that is bent keeps its sum open
    found, dots, _ = told("bent", "dot scale other softmax")
    assert step(found, "scale").amount == 1.0 and "not one number" in step(found, "scale").why
    assert step(found, "other").result == pytest.approx(np.logaddexp(0, dots[KEY]), rel=1e-4)
    # weights that change after the softmax
    found, *_ = told("after", "dot scale softmax after")
    half = step(found, "softmax").result / 2
    assert step(found, "after").amount == pytest.approx(-half, rel=1e-5)


def test_where_a_scale_comes_from():
    for scale, width, words in (
        (0.125, 64, "1/√dₖ: dₖ, the width of q and k, is 64"),
        (24**-0.5, 8, "1/√24, the model's own choice; q and k have width 8"),
        (1.0, 64, "nothing is multiplied here"),
        (1.0, 1, "nothing is multiplied here"),
        (0.3, 7, "a number of the model's own"),
        (-2.0, 7, "a number of the model's own"),
    ):
        assert scale_source(scale, width).startswith(words), (scale, width)
    found, *_ = told("in place", "dot scale softmax")  # multiplied in place and as tensors
    assert step(found, "scale").amount == 0.25
    run = trace_model()  # where the number was not recorded
    bare = tuple(replace(a, scale=None) for a in run.attentions)
    found = chain(replace(run, attentions=bare), "decoder", 1, 0, 3, 1)
    assert step(found, "scale").amount == pytest.approx(1 / math.sqrt(11), rel=1e-5)


def test_what_was_not_kept_and_what_is_not_there(tiny_model):
    run = trace(tiny_model, SOURCE, TARGET, keep=("scores",), check=False)
    said = r'keep=\("scores", "qkv"\)'
    refuses(said, chain, run, "cross", 0, 0, 0, 0, error=NoProduct)
    run = trace_model()
    for words, place in (
        ((0, 2, 0, 0), "heads 0 to 1; got 2"),
        ((9, 0, 0, 0), "no layer 9"),
        ((0, 0, 5, 0), "rows 0 to 4"),
        ((0, 0, 0, -1), "columns 0 to 6"),
    ):
        refuses(place, chain, run, "cross", *words, error=LookupError)


def test_a_saved_run_tells_the_same(tmp_path):
    run = trace_model(Temperature(value=2.0))
    run.save(tmp_path / "run.safetensors")
    again = Trace.load(tmp_path / "run.safetensors")
    assert again.block("cross", 1).scale == run.block("cross", 1).scale == 11**-0.5
    assert again.block("cross", 1).cap is None
    was, now = (chain(one, "cross", 1, 1, 2, 4) for one in (run, again))
    assert was.steps == now.steps and was.notes == now.notes


def test_rotary_queries_and_keys_are_shown_after_their_turn():
    run = trace_model(positions="rotary", d_k=12)
    found = chain(run, "encoder", 0, 1, 2, 4)
    assert "rotary" in found.notes[0] and kinds(found) == ["dot", "scale", "softmax"]
    q, k, _ = vectors(make_model(positions="rotary", d_k=12), "encoder", 0, 1)
    unturned = q[2] @ k[4] / math.sqrt(12)
    assert abs(step(found, "scale").result - unturned) > 0.01  # q and k by hand are not turned
    score = run.block("encoder", 0).scores[1, 2, 4]
    assert step(found, "scale").result == pytest.approx(score, rel=1e-5)
    assert chain(run, "cross", 0, 1, 2, 4).notes == ()
