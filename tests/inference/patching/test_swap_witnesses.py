"""tv.swap on models whose carrying head is known, and on other people's modules."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import transformer_viz as tv
from tests.support import witness_models
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import SwapHead, SwapStream

from .hooks import columns, reading, seen

EXACT = 1e-6
#: BOS, a word and what followed it, other words, and the word again: what followed is said.
OWN, OTHER = [0, 4, 7, 9, 11, 13, 4], [0, 4, 8, 9, 11, 13, 4]
#: The same words, and another one of them again.
ASKED = [0, 4, 7, 9, 11, 13, 9]


def only(part: np.ndarray, place: tuple[int, int]) -> bool:
    """Whether one cell is 1 and all others are 0."""
    wanted = np.zeros_like(part)
    wanted[place] = 1
    return bool(np.abs(part - wanted).max() < EXACT)


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_the_head_that_carries_is_the_written_one(seed: int | None) -> None:
    """An induction head copies what followed: it alone carries the difference, in any order."""
    written = witness_models.gpt2(
        [["shift1", "duplicate", "sink", "uniform"], ["induction", "shift0", "uniform", "sink"]],
        gain=4.0,
        seed=seed,
    )
    carrier = (1, written.place(1, 0))
    heads = tv.swap(written.module, OWN, OTHER, (7, 8), target=[])
    assert list(heads.parts) == ["decoder"]
    assert only(heads.parts["decoder"], carrier)
    assert heads.best(1)[0].head == carrier[1]
    # it looks at the same place in both, and finds another word there
    patterns = tv.swap(written.module, OWN, OTHER, (7, 8), "patterns", target=[])
    assert np.abs(patterns.grid).max() < EXACT
    # the word stands at its own place up to the head, and at the last one behind it
    stream = tv.swap(written.module, OWN, OTHER, (7, 8), "stream", target=[])
    wanted = np.zeros((2, len(OWN)))
    wanted[0, 2] = wanted[1, -1] = 1
    np.testing.assert_allclose(stream.grid, wanted, atol=EXACT)


@pytest.mark.parametrize("seed", [None, 3])
def test_where_it_looks_carries_what_is_asked(seed: int | None) -> None:
    """With another word asked about, the same head differs in where it looks."""
    written = witness_models.gpt2(
        [["shift1", "duplicate", "sink", "uniform"], ["induction", "shift0", "uniform", "sink"]],
        gain=4.0,
        seed=seed,
    )
    carrier = (1, written.place(1, 0))
    for what in ("heads", "patterns"):
        found = tv.swap(written.module, OWN, ASKED, (7, 11), what, target=[])
        assert only(found.parts["decoder"], carrier)


def test_two_copies_carry_half_each_and_all_together() -> None:
    module = witness_models.importance(gain=1.0, copies=2).module
    heads = tv.swap(module, OWN, OTHER, (7, 8), target=[])
    both = heads.parts["decoder"][1, :2]
    assert both[0] == pytest.approx(both[1], abs=EXACT)
    others = np.delete(heads.grid.ravel(), [4, 5])
    assert np.abs(others).max() < EXACT
    pair = [
        SwapHead(source=OTHER, stack="decoder", block="self", layer=1, head=head) for head in (0, 1)
    ]
    assert heads.together(pair) == pytest.approx(1, abs=EXACT)
    assert both[0] == pytest.approx(0.5, abs=EXACT)


def bart() -> torch.nn.Module:
    import transformers

    config = transformers.BartConfig(
        vocab_size=37,
        d_model=24,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=3,
        decoder_attention_heads=3,
        encoder_ffn_dim=31,
        decoder_ffn_dim=31,
        max_position_embeddings=32,
        init_std=0.5,
        pad_token_id=1,
        decoder_start_token_id=2,
        bos_token_id=0,
        eos_token_id=2,
    )
    return transformers.BartForConditionalGeneration(config)


def llama() -> torch.nn.Module:
    """Four query heads share two keys and values."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=37,
        hidden_size=24,
        intermediate_size=31,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        initializer_range=0.5,
    )
    return transformers.LlamaForCausalLM(config)


def bert() -> torch.nn.Module:
    import transformers

    config = transformers.BertConfig(
        vocab_size=37,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=31,
        max_position_embeddings=32,
        num_labels=5,
        initializer_range=0.5,
    )
    return transformers.BertForSequenceClassification(config)


def t5() -> torch.nn.Module:
    import transformers

    config = transformers.T5Config(
        vocab_size=37,
        d_model=24,
        d_kv=8,
        d_ff=31,
        num_layers=2,
        num_heads=3,
        decoder_start_token_id=0,
        initializer_factor=3.0,
    )
    return transformers.T5ForConditionalGeneration(config)


