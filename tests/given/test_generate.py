"""What `generate` returned, with and without padding, against one pass over the tokens read."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput

import transformer_viz as tv
from tests.families.catalogue import BY_NAME, built, run
from tests.families.more import MORE
from transformer_viz.core.given.facts import given_facts

NEW = 6
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "without a cache": {"use_cache": False},
    "static cache": {"cache_implementation": "static"},
    "beams": {"num_beams": 3},
    "beams, several returned": {"num_beams": 4, "num_return_sequences": 3},
}
FAMILY = BY_NAME | {family.name: family for family in MORE}
ASKED = {"output_attentions": True, "return_dict_in_generate": True, "do_sample": False}


def words(ids: torch.Tensor) -> list[str]:
    return [f"w{i}" for i in ids.tolist()]


def written(family: str, ids: list[list[int]], **way: Any) -> Any:
    limits = {"max_new_tokens": NEW, "min_new_tokens": NEW}
    return built(FAMILY[family]).generate(torch.tensor(ids), **ASKED | limits | way)


def one_pass(family: str, **given: Any) -> Any:
    """The output of the model itself on what was read."""
    with torch.no_grad():
        return built(FAMILY[family])(output_attentions=True, **given)


def far(found: tv.Trace, block: str, theirs: Any) -> float:
    pairs = zip(found.attention(block), theirs, strict=True)
    return max(float(np.abs(ours - layer[0].numpy()).max()) for ours, layer in pairs)


def numbered(out: Any) -> list[tuple[int, torch.Tensor, int | None]]:
    """Number and ids of each sequence, and the batch to ask for where there are several."""
    several = len(out.sequences) > 1
    return [(n, ids, n if several else None) for n, ids in enumerate(out.sequences)]


def test_a_decoders_steps_are_one_pass_over_what_it_read() -> None:
    for way in WAYS:
        out = written("gpt_neox", [[5, 6, 7]], **WAYS[way])
        for number, ids, batch in numbered(out):
            found = tv.from_attentions(out, words(ids), batch=batch)
            assert len(found.source) == 3 + NEW - 1  # the last word was written and not read
            theirs = one_pass("gpt_neox", input_ids=ids[None, :-1]).attentions
            assert far(found, "decoder", theirs) < 1e-5, (way, number)
            assert found.manifest["given"]["decoder"]["masks"] == ["causal", "causal"], way


def test_a_translators_steps_are_one_pass() -> None:
    every = [[5, 6, 7, 8], [9, 10, 11, 12]]
    for way, sources in itertools.product(("greedy", "beams", "beams, several returned"), (1, 2)):
        out = written("bart", every[:sources], **WAYS[way])
        for number, target, batch in numbered(out):
            source = torch.tensor(every[number * sources // len(out.sequences)])
            found = tv.from_attentions(out, words(source), target_tokens=words(target), batch=batch)
            assert found.target is not None and len(found.target) == len(target) - 1
            whole = one_pass("bart", input_ids=source[None], decoder_input_ids=target[None, :-1])
            for block in ("encoder", "decoder", "cross"):
                theirs = getattr(whole, f"{block}_attentions")
                assert far(found, block, theirs) < 1e-5, (way, sources, number, block)


#: Models whose cache keeps the last three keys, in some layers or in all.
SLIDING = {
    "mistral": (3, 3),
    "gemma2": (3, None),
    "gemma3_text": (3, 3),
    "cohere2": (3, 3),
    "gpt_oss": (3, None),
}
#: A prompt that a cache keeps, one that it does not, and one that repeats itself for guesses.
PROMPTS = {"short": [5, 6], "long": [5, 6, 7, 8, 9], "again": [5, 6, 7, 5, 6, 7, 5]}
SLIDING_WAYS: dict[str, dict[str, Any]] = WAYS | {
    "samples": {"do_sample": True, "num_return_sequences": 2},
    "two new words": {"max_new_tokens": 2, "min_new_tokens": 2},
    "guessed ahead": {"prompt_lookup_num_tokens": 4},
}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_steps_of_a_sliding_cache_are_one_pass_over_what_was_read(part: int) -> None:
    for family in list(SLIDING)[part::2]:
        steps_are_one_pass(family)


def steps_are_one_pass(family: str) -> None:
    sums = family != "gpt_oss"
    for way, (prompt, ids) in itertools.product(SLIDING_WAYS, PROMPTS.items()):
        torch.manual_seed(0)
        out = written(family, [ids], **SLIDING_WAYS[way])
        if way == "guessed ahead" and not out.attentions[1][0][..., 1:].any():
            with pytest.raises(ValueError, match="step 1 repeats row 0 of the prompt"):
                tv.from_attentions(out, words(out.sequences[0]), check_sums=sums)
            continue
        narrow = any(
            layer.shape[-1] < len(ids) + step
            for step, layers in enumerate(out.attentions)
            for layer in layers
        )
        for number, read, batch in numbered(out):
            case = (family, way, prompt, number)
            found = tv.from_attentions(out, words(read), batch=batch, check_sums=sums)
            whole = one_pass(family, input_ids=read[None, :-1], use_cache=False).attentions
            assert far(found, "decoder", whole) < 1e-5, case
            assert found.maps == ("decoder",), case
            errors = [abs(1 - one.sum(-1)).amax((0, 2)) for one in whole]
            assert np.allclose(found.heads["row_sum_error"], torch.cat(errors), atol=1e-6), case
            known = found.manifest["given"]["decoder"]["windows"]
            assert any(known) or not narrow, case
            assert not narrow or any("had the last 3 keys" in s for s in given_facts(found))
        if way == "greedy":
            assert tuple(known) == SLIDING[family], prompt


def test_steps_of_a_loop_by_hand_are_joined() -> None:
    model, ids = built(FAMILY["gemma2"]), torch.arange(4, 18)[None]
    whole = one_pass("gemma2", input_ids=ids, use_cache=False).attentions
    for cache in (
        transformers.DynamicCache(config=model.config),
        transformers.StaticCache(config=model.config, max_cache_len=20),
    ):
        parts = ids.split([2, 2, 1, 4, 1, 4], dim=1)
        steps = [one_pass("gemma2", input_ids=p, past_key_values=cache).attentions for p in parts]
        assert far(tv.from_attentions(steps, words(ids[0])), "decoder", whole) < 1e-5
    eye = np.zeros((12, 12))  # a weight too small for its type stays where it is
    eye[np.arange(12), np.maximum(np.arange(12) - 2, 0)] = 1  # each row looks two back
    steps = [(torch.tensor(eye[None, None, :4, :4]),)]
    steps += [(torch.tensor(eye[None, None, n : n + 1, : n + 1]),) for n in range(4, 12)]
    found = tv.from_attentions(steps, [f"w{n}" for n in range(12)])
    assert np.array_equal(found.attention("decoder")[0, 0], eye)


def test_narrow_steps_of_unknown_keys_are_refused() -> None:
    out = written("gpt_neox", [[5, 6, 7, 8, 9, 10]])
    first, *later = out.attentions

    def kept(keep: Any) -> list[Any]:
        return [first, *(tuple(keep(one, n) for one in step) for n, step in enumerate(later))]

    refused: dict[str, tuple[Any, str]] = {
        "first and last keys": (
            kept(lambda one, n: torch.cat((one[..., :1], one[..., -3:]), -1)),
            "step 1 weighs 4 of 7 tokens, and a row of the prompt weighs a token 5 back, so this "
            "is no sliding window.*use_cache=False",
        ),
        "a growing choice": (
            kept(lambda one, n: one[..., -(3 + n) :]),
            "step 1 weighs 3 of 7 tokens, and step 2 4 of 8, so this is no sliding window",
        ),
        "without the first step": (later, "step 0 reads 1 tokens and weighs 7, so a cache held"),
        "a later step alone": (later[1], r"has 1 rows and 8 columns.* give all steps, not one"),
        "a layer less": (
            [first, *(step[:1] for step in later)],
            r"step 1, has weights of the layers \[0\], unlike step 0",
        ),
    }
    for name, (steps, said) in refused.items():
        with pytest.raises(ValueError, match=said):
            tv.from_attentions(steps, words(out.sequences[0]), check_sums=False)
            pytest.fail(name)


def test_what_outputs_lack_or_hold_twice_is_said() -> None:
    out = written("gpt_neox", [[5, 6, 7]], **WAYS["beams, several returned"])
    bare = BaseModelOutput(last_hidden_state=torch.zeros(1, 3, 4))
    clip = run(built(BY_NAME["clip"]), BY_NAME["clip"], output_attentions=True)
    for given, batch, said in (
        (out, None, "returned 3 sequences; say which with batch=0"),
        (out, 3, "There are 3 sequences"),
        (bare, None, r"The BaseModelOutput holds no weights: .*eager"),
        (clip, None, r"give the one to look at, such as outputs\.text_model"),
    ):
        names = words(out.sequences[0]) if given is out else ["a"]
        with pytest.raises(ValueError, match=said):
            tv.from_attentions(given, names, batch=batch)


# ---- padding decides nothing: what is a decoder's is shown as one --------------------------------

#: Nothing, three and four tokens of padding on the left; two on the right.
IDS = torch.tensor(
    [[5, 6, 7, 8, 9, 10], [0, 0, 0, 5, 6, 7], [0, 0, 0, 0, 5, 6], [5, 6, 7, 8, 0, 0]]
)
MASK = (IDS > 0).long()
DECODERS = ("gpt2", "llama", "mistral", "gemma2")


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
    said = {
        "output": "decoder: 3 rows weigh all columns alike, as padding does",
        "zeros": "decoder: 3 rows are all zeros",
        "no numbers": "decoder: 3 rows were not numbers, as a softmax over nothing",
    }
    for family in DECODERS:
        out = one_pass(family, input_ids=IDS, attention_mask=MASK)
        for batch, ids in enumerate(IDS):
            for form, (weights, which) in forms(out, batch).items():
                case = (family, batch, form)
                found = tv.from_attentions(weights, words(ids), batch=which)
                assert found.maps == ("decoder",), case
                told = found.manifest["given"]["decoder"]
                assert not told["assumed"], case
                assert all(mask.startswith("causal") for mask in told["masks"]), case
                assert found.heads["row_sum_error"].max() < 1e-2, case
                wanted = [layer[batch : batch + 1].clone() for layer in out.attentions]
                if form in ("zeros", "no numbers"):
                    for layer in wanted:
                        layer[:, :, MASK[batch] == 0] = 0
                assert far(found, "decoder", wanted) < 4e-3, case
                if family == "llama" and batch == 1 and form in said:
                    facts = given_facts(found)
                    assert any(one.startswith(said[form]) for one in facts), form
                    assert "decoder: causal." in facts, form


def test_padded_steps_are_one_pass() -> None:
    ways: dict[str, dict[str, Any]] = {
        "greedy": {},
        "static cache": {"cache_implementation": "static"},
        "without a cache": {"use_cache": False},
        "beams": {"num_beams": 2},
        "one word": {"max_new_tokens": 1},
    }
    fixed = {"attention_mask": MASK[:3], "pad_token_id": 0, "eos_token_id": None, **ASKED}
    for family, (way, more) in itertools.product(DECODERS, ways.items()):
        out = built(BY_NAME[family]).generate(IDS[:3], **fixed, **{"max_new_tokens": 5} | more)
        for batch, read in enumerate(out.sequences):
            case = (family, way, batch)
            found = tv.from_attentions(out, words(read), batch=batch)
            assert found.maps == ("decoder",), case
            if way != "beams":
                bare = tv.from_attentions(out.attentions, words(read), batch=batch)
                assert bare.maps == ("decoder",), case
            assert found.heads["row_sum_error"].max() < 1e-5, case
            seen = torch.cat((MASK[batch], torch.ones(len(read) - 7, dtype=torch.long)))[None]
            places = (seen.cumsum(-1) - 1).clamp(min=0)
            given = {"input_ids": read[None, :-1], "attention_mask": seen}
            whole = one_pass(family, **given, position_ids=places, use_cache=False).attentions
            text = int((MASK[batch] == 0).sum())
            for ours, theirs in zip(found.attention("decoder"), whole, strict=True):
                assert np.abs(ours - theirs[0].numpy())[:, text:].max() < 1e-5, case
                assert not ours[:, text:, :text].any(), case
            equal = found.manifest["given"]["decoder"]["rows of equal weights"]
            assert equal == list(range(text)), case


def test_padded_encoders_and_translators_stay_what_they_are() -> None:
    padded = {"input_ids": IDS, "attention_mask": MASK}
    out = one_pass("bert", **padded)
    for batch, ids in enumerate(IDS):
        for form, (weights, which) in forms(out, batch).items():
            found = tv.from_attentions(weights, words(ids), batch=which)
            assert found.maps == ("encoder",), (batch, form)
    target = torch.tensor([[2, 5, 6], [0, 2, 5], [2, 5, 0], [2, 6, 7]])
    asked = {"decoder_input_ids": target, "decoder_attention_mask": (target > 0).long()}
    for family in ("bart", "t5"):
        out = one_pass(family, **padded, **asked)
        for batch, ids in enumerate(IDS):
            for weights in (out, out.to_tuple(), dict(out)):
                said = {"target_tokens": words(target[batch]), "batch": batch}
                found = tv.from_attentions(weights, words(ids), **said)
                assert found.maps == ("encoder", "decoder", "cross")
                for block in found.maps:
                    theirs = [one[batch, None] for one in getattr(out, f"{block}_attentions")]
                    assert far(found, block, theirs) < 1e-6, (family, batch, block)
                assert not found.attention("cross")[..., MASK[batch].numpy() == 0].any()
            for block, read in (("decoder", target[batch]), ("encoder", ids)):
                weights = getattr(out, f"{block}_attentions")
                alone = tv.from_attentions(weights, words(read), batch=batch)
                assert alone.maps == (block,), (family, batch)


def test_the_type_speaks_where_the_rows_tell_nothing() -> None:
    alone = IDS[:1, :1]
    one = one_pass("llama", input_ids=alone)
    assumed = "assumed, since no row shows whether later tokens are hidden."
    for weights, tokens, block in (
        (one, words(alone[0]), "decoder"),
        (one.attentions, words(alone[0]), "encoder"),
        (np.full((2, 3, 4, 4), 0.25), list("abcd"), "encoder"),
    ):
        found = tv.from_attentions(weights, tokens)
        assert found.maps == (block,)
        assert f"{block}: {assumed}" in given_facts(found)
    # A type of causal models, which CTC encoders return too; a prefix that is read whole, such as
    # an image, before words that hide later ones.
    prefix = torch.ones(4, 4).tril()
    prefix[:2, :2] = 1
    for hidden, block in ((torch.zeros(4, 4), "encoder"), (1 - prefix, "decoder")):
        scores = torch.randn(2, 1, 3, 4, 4).masked_fill(hidden == 1, -torch.inf)
        given = CausalLMOutput(attentions=[layer.softmax(-1) for layer in scores])
        assert tv.from_attentions(given, list("abcd")).maps == (block,)


def test_a_static_cache_loses_its_empty_places_only() -> None:
    model = built(BY_NAME["llama"])
    for batch in (0, 1):
        ids, mask = IDS[batch, None], MASK[batch, None]
        cache = transformers.StaticCache(config=model.config, max_cache_len=16)
        given = {"input_ids": ids, "attention_mask": mask}
        out = one_pass("llama", **given, past_key_values=cache)
        assert out.attentions[0].shape[-1] == 16
        text = int((mask == 0).sum())
        found = tv.from_attentions(out, words(ids[0]))
        whole = one_pass("llama", **given).attentions
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
    for mask in (hidden + padding, (hidden + padding).clamp(max=1)):  # added, merged
        weights = (scores - 1e4 * mask).softmax(-1)
        assert np.triu(weights[0, 0], 1)[:3].any()
        assert tv.from_attentions(weights, list("abcdefg")).maps == ("decoder",)
    # padding on the right that sees itself alone, beside an encoder's text
    alone = torch.eye(7).repeat(2, 3, 1, 1)
    alone[..., :4, :4] = scores[..., :4, :4].softmax(-1)
    assert tv.from_attentions(alone, list("abcdefg")).maps == ("encoder",)
