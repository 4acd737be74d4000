"""Weights from anywhere become a trace: arrays, layouts, tokens, facts, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import transformer_viz as tv
from transformer_viz.core.given.facts import given_facts
from transformer_viz.core.trace_parts import Report

WORDS = ["[CLS]", "the", "cat", "##s", "the", "[SEP]", "[PAD]"]
LAYERS, HEADS = 3, 5


def rows(*shape: int, seed: int = 0) -> np.ndarray:
    """Random rows that sum to 1, float32."""
    made = np.random.default_rng(seed).random(shape) + 0.01
    return (made / made.sum(-1, keepdims=True)).astype(np.float32)


WEIGHTS = rows(LAYERS, HEADS, 7, 7)


class Dlpack:
    """An array that knows nothing but the protocol."""

    def __init__(self, array: np.ndarray):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __dlpack__(self, **words: Any) -> Any:
        return self.array.__dlpack__(**words)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Protocol(Dlpack):
    """An array such as JAX's: numpy asks it."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.array, dtype)


KINDS: dict[str, Any] = {
    "numpy stack": WEIGHTS,
    "float64": WEIGHTS.astype(np.float64),
    "numpy list": list(WEIGHTS),
    "batched list": [layer[None] for layer in WEIGHTS],
    "batched stack": WEIGHTS[:, None],
    "plain lists": WEIGHTS.tolist(),
    "tuple of lists": tuple(layer[None].tolist() for layer in WEIGHTS),
    "torch tuple": tuple(torch.tensor(layer)[None] for layer in WEIGHTS),
    "torch stack": torch.tensor(WEIGHTS),
    "with a graph": [torch.tensor(layer, requires_grad=True) * 1 for layer in WEIGHTS],
    "protocol": [Protocol(layer) for layer in WEIGHTS],
    "dlpack": [Dlpack(layer[None]) for layer in WEIGHTS],
    "lists of tensors": [[torch.tensor(head) for head in layer] for layer in WEIGHTS],
}


def test_every_kind_of_array_gives_the_same_numbers() -> None:
    for kind, weights in KINDS.items():
        found = tv.from_attentions(weights, WORDS)
        assert np.array_equal(found.attention("encoder"), WEIGHTS), kind
        assert found.maps == ("encoder",) and found.layers("encoder") == LAYERS, kind
    for one in (WEIGHTS[0], WEIGHTS[0].tolist()):  # one layer alone
        assert tv.from_attentions(one, WORDS).attention("encoder").shape == (1, HEADS, 7, 7)
    for dtype in (torch.float16, torch.bfloat16):
        half = torch.tensor(WEIGHTS).to(dtype)
        found = tv.from_attentions(list(half), WORDS)
        assert np.array_equal(found.attention("encoder"), half.float().numpy()), dtype
        assert found.manifest["dtype"] == str(dtype).removeprefix("torch.")
        exact = half.double().sum(-1).sub(1).abs().max().item()
        assert found.report.row_sum_error == pytest.approx(exact) and exact > 1e-4, dtype
    mine = WEIGHTS.copy()
    found = tv.from_attentions(mine, WORDS)
    mine[:] = 0
    assert found.attention("encoder", 0).sum() == pytest.approx(HEADS * 7)
    with pytest.raises(ValueError, match="read-only"):
        found.attention("encoder", 0)[0] = 1


def test_layers_batches_and_maps() -> None:
    given = [rows(2, 7, 7), None, rows(3, 7, 7, seed=1), (), rows(1, 7, 7, seed=2)]
    found = tv.from_attentions(given, WORDS)
    assert list(found.head_counts("encoder")) == [2, 3, 1]
    assert found.manifest["given"]["encoder"]["layers"] == [0, 2, 4]
    assert any("those shown are 0, 2, 4" in said for said in given_facts(found))
    batch = [np.stack([layer, layer[::-1]]) for layer in WEIGHTS]
    second = tv.from_attentions(batch, WORDS, batch=1)
    assert np.array_equal(second.attention("encoder"), WEIGHTS[:, ::-1])
    with pytest.raises(ValueError, match=r"layer 0 is a batch of 2 .* batch=0 to batch=1"):
        tv.from_attentions(batch, WORDS)
    with pytest.raises(ValueError, match="batch= is 0 to 1; got 2"):
        tv.from_attentions(batch, WORDS, batch=2)
    # Three maps of a translator.
    target = ["<s>", "▁die", "▁Katze"]
    crossing, own = rows(2, 4, 3, 7), rows(2, 4, 3, 3)
    found = tv.from_attentions(
        WEIGHTS, WORDS, cross=crossing, decoder=own, target_tokens=target, name="mine"
    )
    assert found.maps == ("encoder", "decoder", "cross")
    assert found.manifest["kind"] == "encoder-decoder"
    assert np.array_equal(found.attention("cross"), crossing)
    assert len(found.tokens("target")) == 3 and "mine" in repr(found)
    alone = tv.from_attentions(None, WORDS, cross=crossing, target_tokens=target)
    assert alone.maps == ("cross",)


