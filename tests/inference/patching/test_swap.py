"""tv.swap against forward hooks, and its invariants, on models of our own with uneven weights."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import transformer_viz as tv
from tests.conftest import make_model
from tests.support.refusals import refuses
from tests.support.witness_models import random_gpt2
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import Intervention, SwapHead, SwapPattern, SwapStream
from transformer_viz.inference.patching import swapping

from .hooks import columns, giving, reading, replacing, seen

OWN, OTHER = [5, 17, 6, 29, 8, 3, 11], [5, 17, 23, 29, 8, 3, 12]
LONGER = [5, 17, 30, 31, 29, 8, 3, 11]  # 6 became two tokens
HELD, WORDS = [2, 7, 31, 9], (13, 21)
EXACT = 1e-6
CONFIGS = (
    {"norm": "pre"},
    {"norm": "post"},
    {"positions": "rotary", "d_v": 11, "d_k": 12},
    {"score": "additive"},
)


def drawn(**words: object) -> Model:
    """A model with random weights, large enough that the source matters."""
    model, generator = make_model(**words), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.module.parameters():
            if parameter.dim() > 1:  # gains of norms stay near 1
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return model


def ready(**words: object) -> Model:
    """A random model in double precision, so that nothing but the formula can differ."""
    model = drawn(**words)
    model.module.double()
    return model


def swap(model: Model, *what: str, other: list[int] = OTHER, **words: object):
    return tv.swap(model, OWN, other, WORDS, *what, target=HELD, **words)


def logits(model: Model, source: list[int]) -> Tensor:
    with torch.inference_mode():
        return model.module(torch.tensor([source]), torch.tensor([HELD]))[0, -1]


def gap(row: Tensor) -> float:
    return float(row[WORDS[0]] - row[WORDS[1]])


def formula(model: Model, other: list[int] = OTHER) -> Callable[[], float]:
    """Return a function that measures the run of now between the two clean runs of before."""
    start, end = gap(logits(model, OWN)), gap(logits(model, other))
    return lambda: (gap(logits(model, OWN)) - start) / (end - start)


def attentions(model: Model) -> list[tuple[str, int, torch.nn.Module]]:
    encoder, decoder = (getattr(model.module, name).layers for name in ("encoder", "decoder"))
    found = [("encoder", n, layer.self_attention) for n, layer in enumerate(encoder)]
    found += [("decoder", n, layer.self_attention) for n, layer in enumerate(decoder)]
    return [*found, *(("cross", n, layer.cross_attention) for n, layer in enumerate(decoder))]


@pytest.mark.parametrize("number", range(len(CONFIGS)))
def test_heads_and_places_of_the_stream_are_what_hooks_give(number):
    model = ready(**CONFIGS[number])
    found, moved = swap(model), formula(model)
    for part, layer, attention in attentions(model):
        theirs = seen(reading, attention.output, lambda: logits(model, OTHER))
        for head in range(2):
            place = slice(None), slice(None), columns(head, 2, theirs.shape[-1])
            with reading(attention.output, replacing(theirs, *place)):
                wanted = moved()
            assert found.parts[part][layer, head] == pytest.approx(wanted, abs=EXACT), part
    shapes = {name: part.shape for name, part in found.parts.items()}
    assert shapes == {"encoder": (3, 2), "decoder": (2, 2), "cross": (2, 2)}
    assert found.grid.shape == (7, 2) and found.rows[3] == "decoder L0"
    assert found.clean == pytest.approx(gap(logits(model, OWN)), abs=EXACT)
    assert found.other == pytest.approx(gap(logits(model, OTHER)), abs=EXACT)
    found = swap(model, "stream")
    for part, tokens in (("encoder", len(OWN)), ("decoder", len(HELD))):
        assert found.parts[part].shape[1] == tokens
        for layer, module in enumerate(getattr(model.module, part).layers):
            theirs = seen(giving, module, lambda: logits(model, OTHER))
            for token in range(tokens):
                with giving(module, replacing(theirs, slice(None), token)):
                    wanted = moved()
                assert found.parts[part][layer, token] == pytest.approx(wanted, abs=EXACT), part


def test_patterns_are_the_others_weights_times_own_values():
    """Weights from the scores by hand, in numpy; values as the module's own map gives them."""
    model = ready()
    found, moved = swap(model, "patterns"), formula(model)
    for part, layer, attention in attentions(model):
        q = seen(giving, attention.query, lambda: logits(model, OTHER))[0]
        k = seen(giving, attention.key, lambda: logits(model, OTHER))[0]
        v = seen(giving, attention.value, lambda: logits(model, OWN))
        for head in range(2):
            mine, there = columns(head, 2, q.shape[-1]), columns(head, 2, v.shape[-1])
            scores = (q[:, mine] @ k[:, mine].T / math.sqrt(11)).numpy()
            if part == "decoder":
                scores[np.triu_indices(len(HELD), 1)] = -np.inf
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            z = torch.zeros(1, len(q), v.shape[-1], dtype=v.dtype)
            z[..., there] = torch.tensor(weights @ v[0, :, there].numpy())
            with reading(attention.output, replacing(z, ..., there)):
                wanted = moved()
            assert found.parts[part][layer, head] == pytest.approx(wanted, abs=EXACT), part


