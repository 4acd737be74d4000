"""Attentions in every way of writing: maps, edits and axes against plain torch on their weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_viz.capture import CaptureRequest, probe
from transformer_viz.capture.axes.atoms import of_input, reshaped, size_of
from transformer_viz.core.interventions import (
    BlockKeys,
    Causal,
    Intervention,
    ScaleHead,
    Temperature,
    Window,
)

from .styles import (
    HEADS,
    JOINED,
    PADDED,
    SIZE,
    STYLES,
    TOKENS,
    WIDTH,
    Layer,
    example,
    exponentials,
    made,
    scores,
    split,
    witness,
    written_over,
)

CASES = {
    "clean": ((), {}),
    "temperature": (
        (Temperature(value=2.5), Temperature(value=0.5, head=1)),
        {"warm": (2.5, 0.5, 2.5, 2.5)},
    ),
    "scale": (
        (ScaleHead(value=0.0, head=0), ScaleHead(value=1.5, head=1)),
        {"scale": (0.0, 1.5, 1.0, 1.0)},
    ),
    "window": ((Window(radius=1),), {"radius": 1}),
    "hide": ((BlockKeys(keys=(2,)),), {"keys": (2,)}),
    "all": (
        (Temperature(value=3.0), Window(radius=2), ScaleHead(value=0.25, head=1)),
        {"warm": (3.0,) * 4, "radius": 2, "scale": (1.0, 0.25, 1.0, 1.0)},
    ),
    "causal off": ((Causal(on=False),), {"causal": False}),
}
FULL = CaptureRequest(check=True, qkv=lambda site: True)


class Two(nn.Module):
    def __init__(self, *layers: Layer) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, padding)
        return x


@pytest.mark.slow
def test_two_layers_show_and_edit_what_plain_torch_gives() -> None:
    for style in STYLES:
        first, second = made(style), made(style)
        module, (x, padding) = Two(first, second), example(style)
        with torch.no_grad():
            plain = module(x, padding)
            for name, (edits, words) in CASES.items():
                case = style.__name__, name
                with probe(module, Intervention(edits)) as run:
                    got = module(x, padding)
                one, between = witness(first, x, padding, **words)
                other, expected = witness(second, between, padding, **words)
                for record, wanted in zip(run.attentions, (one, other), strict=True):
                    gap = float((record.weights - wanted).abs().max())
                    assert gap < 3e-6, (case, record.path, gap)
                torch.testing.assert_close(got, expected, atol=2e-5, rtol=0, msg=str(case))
                assert not run.unrecognised, case
                assert name != "clean" or style in PADDED or torch.equal(got, plain), case


def test_a_watched_clean_run_changes_nothing() -> None:
    for style in PADDED:
        layer, (x, padding) = made(style), example(style)
        with torch.inference_mode():
            plain = layer(x, padding)
            with probe(layer, want=FULL) as seen:
                out = layer(x, padding)
        torch.testing.assert_close(out, plain, atol=1e-6, rtol=0)
        (record,) = seen.attentions
        place = record.stack, record.kind, record.layer, record.heads
        assert place == ("decoder", "self", 0, HEADS), style
        assert record.rebuilt is not None and record.rebuilt < 1e-6, style
        shapes = {x.shape for x in (record.q, record.k, record.v)}
        assert shapes == {(len(x), HEADS, TOKENS, SIZE)}, style
        assert len(seen.residuals) == 2 and not seen.unrecognised, style


class Bare(nn.Module):
    """A joined style that names no number of heads."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = layer.q, layer.k, layer.v, layer.o
        self.style = layer.style

    def forward(self, x: Tensor) -> Tensor:
        return self.o(self.style(self.q(x), self.k(x), self.v(x), x))


def test_batch_and_heads_are_told_by_what_axes_are_made_of() -> None:
    for style in JOINED:
        layer = made(style)
        module = Bare(layer)
        for batch in (1, 2, HEADS):
            x, case = torch.randn(batch, TOKENS, WIDTH), (style.__name__, batch)
            with torch.no_grad(), probe(module) as run:
                watched = module(x)
            (record,) = run.attentions
            expected = witness(layer, x, None)[0].detach()
            assert record.heads == HEADS and record.weights.shape == expected.shape, case
            assert float((record.weights - expected).abs().max()) <= 1e-6, case
            with torch.no_grad():
                assert torch.equal(module(x), watched), case


