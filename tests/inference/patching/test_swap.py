"""tv.swap against forward hooks, and its invariants, on models of our own with uneven weights."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import transformer_viz as tv
from tests.support.witness_models import random_gpt2
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import Intervention, SwapHead, SwapPattern, SwapStream
from transformer_viz.inference.patching import swapping

from .hooks import columns, giving, reading, seen

OWN, OTHER = [5, 17, 6, 29, 8, 3, 11], [5, 17, 23, 29, 8, 3, 12]
LONGER = [5, 17, 30, 31, 29, 8, 3, 11]  # 6 became two tokens
HELD, WORDS = [2, 7, 31, 9], (13, 21)
EXACT = 1e-6
CONFIGS = {
    "pre": {"norm": "pre"},
    "post": {"norm": "post"},
    "rotary": {"positions": "rotary", "d_v": 11, "d_k": 12},
    "additive": {"score": "additive"},
}


def ready(build: Callable[..., Model], **words: object) -> Model:
    """A random model in double precision, so that nothing but the formula can differ."""
    model = drawn(build, **words)
    model.module.double()
    return model


def drawn(build: Callable[..., Model], **words: object) -> Model:
    """A model with random weights, large enough that the source matters."""
    model, generator = build(**words), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.module.parameters():
            if parameter.dim() > 1:  # gains of norms stay near 1
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return model


def logits(model: Model, source: list[int]) -> Tensor:
    with torch.inference_mode():
        return model.module(torch.tensor([source]), torch.tensor([HELD]))[0, -1]


def gap(row: Tensor) -> float:
    return float(row[WORDS[0]] - row[WORDS[1]])


def by_hand(model: Model, own: list[int], other: list[int], patched: Tensor) -> float:
    """The formula, from logits alone."""
    start, end = gap(logits(model, own)), gap(logits(model, other))
    return (gap(patched) - start) / (end - start)


def attentions(model: Model) -> list[tuple[str, int, torch.nn.Module]]:
    found = [("encoder", n, la.self_attention) for n, la in enumerate(model.module.encoder.layers)]
    for block in ("self", "cross"):
        name = {"self": "decoder", "cross": "cross"}[block]
        for number, layer in enumerate(model.module.decoder.layers):
            found.append((name, number, getattr(layer, f"{block}_attention")))
    return found


def head_by_hooks(
    model: Model, attention: torch.nn.Module, head: int, own: list[int], rows: list[tuple[int, int]]
) -> Tensor:
    """The own run with one head's output of the other run in its place, at these rows."""
    theirs = seen(reading, attention.output, lambda: logits(model, other_of(rows, own)))
    part = columns(head, attention.heads, theirs.shape[-1])

    def change(x: Tensor) -> Tensor:
        x = x.clone()
        for mine, there in rows:
            x[:, mine, part] = theirs[:, there, part]
        return x

    with reading(attention.output, change):
        return logits(model, own)


def other_of(rows: list[tuple[int, int]], own: list[int]) -> list[int]:
    return OTHER


@pytest.mark.parametrize("name", CONFIGS)
def test_heads_are_what_hooks_give(name: str, build_model: Callable[..., Model]) -> None:
    model = ready(build_model, **CONFIGS[name])
    found = tv.swap(model, OWN, OTHER, WORDS, target=HELD)
    for part, layer, attention in attentions(model):
        count = len(OWN) if part == "encoder" else len(HELD)
        for head in range(2):
            patched = head_by_hooks(model, attention, head, OWN, [(n, n) for n in range(count)])
            wanted = by_hand(model, OWN, OTHER, patched)
            assert found.parts[part][layer, head] == pytest.approx(wanted, abs=EXACT)
    assert {name: part.shape for name, part in found.parts.items()} == {
        "encoder": (3, 2),
        "decoder": (2, 2),
        "cross": (2, 2),
    }
    assert found.grid.shape == (7, 2) and found.rows[3] == "decoder L0"
    assert found.clean == pytest.approx(gap(logits(model, OWN)), abs=EXACT)
    assert found.other == pytest.approx(gap(logits(model, OTHER)), abs=EXACT)