def gptj() -> torch.nn.Module:
    """Attention and feed-forward run side by side: one sum behind both."""
    import transformers

    config = transformers.GPTJConfig(
        vocab_size=37,
        n_embd=24,
        n_layer=2,
        n_head=3,
        n_positions=32,
        rotary_dim=4,
        initializer_range=0.5,
    )
    return transformers.GPTJForCausalLM(config)


FAMILIES = {"bart": bart, "llama": llama, "bert": bert, "t5": t5, "gptj": gptj}
LONE = {"llama": "decoder", "gptj": "decoder"}


@pytest.fixture(scope="module")
def modules() -> dict[str, Model]:
    found = {}
    for name, build in FAMILIES.items():
        torch.manual_seed(1)
        found[name] = tv.load(build().double().eval())
    return found


@pytest.mark.families
@pytest.mark.parametrize("name", FAMILIES)
def test_everything_is_one_in_other_peoples_modules(name: str, modules: dict[str, Model]) -> None:
    model, words = modules[name], (3, 4)
    held = {} if name == "bert" else {"target": [] if name in LONE else [2, 7, 9]}
    for what in ("heads", "patterns", "stream"):
        found = tv.swap(model, OWN, OTHER, words, what, **held)
        assert np.isfinite(found.grid[:, :3]).all()
        if what == "heads" and name not in ("llama", "gptj", "bert"):
            # all that differs between two runs of a decoder comes from its own heads
            edit = SwapHead(source=OTHER, stack="decoder")
            assert found.together([edit]) == pytest.approx(1, abs=EXACT)
        if what == "stream":
            stack = LONE.get(name, "encoder")
            for layer in range(2):
                edit = SwapStream(source=OTHER, stack=stack, layer=layer)
                assert found.together([edit]) == pytest.approx(1, abs=EXACT)
        ones = [found.bench.moved([(cell.edit,)])[0] for cell in found.cells]
        many = [found.parts[c.part][c.row, c.column] for c in found.cells]
        np.testing.assert_allclose(ones, many, atol=EXACT)


@pytest.mark.families
def test_shared_values_are_swapped_per_query_head(modules: dict[str, Model]) -> None:
    """Grouped queries against a hook before the output projection."""
    model = modules["llama"]
    found = tv.swap(model, OWN, OTHER, (3, 4), target=[])

    def logits(ids: list[int]) -> torch.Tensor:
        with torch.inference_mode():
            return model.module(torch.tensor([ids])).logits[0, -1]

    def gap(row: torch.Tensor) -> float:
        return float(row[3] - row[4])

    start, end = gap(logits(OWN)), gap(logits(OTHER))
    for layer, block in enumerate(model.module.model.layers):
        projection = block.self_attn.o_proj
        theirs = seen(reading, projection, lambda: logits(OTHER))
        for head in range(4):
            part = columns(head, 4, 24)

            def change(
                x: torch.Tensor, part: slice = part, theirs: torch.Tensor = theirs
            ) -> torch.Tensor:
                x = x.clone()
                x[..., part] = theirs[..., part]
                return x

            with reading(projection, change):
                patched = gap(logits(OWN))
            wanted = (patched - start) / (end - start)
            assert found.parts["decoder"][layer, head] == pytest.approx(wanted, abs=EXACT)


def test_tokens_that_come_first_are_told_apart() -> None:
    """A core whose tensors are [token, item, width]: the stream is turned."""
    torch.manual_seed(2)
    layer = torch.nn.TransformerEncoderLayer(24, 3, 31, dropout=0.0)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    core = torch.nn.Transformer(24, 3, 2, 2, 31, dropout=0.0, custom_encoder=encoder)

    class Speaker(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.core = torch.nn.Embedding(37, 24), core
            self.head = torch.nn.Linear(24, 37)

        def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            ahead = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
            out = self.core(
                self.words(source).transpose(0, 1),
                self.words(target).transpose(0, 1),
                tgt_mask=ahead,
            )
            return self.head(out.transpose(0, 1))

    module = Speaker().double().eval()
    model = tv.load(module, kind="encoder-decoder", bos_id=2)
    found = tv.swap(model, OWN, OTHER, (3, 4), "stream", target=[2, 7, 9])
    for layer in range(2):
        edit = SwapStream(source=OTHER, stack="encoder", layer=layer)
        assert found.together([edit]) == pytest.approx(1, abs=EXACT)
    single = found.parts["encoder"]
    assert np.abs(single[:, 2]).max() > 0.01