@pytest.mark.slow
def test_everything_is_one_nothing_is_zero_and_each_cell_is_its_own_run():
    """P21: each cell of the grid, alone, and as an edit of tv.trace."""
    model = ready()
    one, stream = pytest.approx(1, abs=EXACT), {"source": OTHER, "stack": "encoder"}
    alone = [SwapHead(source=OTHER, stack="decoder", block=b) for b in ("self", "cross")]
    whole = {
        "heads": [[SwapHead(source=OTHER)], alone],
        "patterns": [],
        "stream": [
            *([SwapStream(**stream, layer=layer)] for layer in range(3)),
            [SwapStream(source=OTHER, stack="decoder", layer=1)],
            [SwapStream(**stream, layer=1, token=n) for n in range(7)],  # row by row
        ],
    }
    for what, sets in whole.items():
        found = swap(model, what)
        assert found.together([]) == pytest.approx(0, abs=EXACT), what
        for edits in sets:
            assert found.together(edits) == one, edits
        for cell in found.cells:
            value = found.parts[cell.part][cell.row, cell.column]
            assert found.bench.moved([(cell.edit,)])[0] == pytest.approx(value, abs=EXACT), what
            run = tv.trace(model, OWN, HELD, intervention=Intervention((cell.edit,)), check=False)
            moved = gap(torch.tensor(run.logits[-1]).double()) - found.clean
            by_trace = moved / (found.other - found.clean)
            assert by_trace == pytest.approx(value, abs=1e-4), what  # logits of a trace are float32
    # exchanging the sentences exchanges 0 and 1
    there, back = swap(model), tv.swap(model, OTHER, OWN, WORDS, target=HELD)
    assert (there.clean, there.other) == (pytest.approx(back.other), pytest.approx(back.clean))
    assert back.together([SwapHead(source=OWN)]) == one


def test_tokens_without_a_counterpart_stay_and_are_named():
    model = ready()
    found = swap(model, "stream", other=LONGER)
    assert np.isnan(found.parts["encoder"][:, 2]).all()
    assert np.isfinite(np.delete(found.parts["encoder"], 2, axis=1)).all()
    assert any("“6”, “30”, “31”" in note for note in found.notes)
    assert len(found.ranked) == len(found.cells) - 3
    heads = swap(model, other=LONGER)
    # all that the decoder reads of the source passes its own heads
    assert heads.together([SwapHead(source=LONGER, stack="decoder")]) == pytest.approx(1, abs=EXACT)
    said = "as many tokens, or swap what the heads give"
    refuses(said, swap, model, "patterns", other=LONGER)
    # a head by hooks: rows 3 to 6 of the own sentence are rows 4 to 7 of the other
    attention = model.module.encoder.layers[1].self_attention
    theirs = seen(reading, attention.output, lambda: logits(model, LONGER))
    part, moved = columns(1, 2, theirs.shape[-1]), formula(model, LONGER)

    def change(x: Tensor) -> Tensor:
        x = x.clone()
        x[:, :2, part] = theirs[:, :2, part]
        x[:, 3:, part] = theirs[:, 4:, part]
        return x

    with reading(attention.output, change):
        wanted = moved()
    assert heads.parts["encoder"][1, 1] == pytest.approx(wanted, abs=EXACT)