@pytest.mark.parametrize("name", CONFIGS)
def test_places_of_the_stream_are_what_hooks_give(
    name: str, build_model: Callable[..., Model]
) -> None:
    model = ready(build_model, **CONFIGS[name])
    found = tv.swap(model, OWN, OTHER, WORDS, "stream", target=HELD)
    for part, tokens in (("encoder", len(OWN)), ("decoder", len(HELD))):
        assert found.parts[part].shape[1] == tokens
        for layer, module in enumerate(getattr(model.module, part).layers):
            theirs = seen(giving, module, lambda: logits(model, OTHER))
            for token in range(tokens):

                def change(x: Tensor, token: int = token, theirs: Tensor = theirs) -> Tensor:
                    x = x.clone()
                    x[:, token] = theirs[:, token]
                    return x

                with giving(module, change):
                    patched = logits(model, OWN)
                wanted = by_hand(model, OWN, OTHER, patched)
                assert found.parts[part][layer, token] == pytest.approx(wanted, abs=EXACT)


def test_patterns_are_the_others_weights_times_own_values(
    build_model: Callable[..., Model],
) -> None:
    """Weights from the scores by hand, in numpy; values as the module's own map gives them."""
    model = ready(build_model)
    found = tv.swap(model, OWN, OTHER, WORDS, "patterns", target=HELD)
    for part, layer, attention in attentions(model):
        q = seen(giving, attention.query, lambda: logits(model, OTHER))[0]
        k = seen(giving, attention.key, lambda: logits(model, OTHER))[0]
        v = seen(giving, attention.value, lambda: logits(model, OWN))[0]
        for head in range(2):
            mine = columns(head, 2, q.shape[-1])
            scores = (q[:, mine] @ k[:, mine].T / math.sqrt(11)).numpy()
            if part == "decoder":
                scores[np.triu_indices(len(HELD), 1)] = -np.inf
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            there = columns(head, 2, v.shape[-1])
            z = torch.tensor(weights @ v[:, there].numpy())

            def change(x: Tensor, there: slice = there, z: Tensor = z) -> Tensor:
                x = x.clone()
                x[:, :, there] = z
                return x

            with reading(attention.output, change):
                patched = logits(model, OWN)
            wanted = by_hand(model, OWN, OTHER, patched)
            assert found.parts[part][layer, head] == pytest.approx(wanted, abs=EXACT)


def test_everything_is_one_and_nothing_is_zero(build_model: Callable[..., Model]) -> None:
    model = ready(build_model)
    for what in ("heads", "patterns", "stream"):
        found = tv.swap(model, OWN, OTHER, WORDS, what, target=HELD)
        assert found.together([]) == pytest.approx(0, abs=EXACT)
        if what == "heads":
            assert found.together([SwapHead(source=OTHER)]) == pytest.approx(1, abs=EXACT)
            alone = [SwapHead(source=OTHER, stack="decoder", block=b) for b in ("self", "cross")]
            assert found.together(alone) == pytest.approx(1, abs=EXACT)
        if what == "stream":
            for layer in range(3):
                whole = SwapStream(source=OTHER, stack="encoder", layer=layer)
                assert found.together([whole]) == pytest.approx(1, abs=EXACT)
            last = SwapStream(source=OTHER, stack="decoder", layer=1)
            assert found.together([last]) == pytest.approx(1, abs=EXACT)
            # row by row is the same as all rows
            rows = [SwapStream(source=OTHER, stack="encoder", layer=1, token=n) for n in range(7)]
            assert found.together(rows) == pytest.approx(1, abs=EXACT)


def test_one_pass_is_one_by_one_also_by_trace(build_model: Callable[..., Model]) -> None:
    """P21: each cell of the grid, alone, and as an edit of tv.trace."""
    model = ready(build_model)
    for what in ("heads", "patterns", "stream"):
        found = tv.swap(model, OWN, OTHER, WORDS, what, target=HELD)
        whole = found.other - found.clean
        for cell in found.cells:
            value = found.parts[cell.part][cell.row, cell.column]
            assert found.bench.moved([(cell.edit,)])[0] == pytest.approx(value, abs=EXACT)
            run = tv.trace(model, OWN, HELD, intervention=Intervention((cell.edit,)), check=False)
            by_trace = (gap(torch.tensor(run.logits[-1]).double()) - found.clean) / whole
            assert by_trace == pytest.approx(value, abs=1e-4)  # logits of a trace are float32


