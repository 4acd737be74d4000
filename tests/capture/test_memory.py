"""Statistics without matrices: the same numbers, and nothing large that outlives its layer."""

from __future__ import annotations

import gc
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.support.head_formulas import FORMULAS
from transformer_viz.capture import AttentionRecord, Capture, CaptureRequest, probe
from transformer_viz.capture import statistics as statistics_module
from transformer_viz.capture.handlers import fused_attention
from transformer_viz.capture.statistics import SIDE, Statistics, block_rows
from transformer_viz.capture.tiles import written_out
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

TOKENS, HEADS, WIDTH, LAYERS = 150, 7, 5, 3
PAD = 23  # so many tokens at the end are padding in masked runs


class Fused(nn.Module):
    """Three layers of PyTorch's fused attention, or the same formula written out.

    At the start of each layer ``watch`` is called: what is alive then has outlived its layer.
    """

    def __init__(self, fused: bool, watch: Callable[[], None] = lambda: None):
        super().__init__()
        torch.manual_seed(7)
        d_model = HEADS * WIDTH
        self.fused, self.watch = fused, watch
        self.inner = nn.ModuleList(nn.Linear(d_model, 3 * d_model) for _ in range(LAYERS))
        self.outer = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(LAYERS))

    def forward(self, x: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        for inner, outer in zip(self.inner, self.outer, strict=True):
            self.watch()
            x = x + outer(self.attend(inner(x), mask, causal).transpose(1, 2).flatten(2))
        self.watch()
        return x

    def attend(self, qkv: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        q, k, v = (3 * qkv).unflatten(-1, (3, HEADS, WIDTH)).permute(2, 0, 3, 1, 4)
        if self.fused:
            return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
        scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH)
        return torch.softmax(scores, dim=-1) @ v


def words(tokens: int = TOKENS) -> Tensor:
    draw = torch.Generator().manual_seed(3)
    return torch.randn(1, tokens, HEADS * WIDTH, generator=draw)


def padding() -> Tensor:
    """True where a token may be seen, ``[1, 1, query, key]``."""
    visible = torch.ones(1, 1, TOKENS, TOKENS, dtype=torch.bool)
    visible[..., -PAD:] = False
    return visible


def bias() -> Tensor:
    """A float mask: padding, and a relative bias that differs from head to head."""
    place = torch.arange(TOKENS)
    slopes = torch.linspace(0.01, 0.2, HEADS)[:, None, None]
    far = -(place[:, None] - place).abs() * slopes
    return far[None].masked_fill(~padding(), float("-inf"))


MASKS = {
    "none": ({}, Causal(on=True)),
    "causal": ({"causal": True}, Causal(on=False)),
    "padding": ({"mask": padding()}, BlockKeys(keys=(0, 5))),
    "bias": ({"mask": bias()}, BlockEdges(edges=((149, 3), (2, 2)))),
}
EDITS: dict[str, tuple[Edit, ...]] = {
    "clean": (),
    "temperature": (Temperature(value=3.0, layer=1), Temperature(value=0.0, layer=2, head=4)),
    "masks": (Window(radius=40, layer=1, head=2),),
    "heads": (ScaleHead(value=0.5, head=1), UniformHead(layer=0, head=3)),
}
LARGE = TOKENS * TOKENS


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three blocks of rows or more in a map of 150 tokens, and blocks of those."""
    monkeypatch.setattr(fused_attention, "BLOCK", 62_500)
    monkeypatch.setattr(written_out, "BLOCK", 62_500)
    monkeypatch.setattr(statistics_module, "CELLS", 25_000)


def small(site: object) -> bool:
    return False


def run(
    module: nn.Module, want: CaptureRequest, edits: tuple[Edit, ...] = (), **given: object
) -> Capture:
    with torch.inference_mode(), probe(module, Intervention(edits), want) as seen:
        module(words(), **given)
    return seen


def witness(weights: Tensor) -> dict[str, np.ndarray]:
    """The head statistics of full matrices ``[head, query, key]`` in float64, by numpy."""
    w = weights.double().numpy()
    return {name: formula(w) for name, formula in FORMULAS.items()}


def largest_of_cells(weights: np.ndarray) -> np.ndarray:
    """Max-pooling ``[..., query, key]`` to at most 64 x 64 cells, cell by cell."""
    high, wide = (math.ceil(size / SIDE) for size in weights.shape[-2:])
    rows = [weights[..., i : i + high, :].max(-2) for i in range(0, weights.shape[-2], high)]
    tall = np.stack(rows, axis=-2)
    columns = [tall[..., i : i + wide].max(-1) for i in range(0, tall.shape[-1], wide)]
    return np.stack(columns, axis=-1)


def agree(streamed: AttentionRecord, full: AttentionRecord) -> None:
    assert full.weights is not None and streamed.thumbnail is not None
    expected = witness(full.weights[0])
    assert list(streamed.statistics) == list(expected)
    for name in expected:
        got = streamed.statistics[name][0]
        close = {"rtol": 2e-5, "atol": 2e-6}
        np.testing.assert_allclose(got, expected[name], err_msg=name, **close)
    cells = largest_of_cells(full.weights[0].numpy()) * 255
    assert abs(streamed.thumbnail[0].numpy() - cells).max() <= 0.51  # rounded to whole numbers


def test_streamed_statistics_equal_those_of_full_matrices() -> None:
    module = Fused(fused=True)
    for (given, of_this_mask), (name, edits) in itertools.product(MASKS.values(), EDITS.items()):
        edits = (*edits, of_this_mask) if name == "masks" else edits
        streamed = run(module, CaptureRequest(weights=small), edits, **given)
        full = run(module, CaptureRequest(), edits, **given)
        assert len(streamed.attentions) == len(full.attentions) == LAYERS, name
        for a, b in zip(streamed.attentions, full.attentions, strict=True):
            agree(a, b)
    # Written out attention has the same statistics.
    fused = run(Fused(fused=True), CaptureRequest())
    written = run(Fused(fused=False), CaptureRequest(weights=small))
    for a, b in zip(written.attentions, fused.attentions, strict=True):
        agree(a, b)


def test_nothing_large_outlives_its_layer() -> None:
    for fused in (True, False):
        nothing_large_outlives_its_layer(fused)


def nothing_large_outlives_its_layer(fused: bool) -> None:
    alive: list[int] = []

    def look() -> None:
        sizes = (x.numel() for x in gc.get_objects() if type(x) is Tensor)
        alive.append(sum(size >= LARGE for size in sizes))

    module = Fused(fused, look)
    gc.collect()
    before = sum(x.numel() >= LARGE for x in gc.get_objects() if type(x) is Tensor)
    gc.disable()  # nothing may wait for the collector
    try:
        seen = run(module, CaptureRequest(weights=small))
    finally:
        gc.enable()
    assert alive == [before] * (LAYERS + 1)
    for record in seen.attentions:
        assert (record.weights, record.scores, record.q, record.k, record.v) == (None,) * 5


def test_statistics_in_blocks_are_those_of_the_whole() -> None:
    """Whatever the height of the blocks."""
    shapes = [(1, 1), (3, 64), (64, 65), (65, 64), (100, 200), (131, 129)]
    cases = [(*shape, block_rows(shape[0], 10)) for shape in shapes]
    cases += [(200, 131, step) for step in (1, 7, 16, 30)]
    for queries, keys, step in cases:
        draw = torch.Generator().manual_seed(queries + step)
        weights = torch.softmax(4 * torch.randn(2, 3, queries, keys, generator=draw), -1)
        whole, parts = Statistics(queries, keys, 0), Statistics(queries, keys, 0)
        whole.add(weights, 0)
        for first in range(0, queries, step):
            parts.add(weights[:, :, first : first + step], first)
        cells = (torch.from_numpy(largest_of_cells(weights.numpy())) * 255).round()
        for statistics in (whole, parts):
            assert torch.equal(statistics.thumbnail(), cells.to(torch.uint8)), (queries, keys, step)
            for batch in range(2):
                expected = witness(weights[batch])
                for name, value in statistics.result().items():
                    np.testing.assert_allclose(value[batch], expected[name], rtol=1e-5, atol=1e-6)
    # Statistics of unusual rows.
    weights = torch.eye(5)[None, None, 3:]  # the last two of five tokens, each looking at itself
    statistics = Statistics(2, 5, 3)
    statistics.add(weights, 0)
    found = statistics.result()
    assert math.copysign(1, found["entropy"].item()) == 1 and found["entropy"].item() == 0
    assert found["distance"].item() == 0 and found["max"].item() == 1
    statistics = Statistics(1, 2, 0)
    statistics.add(torch.tensor([[[[1.5, -0.5]]]]), 0)
    found = statistics.result()
    assert found["entropy"].isnan().all() and found["row_sum_error"].item() == 0


def test_only_what_was_asked_for_is_kept() -> None:
    seen = run(Fused(fused=True), CaptureRequest(weights=lambda site: site.layer == 1))
    assert [record.weights is not None for record in seen.attentions] == [False, True, False]
    for fused in (False, True):
        bare = run(Fused(fused=fused), CaptureRequest(statistics=False))
        measured = run(Fused(fused=fused), CaptureRequest())
        for record, other in zip(bare.attentions, measured.attentions, strict=True):
            assert record.statistics == {} and record.thumbnail is None and other.statistics
            assert torch.equal(record.weights, other.weights)