def test_a_key_head_that_is_expanded_stands_once_for_each_query_head() -> None:
    torch.manual_seed(0)
    project = nn.Linear(32, 32), nn.Linear(32, SIZE), nn.Linear(32, SIZE)

    class OneKeyHead(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            q = split(project[0](x)).transpose(1, 2)
            k, v = (w(x)[:, None].expand(-1, HEADS, -1, -1) for w in project[1:])
            return torch.softmax(q @ k.mT, -1) @ v

    module, x = OneKeyHead(), torch.randn(2, TOKENS, 32)
    with torch.no_grad(), probe(module, want=FULL) as run:
        module(x)
    (record,) = run.attentions
    assert record.k.shape == record.v.shape == (2, HEADS, TOKENS, SIZE)
    torch.testing.assert_close((record.q @ record.k.mT).softmax(-1), record.weights)


def test_atoms_follow_every_reshape() -> None:
    """Law: the atoms of an axis multiply to its size; a reshape there and back is the identity."""
    axes = of_input((2, 9, 32), features=True)
    for shape in ((2, 9, 4, 8), (18, 32), (2, 3, 3, 32), (6, 3, 4, 8), (2, 288), (576,)):
        assert tuple(map(size_of, reshaped(axes, shape))) == shape
    heads = reshaped(axes, (2, 9, 4, 8))
    assert heads[2] == (("f", 4),)
    assert reshaped(heads, (2, 9, 32)) == (axes[0], axes[1], (("f", 4), ("f", 8)))
    assert reshaped(axes, (18, 32))[0] == (("a", 2), ("a", 9))
    mixed = reshaped(axes, (4, 144))  # 4 takes both items and a part of the tokens: not known
    assert {kind for one in mixed for kind, _ in one} == {"u"}
    empty = of_input((2, 0, 32), features=True)
    assert tuple(map(size_of, reshaped(empty, (0, 4, 8)))) == (0, 4, 8)


def sparse_softmax(q, k, v, _):
    flat = scores(q, k).flatten(0, 2)
    return torch.sparse.softmax(flat.to_sparse(), 1).to_dense().view(*q.shape[:3], -1) @ v


def complex_weights(q, k, v, _):
    z = scores(q, k)
    weights = z.softmax(-1) * torch.exp(1j * z)
    return (weights @ v.to(weights.dtype)).real


def never_divided(q, k, v, _):
    y = exponentials(q, k) @ F.pad(v, (0, 1), value=1.0)
    return y[..., :-1] + y[..., -1:]


def test_what_has_no_map_is_said_and_the_output_stays() -> None:
    for style in (sparse_softmax, complex_weights, never_divided):
        layer, x = made(style), torch.randn(1, TOKENS, WIDTH)
        with torch.no_grad():
            plain = layer(x)
            with probe(layer) as run:
                got = layer(x)
            assert torch.equal(got, plain) and not run.attentions, style
            assert len(run.unrecognised) == 1, run.unrecognised
            with pytest.raises(ValueError), probe(layer, Intervention((Temperature(value=2.0),))):
                layer(x)


class Windows(Layer):
    """Windows of 3 queries that look at 5 keys, with batch, windows and heads on one axis."""

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        asks = x.view(-1, 3, width)
        told = F.pad(x, (0, 0, 1, 1)).unfold(1, 5, 3).mT.reshape(-1, 5, width)
        q, k, v = (
            f(y).unflatten(-1, (HEADS, SIZE)).transpose(1, 2).flatten(0, 1)
            for f, y in ((self.q, asks), (self.k, told), (self.v, told))
        )
        z = torch.einsum("bid,bjd->bij", q, k) * SIZE**-0.5
        y = torch.einsum("bij,bjd->bid", z.softmax(-1), v).unflatten(0, (-1, HEADS))
        return self.o(y.transpose(1, 2).flatten(2).view(batch, tokens, width))


def test_windows_and_towers() -> None:
    torch.manual_seed(0)
    layer, x = Windows(written_over).eval(), torch.randn(2, TOKENS, WIDTH)
    with torch.no_grad(), probe(layer) as run:
        layer(x)
    padded = F.pad(x, (0, 0, 1, 1))
    for item in range(2):
        for window in range(3):
            part, told = x[item, 3 * window :][:3], padded[item, 3 * window :][:5]
            q, k = layer.q(part).view(3, HEADS, -1), layer.k(told).view(5, HEADS, -1)
            wanted = scores(q.transpose(0, 1), k.transpose(0, 1)).softmax(-1)
            got = run.attentions[0].weights[3 * item + window]
            assert torch.allclose(got, wanted, atol=1e-6), (item, window)

    # The layers of a second tower are counted on in each pass.
    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = (
                nn.Sequential(Layer(written_over), Layer(written_over)) for _ in range(2)
            )

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat((self.left(x), self.right(x)), -1)

    module, x = Towers(), torch.randn(1, TOKENS, WIDTH)
    with torch.no_grad(), probe(module) as run:
        module(x)
        module(x)
    assert [record.layer for record in run.attentions] == [0, 1, 2, 3] * 2