def test_tokens_without_a_counterpart_stay_and_are_said(build_model: Callable[..., Model]) -> None:
    model = ready(build_model)
    found = tv.swap(model, OWN, LONGER, WORDS, "stream", target=HELD)
    assert np.isnan(found.parts["encoder"][:, 2]).all()
    assert np.isfinite(np.delete(found.parts["encoder"], 2, axis=1)).all()
    assert any("“6”, “30”, “31”" in note for note in found.notes)
    assert len(found.ranked) == len(found.cells) - 3
    heads = tv.swap(model, OWN, LONGER, WORDS, target=HELD)
    # all that the decoder reads of the source passes its own heads
    assert heads.together([SwapHead(source=LONGER, stack="decoder")]) == pytest.approx(1, abs=EXACT)
    with pytest.raises(ValueError, match="as many tokens, or swap what the heads give"):
        tv.swap(model, OWN, LONGER, WORDS, "patterns", target=HELD)
    # a head by hooks: rows 3 to 6 of the own sentence are rows 4 to 7 of the other
    attention = model.module.encoder.layers[1].self_attention
    theirs = seen(reading, attention.output, lambda: logits(model, LONGER))
    part = columns(1, 2, theirs.shape[-1])

    def change(x: Tensor) -> Tensor:
        x = x.clone()
        x[:, :2, part] = theirs[:, :2, part]
        x[:, 3:, part] = theirs[:, 4:, part]
        return x

    with reading(attention.output, change):
        patched = logits(model, OWN)
    wanted = by_hand(model, OWN, LONGER, patched)
    assert heads.parts["encoder"][1, 1] == pytest.approx(wanted, abs=EXACT)


def test_a_swap_back_is_the_mirror_of_everything(build_model: Callable[..., Model]) -> None:
    """Exchanging the sentences exchanges 0 and 1."""
    model = ready(build_model)
    there = tv.swap(model, OWN, OTHER, WORDS, target=HELD)
    back = tv.swap(model, OTHER, OWN, WORDS, target=HELD)
    assert (there.clean, there.other) == (pytest.approx(back.other), pytest.approx(back.clean))
    assert back.together([SwapHead(source=OWN)]) == pytest.approx(1, abs=EXACT)


def test_best_names_the_largest_as_edits_and_the_table_holds_all(
    build_model: Callable[..., Model],
) -> None:
    found = tv.swap(drawn(build_model), OWN, OTHER, WORDS, target=HELD)
    best = found.best(3)
    values = sorted((v for part in found.parts.values() for v in part.ravel()), reverse=True)
    assert [round(float(v), 9) for v in values[:3]] == [
        round(float(found.parts[c.part][c.row, c.column]), 9) for c in found.ranked[:3]
    ]
    assert all(isinstance(edit, SwapHead) and edit.source == tuple(OTHER) for edit in best)
    again = Intervention.from_json(Intervention(best).to_json())
    assert again.edits == best
    assert len(found.table) == 14
    assert list(found.table) == ["part", "stack", "block", "layer", "head", "moved", "unit"]
    stream = tv.swap(drawn(build_model), OWN, OTHER, WORDS, "stream", target=HELD)
    assert list(stream.table) == ["part", "stack", "layer", "token", "word", "moved", "unit"]
    assert stream.table["word"].tolist()[:7] == [str(i) for i in OWN]
    assert found.card["sentences_hash"] == stream.card["sentences_hash"]
    assert found.card["words"] == ["13", "21"] and found.card["model_hash"]


