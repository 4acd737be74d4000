"""What generate() returned, against one pass over the tokens that were read."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import transformers

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


def words(ids: torch.Tensor) -> list[str]:
    return [f"w{i}" for i in ids.tolist()]


def written(family: str, ids: list[list[int]], **way: Any) -> Any:
    asked = {"output_attentions": True, "return_dict_in_generate": True, "do_sample": False}
    limits = {"max_new_tokens": NEW, "min_new_tokens": NEW}
    return built(FAMILY[family]).generate(torch.tensor(ids), **asked | limits | way)


def far(found: tv.Trace, block: str, theirs: Any) -> float:
    pairs = zip(found.attention(block), theirs, strict=True)
    return max(float(np.abs(ours - layer[0].numpy()).max()) for ours, layer in pairs)


def test_a_decoders_steps_are_one_pass_over_what_it_read() -> None:
    model = built(BY_NAME["gpt_neox"])
    for way in WAYS:
        out = written("gpt_neox", [[5, 6, 7]], **WAYS[way])
        for number, ids in enumerate(out.sequences):
            batch = number if len(out.sequences) > 1 else None
            found = tv.from_attentions(out, words(ids), batch=batch)
            with torch.no_grad():
                theirs = model(ids[None, :-1], output_attentions=True).attentions
            assert len(found.source) == 3 + NEW - 1  # the last word was written and not read
            assert far(found, "decoder", theirs) < 1e-5, (way, number)
            assert found.manifest["given"]["decoder"]["masks"] == ["causal", "causal"], way


def test_a_translators_steps_are_one_pass() -> None:
    model, every = built(BY_NAME["bart"]), [[5, 6, 7, 8], [9, 10, 11, 12]]
    for way, sources in itertools.product(("greedy", "beams", "beams, several returned"), (1, 2)):
        out = written("bart", every[:sources], **WAYS[way])
        for number, target in enumerate(out.sequences):
            source = torch.tensor(every[number * sources // len(out.sequences)])
            batch = number if len(out.sequences) > 1 else None
            found = tv.from_attentions(out, words(source), target_tokens=words(target), batch=batch)
            with torch.no_grad():
                whole = model(
                    input_ids=source[None],
                    decoder_input_ids=target[None, : len(found.target or ())],
                    output_attentions=True,
                )
            assert found.target is not None and len(found.target) == len(target) - 1
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


@pytest.mark.parametrize("family", SLIDING)
def test_steps_of_a_sliding_cache_are_one_pass_over_what_was_read(family: str) -> None:
    model, sums = built(FAMILY[family]), family != "gpt_oss"
    for way in SLIDING_WAYS:
        for prompt, ids in PROMPTS.items():
            torch.manual_seed(0)
            out = written(family, [ids], **SLIDING_WAYS[way])
            if way == "guessed ahead" and not out.attentions[1][0][..., 1:].any():
                with pytest.raises(ValueError, match="step 1 repeats row 0 of the prompt"):
                    tv.from_attentions(out, words(out.sequences[0]), check_sums=sums)
                continue
            for number, read in enumerate(out.sequences):
                case = (way, prompt, number)
                batch = number if len(out.sequences) > 1 else None
                found = tv.from_attentions(out, words(read), batch=batch, check_sums=sums)
                with torch.no_grad():
                    whole = model(read[None, :-1], output_attentions=True, use_cache=False)
                assert far(found, "decoder", whole.attentions) < 1e-5, case
                assert found.maps == ("decoder",), case
                errors = [abs(1 - one.sum(-1)).amax((0, 2)) for one in whole.attentions]
                assert np.allclose(found.heads["row_sum_error"], torch.cat(errors), atol=1e-6), case
                known = found.manifest["given"]["decoder"]["windows"]
                narrow = any(
                    layer.shape[-1] < len(ids) + step
                    for step, layers in enumerate(out.attentions)
                    for layer in layers
                )
                assert any(known) or not narrow, case
                assert not narrow or any("had the last 3 keys" in s for s in given_facts(found))
            if way == "greedy":
                assert tuple(known) == SLIDING[family], prompt


def test_steps_of_a_sliding_cache_are_those_of_a_loop_by_hand() -> None:
    model, ids = built(FAMILY["gemma2"]), torch.arange(4, 18)[None]
    with torch.no_grad():
        whole = model(ids, output_attentions=True, use_cache=False).attentions
    for cache in (
        transformers.DynamicCache(config=model.config),
        transformers.StaticCache(config=model.config, max_cache_len=20),
    ):
        steps = []
        with torch.no_grad():
            for part in ids.split([2, 2, 1, 4, 1, 4], dim=1):
                out = model(part, past_key_values=cache, output_attentions=True)
                steps.append(out.attentions)
        assert far(tv.from_attentions(steps, words(ids[0])), "decoder", whole) < 1e-5


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


def test_a_weight_too_small_for_its_type_stays_where_it_is() -> None:
    eye = np.zeros((12, 12))
    eye[np.arange(12), np.maximum(np.arange(12) - 2, 0)] = 1  # each row looks two back
    steps = [(torch.tensor(eye[None, None, :4, :4]),)]
    steps += [(torch.tensor(eye[None, None, n : n + 1, : n + 1]),) for n in range(4, 12)]
    found = tv.from_attentions(steps, [f"w{n}" for n in range(12)])
    assert np.array_equal(found.attention("decoder")[0, 0], eye)


def test_what_outputs_lack_or_hold_twice_is_said() -> None:
    out = written("gpt_neox", [[5, 6, 7]], **WAYS["beams, several returned"])
    bare = transformers.modeling_outputs.BaseModelOutput(last_hidden_state=torch.zeros(1, 3, 4))
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