def test_first_cells_come_at_once_and_a_stop_leaves_nothing(monkeypatch):
    monkeypatch.setattr(swapping, "MOST_COPIES", 3)
    model, heard = ready(), []

    def tell(done: int, of: int, parts: dict[str, np.ndarray]) -> None:
        heard.append((done, of, sum(int(np.isfinite(p).sum()) for p in parts.values())))

    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    clean = logits(model, OWN)
    found, whole = swap(model, on_grids=tell), swap(model)
    assert heard[0] == (3, 14, 3) and heard[-1] == (14, 14, 14)
    np.testing.assert_allclose(found.grid, whole.grid, atol=EXACT)
    alone = swap(model, only=["cross"])
    assert list(alone.parts) == ["cross"]
    np.testing.assert_allclose(alone.grid, whole.parts["cross"], atol=EXACT)

    def stop(done: int, of: int, parts: dict[str, np.ndarray]) -> None:
        raise RuntimeError("enough")

    refuses("enough", swap, model, on_grids=stop, error=RuntimeError)
    assert torch.equal(clean, logits(model, OWN))  # P39: nothing of the model is changed
    assert all(torch.equal(before[n], v) for n, v in model.module.state_dict().items())


def test_refusals():
    model = drawn()
    for words, said in (
        ({"what": "neurons"}, "no 'neurons' to swap; choose one of heads, patterns, stream"),
        ({"words": ("7",)}, "a pair such as"),
        ({"words": (7, 7)}, "begin with the same piece"),
        ({"only": ["middle"]}, "has the parts encoder, decoder, cross; got only"),
    ):
        refuses(said, tv.swap, model, OWN, OTHER, **({"words": WORDS, "target": HELD} | words))
    refuses("Both sentences are the same to this model", tv.swap, model, OWN, OWN, WORDS)
    vectors, zeros = make_model(decoder_layers=0, source_vocab=0, target_vocab=0), np.zeros((3, 22))
    refuses("reads vectors", tv.swap, vectors, zeros, zeros, WORDS)
    with torch.no_grad():
        model.module.output.weight[list(WORDS)] = 0
        if model.module.output.bias is not None:
            model.module.output.bias[list(WORDS)] = 0
    refuses("no difference whose carrier could be looked for", swap, model)


def test_best_edits_the_table_and_a_pattern_of_one_row():
    model = drawn()
    edit = SwapPattern(source=OTHER, stack="encoder", layer=0, head=1, token=4)
    runs = (OWN, {}), (OTHER, {}), (OWN, {"intervention": Intervention((edit,))})
    clean, other, run = (
        tv.trace(model, ids, HELD, check=False, **words).attention("encoder", layer=0)
        for ids, words in runs
    )
    wanted = clean.copy()
    wanted[1, 4] = other[1, 4]
    np.testing.assert_array_equal(run, wanted)
    found, stream = swap(drawn()), swap(drawn(), "stream")
    best = found.best(3)
    values = sorted((v for part in found.parts.values() for v in part.ravel()), reverse=True)
    ranked = [found.parts[c.part][c.row, c.column] for c in found.ranked[:3]]
    assert [round(float(v), 9) for v in values[:3]] == [round(float(v), 9) for v in ranked]
    assert all(isinstance(edit, SwapHead) and edit.source == tuple(OTHER) for edit in best)
    assert Intervention.from_json(Intervention(best).to_json()).edits == best
    assert len(found.table) == 14
    assert list(found.table) == ["part", "stack", "block", "layer", "head", "moved", "unit"]
    assert list(stream.table) == ["part", "stack", "layer", "token", "word", "moved", "unit"]
    assert stream.table["word"].tolist()[:7] == [str(i) for i in OWN]
    assert found.card["sentences_hash"] == stream.card["sentences_hash"]
    assert found.card["words"] == ["13", "21"] and found.card["model_hash"]


def test_a_swap_tells_its_passes_and_may_be_ended(monkeypatch):
    monkeypatch.setattr(swapping, "MOST_COPIES", 5)  # so that several passes are needed
    module, passes, told = random_gpt2(), [], []
    module.register_forward_pre_hook(lambda *_: passes.append(1))
    given = tv.load(module), [5, 17, 6], [5, 19, 6]
    tell = lambda done, of: told.append((done, of, len(passes)))  # noqa: E731
    found = tv.swap(*given, on_progress=tell)
    assert all(0 <= done <= of for done, of, _ in told)
    swaps = told[max(n for n in range(1, len(told)) if told[n][0] < told[n - 1][0]) :]
    count = swapping.CLEAN + -(-len(found.cells) // 5)
    assert [one[:2] for one in swaps] == [(n, count) for n in range(swapping.CLEAN, count + 1)]
    assert [one[2] - swaps[0][2] for one in swaps] == list(range(count - 1)), "a pass each"
    written = told[: -len(swaps)]
    assert written[-1][0] > written[-1][1] // 2, "the second output is written too"
    for last in range(len(swaps) + 3):
        left = [last]

        def stop(done: int, of: int, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            tv.swap(*given, on_progress=stop)