MASKS = (
    ("causal", lambda q, k: k <= q),
    ("causal, window of 3", lambda q, k: (k <= q) & (q - k < 3)),
    ("window of 2", lambda q, k: abs(q - k) <= 2),
    ("other", lambda q, k: (k + q) % 3 > 0),
    ("none", lambda q, k: (k < 5) & (q >= 0)),  # padding in the columns
    ("causal", lambda q, k: (k <= q) & (k > 1)),  # padding on the left
)


def test_zeros_tell_the_mask_and_the_stack() -> None:
    for mask, allowed in MASKS:
        weights = WEIGHTS * allowed(*np.indices((7, 7)))
        sums = weights.sum(-1, keepdims=True)
        weights = np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)
        found = tv.from_attentions(None, WORDS, decoder=weights)
        assert found.manifest["given"]["decoder"]["masks"] == [mask] * LAYERS
    causal = np.tril(WEIGHTS)
    causal /= causal.sum(-1, keepdims=True)
    found = tv.from_attentions(causal, WORDS)
    assert found.maps == ("decoder",) and found.manifest["kind"] == "decoder-only"
    assert found.attentions[0].query == found.attentions[0].key == "source"
    assert found.manifest["given"]["decoder"]["masks"] == ["causal"] * LAYERS
    forced = tv.from_attentions(None, WORDS, decoder=WEIGHTS)
    assert forced.maps == ("decoder",)
    assert forced.manifest["given"]["decoder"]["masks"] == ["none"] * LAYERS
    padded = WEIGHTS.copy()
    padded[:, :, 6] = 0
    found = tv.from_attentions(padded, WORDS)
    assert found.manifest["given"]["encoder"]["rows of zeros"] == [6]
    assert any("1 rows are all zeros" in said for said in given_facts(found))
    assert found.report.row_sum_error < 1e-6 and found.heads["row_sum_error"].max() < 1e-6


class Vocabulary:
    """As much of a tokenizer of transformers as is asked."""

    all_special_ids = (0, 1, 2)
    unk_token_id = 3
    pieces = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "the", "cat", "##s")

    def __len__(self) -> int:
        return len(self.pieces)

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self.pieces[i] for i in ids]

    def convert_tokens_to_ids(self, tokens: list[str]) -> list[int]:
        return [self.pieces.index(t) if t in self.pieces else 3 for t in tokens]


def test_tokens_from_strings_or_ids_and_a_tokenizer() -> None:
    source = tv.from_attentions(WEIGHTS, WORDS).source
    assert source.labels == ("[CLS]", "the", "cat", "s", "the (2)", "[SEP]", "[PAD]")
    assert source.special == (True, False, False, False, False, True, True)
    assert source.words == (0, 1, 2, 2, 3, 4, 5) and source.ids == ()
    ids = [1, 4, 5, 6, 4, 2, 0]
    for given in (ids, np.array(ids), torch.tensor([ids]), WORDS):
        found = tv.from_attentions(WEIGHTS, given, tokenizer=Vocabulary())
        assert found.source.ids == tuple(ids) and found.source.words == (0, 1, 2, 2, 3, 4, 5)
        assert found.manifest["given"]["special tokens"] == "by the tokenizer"
    with pytest.raises(ValueError, match="tokens= are ids; give the strings"):
        tv.from_attentions(WEIGHTS, ids)