def test_first_cells_come_at_once_and_a_stop_leaves_nothing(
    build_model: Callable[..., Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformer_viz.inference.patching import swapping

    monkeypatch.setattr(swapping, "MOST_COPIES", 3)
    model, heard = ready(build_model), []

    def tell(done: int, of: int, parts: dict[str, np.ndarray]) -> None:
        heard.append((done, of, sum(int(np.isfinite(p).sum()) for p in parts.values())))

    found = tv.swap(model, OWN, OTHER, WORDS, target=HELD, tell=tell)
    assert heard[0] == (3, 14, 3) and heard[-1] == (14, 14, 14)
    whole = tv.swap(model, OWN, OTHER, WORDS, target=HELD)
    np.testing.assert_allclose(found.grid, whole.grid, atol=EXACT)
    alone = tv.swap(model, OWN, OTHER, WORDS, target=HELD, only=["cross"])
    assert list(alone.parts) == ["cross"]
    np.testing.assert_allclose(alone.grid, whole.parts["cross"], atol=EXACT)

    def stop(done: int, of: int, parts: dict[str, np.ndarray]) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        tv.swap(model, OWN, OTHER, WORDS, target=HELD, tell=stop)


def test_the_run_before_and_behind_is_the_same(build_model: Callable[..., Model]) -> None:
    """P39: nothing of the model is changed."""
    model = drawn(build_model)
    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    clean = logits(model, OWN)
    tv.swap(model, OWN, OTHER, WORDS, target=HELD)
    assert torch.equal(clean, logits(model, OWN))
    assert all(torch.equal(before[n], v) for n, v in model.module.state_dict().items())


def test_what_makes_no_sense_is_said(build_model: Callable[..., Model]) -> None:
    model = drawn(build_model)
    for given, said in (
        ({"what": "neurons"}, "no 'neurons' to swap; choose one of heads, patterns, stream"),
        ({"words": ("7",)}, "a pair such as"),
        ({"words": (7, 7)}, "begin with the same piece"),
        ({"only": ["middle"]}, "has the parts encoder, decoder, cross; got only"),
    ):
        words = {"words": WORDS, "target": HELD} | given
        with pytest.raises(ValueError, match=said):
            tv.swap(model, OWN, OTHER, **words)
    with pytest.raises(ValueError, match="Both sentences are the same to this model"):
        tv.swap(model, OWN, OWN, WORDS)
    vectors = build_model(decoder_layers=0, source_vocab=0, target_vocab=0)
    with pytest.raises(ValueError, match="reads vectors"):
        tv.swap(vectors, np.zeros((3, 22)), np.zeros((3, 22)), WORDS)


def test_no_difference_has_no_carrier(build_model: Callable[..., Model]) -> None:
    model = drawn(build_model)
    with torch.no_grad():
        model.module.output.weight[list(WORDS)] = 0
        if model.module.output.bias is not None:
            model.module.output.bias[list(WORDS)] = 0
    with pytest.raises(ValueError, match="no difference whose carrier could be looked for"):
        tv.swap(model, OWN, OTHER, WORDS, target=HELD)


def test_a_pattern_of_one_row_moves_that_row_alone(build_model: Callable[..., Model]) -> None:
    model = drawn(build_model)
    clean, other = (tv.trace(model, ids, HELD, check=False) for ids in (OWN, OTHER))
    edit = SwapPattern(source=OTHER, stack="encoder", layer=0, head=1, token=4)
    run = tv.trace(model, OWN, HELD, intervention=Intervention((edit,)), check=False)
    maps = [one.attention("encoder", layer=0) for one in (clean, other, run)]
    wanted = maps[0].copy()
    wanted[1, 4] = maps[1][1, 4]
    np.testing.assert_array_equal(maps[2], wanted)


def test_a_swap_says_how_many_of_its_passes_are_done_and_may_be_ended(monkeypatch) -> None:
    monkeypatch.setattr(swapping, "MOST_COPIES", 5)  # so that several passes are needed
    module, passes = random_gpt2(), [0]
    module.register_forward_pre_hook(lambda *_: passes.__setitem__(0, passes[0] + 1))
    model, told = tv.load(module), []

    def tell(done: int, of: int) -> None:
        told.append((done, of, passes[0]))

    found = tv.swap(model, [5, 17, 6], [5, 19, 6], on_progress=tell)
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
            tv.swap(model, [5, 17, 6], [5, 19, 6], on_progress=stop)
