"""Padding decides nothing: what is a decoder's is shown as one, beside one pass over each text."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import transformer_viz as tv
from tests.families.catalogue import BY_NAME, built
from transformer_viz.core.given.facts import given_facts

from .test_generate import far, words

#: Nothing, three and four tokens of padding on the left; two on the right.
IDS = torch.tensor(
    [[5, 6, 7, 8, 9, 10], [0, 0, 0, 5, 6, 7], [0, 0, 0, 0, 5, 6], [5, 6, 7, 8, 0, 0]]
)
MASK = (IDS > 0).long()
ASKED = {"output_attentions": True, "return_dict_in_generate": True, "do_sample": False}
DECODERS = ("gpt2", "llama", "mistral", "gemma2")


def outputs(family: str, **more: Any) -> Any:
    with torch.no_grad():
        return built(BY_NAME[family])(
            input_ids=IDS, attention_mask=MASK, output_attentions=True, **more
        )


def forms(out: Any, batch: int) -> dict[str, tuple[Any, int | None]]:
    """One pass in all forms in which users have it, and which sequence is meant."""
    stack = torch.stack(out.attentions)
    hidden = (MASK[batch] == 0)[:, None].expand(-1, IDS.shape[1])
    own = stack[:, batch]
    return {
        "output": (out, batch),
        "dict": (dict(out), batch),
        "without names": (out.to_tuple(), batch),
        "tuple": (out.attentions, batch),
        "stack": (stack, batch),
        "half": (own.half(), None),
        "bfloat16": (own.bfloat16(), None),
        "zeros": (own.masked_fill(hidden, 0).numpy(), None),
        "no numbers": (own.masked_fill(hidden, torch.nan).tolist(), None),
    }


def test_a_padded_decoder_is_a_decoder() -> None:
    for family, (batch, ids) in itertools.product(DECODERS, enumerate(IDS)):
        out = outputs(family)
        for form, (weights, which) in forms(out, batch).items():
            found = tv.from_attentions(weights, words(ids), batch=which)
            case = (family, batch, form)
            assert found.maps == ("decoder",), case
            assert not found.manifest["given"]["decoder"]["assumed"], case
            masks = found.manifest["given"]["decoder"]["masks"]
            assert all(mask.startswith("causal") for mask in masks), case
            assert found.heads["row_sum_error"].max() < 1e-2, case
            wanted = [layer[batch : batch + 1].clone() for layer in out.attentions]
            if form in ("zeros", "no numbers"):
                for layer in wanted:
                    layer[:, :, MASK[batch] == 0] = 0
            assert far(found, "decoder", wanted) < 4e-3, case
    made = forms(outputs("llama"), 1)
    for form, said in {
        "output": "decoder: 3 rows weigh all columns alike, as padding does",
        "zeros": "decoder: 3 rows are all zeros",
        "no numbers": "decoder: 3 rows were not numbers, as a softmax over nothing",
    }.items():
        weights, which = made[form]
        facts = given_facts(tv.from_attentions(weights, words(IDS[1]), batch=which))
        assert any(one.startswith(said) for one in facts), form
        assert "decoder: causal." in facts, form


@pytest.mark.parametrize("family", DECODERS)
def test_padded_steps_are_one_pass(family: str) -> None:
    model, left = built(BY_NAME[family]), IDS[:3]
    ways: dict[str, dict[str, Any]] = {
        "greedy": {},
        "static cache": {"cache_implementation": "static"},
        "without a cache": {"use_cache": False},
        "beams": {"num_beams": 2},
        "one word": {"max_new_tokens": 1},
    }
    for way, more in ways.items():
        limits = {"max_new_tokens": 5, "eos_token_id": None} | more
        out = model.generate(left, attention_mask=MASK[:3], pad_token_id=0, **ASKED, **limits)
        for batch, read in enumerate(out.sequences):
            case = (way, batch)
            found = tv.from_attentions(out, words(read), batch=batch)
            assert found.maps == ("decoder",), case
            assert tv.from_attentions(out.attentions, words(read), batch=batch).maps == (
                ("decoder",) if way != "beams" else found.maps
            )
            assert found.heads["row_sum_error"].max() < 1e-5, case
            seen = torch.cat((MASK[batch], torch.ones(len(read) - 7, dtype=torch.long)))[None]
            with torch.no_grad():
                whole = model(
                    read[None, :-1],
                    attention_mask=seen,
                    position_ids=(seen.cumsum(-1) - 1).clamp(min=0),
                    output_attentions=True,
                    use_cache=False,
                ).attentions
            text = int((MASK[batch] == 0).sum())
            for ours, theirs in zip(found.attention("decoder"), whole, strict=True):
                assert np.abs(ours - theirs[0].numpy())[:, text:].max() < 1e-5, case
                assert not ours[:, text:, :text].any(), case
            equal = found.manifest["given"]["decoder"]["rows of equal weights"]
            assert equal == list(range(text)), case


def test_padded_encoders_and_translators_stay_what_they_are() -> None:
    out = outputs("bert")
    for batch, ids in enumerate(IDS):
        for form, (weights, which) in forms(out, batch).items():
            found = tv.from_attentions(weights, words(ids), batch=which)
            assert found.maps == ("encoder",), (batch, form)
    target = torch.tensor([[2, 5, 6], [0, 2, 5], [2, 5, 0], [2, 6, 7]])
    for family in ("bart", "t5"):
        asked = {"decoder_input_ids": target, "decoder_attention_mask": (target > 0).long()}
        out = outputs(family, **asked)
        for batch, ids in enumerate(IDS):
            for weights in (out, out.to_tuple(), dict(out)):
                said = {"target_tokens": words(target[batch]), "batch": batch}
                found = tv.from_attentions(weights, words(ids), **said)
                assert found.maps == ("encoder", "decoder", "cross")
                for block in found.maps:
                    theirs = [one[batch, None] for one in getattr(out, f"{block}_attentions")]
                    assert far(found, block, theirs) < 1e-6, (family, batch, block)
                assert not found.attention("cross")[..., MASK[batch].numpy() == 0].any()
            alone = tv.from_attentions(out.decoder_attentions, words(target[batch]), batch=batch)
            assert alone.maps == ("decoder",), (family, batch)
            alone = tv.from_attentions(out.encoder_attentions, words(ids), batch=batch)
            assert alone.maps == ("encoder",), (family, batch)


def test_the_type_speaks_where_the_rows_tell_nothing() -> None:
    alone = IDS[:1, :1]
    with torch.no_grad():
        one = built(BY_NAME["llama"])(alone, output_attentions=True)
    equal = np.full((2, 3, 4, 4), 0.25)
    assumed = "assumed, since no row shows whether later tokens are hidden."
    for weights, tokens, block in (
        (one, words(alone[0]), "decoder"),
        (one.attentions, words(alone[0]), "encoder"),
        (equal, list("abcd"), "encoder"),
    ):
        found = tv.from_attentions(weights, tokens)
        assert found.maps == (block,)
        assert f"{block}: {assumed}" in given_facts(found)
    from transformers.modeling_outputs import CausalLMOutput

    # a type of causal models, which CTC encoders return too
    both = [layer.softmax(-1) for layer in torch.randn(2, 1, 3, 4, 4)]
    assert tv.from_attentions(CausalLMOutput(attentions=both), list("abcd")).maps == ("encoder",)
    # a prefix that is read whole, such as an image, before words that hide later ones
    prefix = torch.ones(4, 4).tril()
    prefix[:2, :2] = 1
    seen = [
        layer.masked_fill(prefix == 0, -torch.inf).softmax(-1)
        for layer in torch.randn(2, 1, 3, 4, 4)
    ]
    found = tv.from_attentions(CausalLMOutput(attentions=seen), list("abcd"))
    assert found.maps == ("decoder",)


def test_a_static_cache_loses_its_empty_places_only() -> None:
    from transformers import StaticCache

    model = built(BY_NAME["llama"])
    for batch in (0, 1):
        ids, mask = IDS[batch, None], MASK[batch, None]
        cache = StaticCache(config=model.config, max_cache_len=16)
        with torch.no_grad():
            out = model(ids, attention_mask=mask, past_key_values=cache, output_attentions=True)
            whole = model(ids, attention_mask=mask, output_attentions=True).attentions
        assert out.attentions[0].shape[-1] == 16
        text = int((mask == 0).sum())
        found = tv.from_attentions(out, words(ids[0]))
        for ours, theirs in zip(found.attention("decoder"), whole, strict=True):
            assert np.abs(ours - theirs[0].numpy())[:, text:].max() < 1e-5, batch
        assert found.maps == ("decoder",) and found.heads["row_sum_error"].max() < 1e-5
        cut = any("empty places of a static cache" in said for said in given_facts(found))
        assert cut == bool(text), batch


def test_masks_that_add_a_finite_number_are_told_from_text() -> None:
    """Rows of padding under such a mask weigh other padding, and what comes after it."""
    torch.manual_seed(0)
    scores = torch.randn(2, 3, 7, 7)
    hidden = torch.ones(7, 7).triu(1)
    padding = (torch.arange(7) < 3).float().expand(7, 7)
    added = (scores - 1e4 * (hidden + padding)).softmax(-1)
    merged = (scores - 1e4 * (hidden + padding).clamp(max=1)).softmax(-1)
    for name, weights in (("added", added), ("merged", merged)):
        assert np.triu(weights[0, 0], 1)[:3].any(), name
        assert tv.from_attentions(weights, list("abcdefg")).maps == ("decoder",), name
    # padding on the right that sees itself alone, beside an encoder's text
    alone = torch.eye(7).repeat(2, 3, 1, 1)
    alone[..., :4, :4] = scores[..., :4, :4].softmax(-1)
    assert tv.from_attentions(alone, list("abcdefg")).maps == ("encoder",)