def test_it_says_that_nothing_proves_it() -> None:
    found = tv.from_attentions(WEIGHTS, WORDS)
    assert found.report.status == Report.GIVEN == "given, not captured"
    assert repr(found).endswith("given, not captured>")
    assert "nothing proves that it used them" in given_facts(found)[0]
    assert given_facts(found)[-2:] == (
        "Special tokens were told by their spelling.",
        "Scores were not given, so a weight of exactly 0 is drawn as masked.",
    )
    # Rows may sum to less where that is said.
    found = tv.from_attentions(WEIGHTS * 0.5, WORDS, check_sums=False)
    assert found.report.row_sum_error == pytest.approx(0.5)
    assert "Rows are up to 0.5 away from a sum of 1." in given_facts(found)
    with pytest.raises(ValueError, match="never negative"):
        tv.from_attentions(-WEIGHTS, WORDS, check_sums=False)


def with_cell(value: float) -> np.ndarray:
    changed = WEIGHTS.astype(np.float64)
    changed[1, 2, 3, 4] = value
    return changed


REFUSED: dict[str, tuple[Any, str]] = {
    "nan": (with_cell(np.nan), "layer 1, head 2, row 3, column 4 holds nan; .*cut padding off"),
    "inf": (with_cell(np.inf), "layer 1, head 2, row 3, column 4 holds inf"),
    "negative": (with_cell(-0.2), "column 4 holds -0.2; a weight is never negative"),
    "too large": (with_cell(1.5), "column 4 holds 1.5; a weight is at most 1"),
    "sums": (with_cell(0.9), r"layer 1, head 2, row 3 sums to .* instead of 1 \(allowed: 1e-04"),
    "dropout": (WEIGHTS * 0.5, r"row \d sums to 0.5 .*model.eval"),
    "fewer rows": (WEIGHTS[..., :6, :], "layer 0, has 6 rows and 7 columns, and 7 tokens came"),
    "two axes": (WEIGHTS[0, 0], r"shape \[7, 7\]; expected \[layer, head, row, column\]"),
    "a list of matrices": ([WEIGHTS[0, 0]], r"layer 0 has the shape \[7, 7\]; expected \[head"),
    "six axes": (WEIGHTS[None, None], "has the shape"),
    "none": ((None, None), "holds no weights: fused attention"),
    "empty": ((), "holds no weights: fused attention .*attn_implementation"),
    "nothing": (None, "No weights came: give attentions="),
    "words": ([["a"]], "is no array of numbers"),
    "text": ("weights", "is no array of numbers but a str"),
    "ragged": ([[[[0.5, 0.5], [1.0]]]], "is no array of numbers"),
    "complex": (WEIGHTS.astype(np.complex64), "holds complex64, and weights are floats"),
    "no heads": (WEIGHTS[:, :0], "is empty"),
    "batch": (torch.tensor(WEIGHTS)[:, None].repeat(1, 2, 1, 1, 1), "batch of 2 sequences"),
}


TARGETS = ["<s>", "a", "b"]
SIDES: dict[str, tuple[dict[str, Any], str]] = {
    "no words": ({"tokens": []}, "tokens= is empty"),
    "one text": ({"tokens": "the cat"}, "tokens= is one text; give its tokens"),
    "missing": ({"tokens": None}, "tokens= is missing"),
    "two rows": ({"tokens": [WORDS, WORDS]}, "has 2 rows; give those of one sequence"),
    "floats": ({"tokens": [0.5] * 7}, "takes strings, or ids with tokenizer="),
    "cross alone": ({"cross": rows(2, 2, 3, 7)}, "give its tokens, the start token too"),
    "target alone": ({"target_tokens": TARGETS}, "came without decoder= or cross="),
    "both": ({"decoder": rows(2, 2, 3, 3)}, "both came without target_tokens="),
    "cross rows": (
        {"cross": rows(2, 2, 4, 7), "target_tokens": TARGETS},
        r"cross, layer 0, has 4 rows and 7 columns, and there are 3 target tokens \(the rows\)",
    ),
}


def test_what_is_no_attention_is_refused() -> None:
    """With the layer, the head and the row, and what to do."""
    for case, (weights, said) in REFUSED.items():
        with pytest.raises(ValueError, match=said):
            tv.from_attentions(weights, WORDS)
            pytest.fail(case)
    for case, (words, said) in SIDES.items():
        with pytest.raises(ValueError, match=said):
            tv.from_attentions(WEIGHTS, **({"tokens": WORDS} | words))
            pytest.fail(case)
