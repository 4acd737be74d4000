"""tv.swap on models whose carrying head is known, and on modules of other code bases."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers

import transformer_viz as tv
from tests.support import witness_models
from transformer_viz.core.interventions import SwapHead, SwapStream

from .hooks import columns, reading, replacing, seen

EXACT = 1e-6
#: BOS, a word and what followed it, other words, and the word again: what followed is said.
OWN, OTHER = [0, 4, 7, 9, 11, 13, 4], [0, 4, 8, 9, 11, 13, 4]
#: The same words, and another one of them again.
ASKED = [0, 4, 7, 9, 11, 13, 9]
W = [["shift1", "duplicate", "sink", "uniform"], ["induction", "shift0", "uniform", "sink"]]


def only(part: np.ndarray, place: tuple[int, int]) -> bool:
    """Whether one cell is 1 and all others are 0."""
    wanted = np.zeros_like(part)
    wanted[place] = 1
    return bool(np.abs(part - wanted).max() < EXACT)


@pytest.mark.slow
def test_the_head_that_carries_is_the_written_one():
    """An induction head copies what followed: it alone carries the difference, in any order."""
    for seed in (None, 0, 1, 2):
        written = witness_models.gpt2(W, gain=4.0, seed=seed)
        carrier, given = (1, written.place(1, 0)), (written.module, OWN, OTHER, (7, 8))
        heads = tv.swap(*given, target=[])
        assert list(heads.parts) == ["decoder"]
        assert only(heads.parts["decoder"], carrier), seed
        assert heads.best(1)[0].head == carrier[1], seed
        # it looks at the same place in both, and finds another word there
        assert np.abs(tv.swap(*given, "patterns", target=[]).grid).max() < EXACT, seed
        # the word stands at its own place up to the head, and at the last one behind it
        wanted = np.zeros((2, len(OWN)))
        wanted[0, 2] = wanted[1, -1] = 1
        stream = tv.swap(*given, "stream", target=[])
        np.testing.assert_allclose(stream.grid, wanted, atol=EXACT)
        # with another word asked about, the same head differs in where it looks
        for what in ("heads", "patterns"):
            found = tv.swap(written.module, OWN, ASKED, (7, 11), what, target=[])
            assert only(found.parts["decoder"], carrier), (seed, what)


def test_two_copies_carry_half_each_and_all_together():
    module = witness_models.importance(gain=1.0, copies=2).module
    heads = tv.swap(module, OWN, OTHER, (7, 8), target=[])
    assert heads.parts["decoder"][1, :2] == pytest.approx(0.5, abs=EXACT)
    assert np.abs(np.delete(heads.grid.ravel(), [4, 5])).max() < EXACT
    place = {"stack": "decoder", "block": "self", "layer": 1}
    pair = [SwapHead(source=OTHER, head=head, **place) for head in (0, 1)]
    assert heads.together(pair) == pytest.approx(1, abs=EXACT)


SIZES = {"hidden_size": 24, "intermediate_size": 31, "num_hidden_layers": 2}
SIZES |= {"max_position_embeddings": 32, "initializer_range": 0.5}
BART = {f"{stack}_{name}": n for stack in ("encoder", "decoder")
        for name, n in (("layers", 2), ("attention_heads", 3), ("ffn_dim", 31))}  # fmt: skip
BART |= {"d_model": 24, "max_position_embeddings": 32, "init_std": 0.5, "pad_token_id": 1}
BART |= {"decoder_start_token_id": 2, "bos_token_id": 0, "eos_token_id": 2}
T5 = {"d_model": 24, "d_kv": 8, "d_ff": 31, "num_layers": 2, "num_heads": 3}
T5 |= {"decoder_start_token_id": 0, "initializer_factor": 3.0}
GPTJ = {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 32, "rotary_dim": 4}
LLAMA = SIZES | {"num_attention_heads": 4, "num_key_value_heads": 2}
#: Class, words of its configuration, and the stack where there is but one. In GPT-J attention and
#: feed-forward run side by side: one sum behind both.
FAMILIES = {
    "Bart": ("ForConditionalGeneration", BART, None),
    "Llama": ("ForCausalLM", LLAMA, "decoder"),
    "Bert": (
        "ForSequenceClassification",
        SIZES | {"num_attention_heads": 3, "num_labels": 5},
        None,
    ),
    "T5": ("ForConditionalGeneration", T5, None),
    "GPTJ": ("ForCausalLM", GPTJ | {"initializer_range": 0.5}, "decoder"),
}


def loaded(name: str) -> tv.Model:
    kind, words, _ = FAMILIES[name]
    torch.manual_seed(1)
    config = getattr(transformers, f"{name}Config")(vocab_size=37, **words)
    return tv.load(getattr(transformers, f"{name}{kind}")(config).double().eval())


@pytest.mark.families
@pytest.mark.parametrize("name", FAMILIES)
def test_everything_is_one_in_modules_of_other_code_bases(name):
    model, lone = loaded(name), FAMILIES[name][2]
    held = {} if name == "Bert" else {"target": [] if lone else [2, 7, 9]}
    for what in ("heads", "patterns", "stream"):
        found = tv.swap(model, OWN, OTHER, (3, 4), what, **held)
        assert np.isfinite(found.grid[:, :3]).all(), what
        whole = []
        if what == "heads" and name in ("Bart", "T5"):
            # all that differs between two runs of a decoder comes from its own heads
            whole = [SwapHead(source=OTHER, stack="decoder")]
        if what == "stream":
            stack = lone or "encoder"
            whole = [SwapStream(source=OTHER, stack=stack, layer=layer) for layer in range(2)]
        for edit in whole:
            assert found.together([edit]) == pytest.approx(1, abs=EXACT), edit
        ones = [found.bench.moved([(cell.edit,)])[0] for cell in found.cells]
        many = [found.parts[c.part][c.row, c.column] for c in found.cells]
        np.testing.assert_allclose(ones, many, atol=EXACT)


@pytest.mark.families
def test_shared_values_are_swapped_per_query_head():
    """Grouped queries against a hook before the output projection."""
    model = loaded("Llama")
    found = tv.swap(model, OWN, OTHER, (3, 4), target=[])

    def gap(ids: list[int]) -> float:
        with torch.inference_mode():
            row = model.module(torch.tensor([ids])).logits[0, -1]
        return float(row[3] - row[4])

    start, end = gap(OWN), gap(OTHER)
    for layer, block in enumerate(model.module.model.layers):
        projection = block.self_attn.o_proj
        theirs = seen(reading, projection, lambda: gap(OTHER))
        for head in range(4):
            with reading(projection, replacing(theirs, ..., columns(head, 4, 24))):
                wanted = (gap(OWN) - start) / (end - start)
            assert found.parts["decoder"][layer, head] == pytest.approx(wanted, abs=EXACT)


def test_tokens_that_come_first_are_told_apart():
    """A core whose tensors are [token, item, width]: the stream is turned."""
    torch.manual_seed(2)
    layer = torch.nn.TransformerEncoderLayer(24, 3, 31, dropout=0.0)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    core = torch.nn.Transformer(24, 3, 2, 2, 31, dropout=0.0, custom_encoder=encoder)

    class Speaker(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.core = torch.nn.Embedding(37, 24), core
            self.head = torch.nn.Linear(24, 37)

        def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            ahead = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
            read = (self.words(ids).transpose(0, 1) for ids in (source, target))
            return self.head(self.core(*read, tgt_mask=ahead).transpose(0, 1))

    model = tv.load(Speaker().double().eval(), kind="encoder-decoder", bos_id=2)
    found = tv.swap(model, OWN, OTHER, (3, 4), "stream", target=[2, 7, 9])
    for layer in range(2):
        edit = SwapStream(source=OTHER, stack="encoder", layer=layer)
        assert found.together([edit]) == pytest.approx(1, abs=EXACT)
    assert np.abs(found.parts["encoder"][:, 2]).max() > 0.01
