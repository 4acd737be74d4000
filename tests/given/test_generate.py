"""What generate() returned, against one pass over the tokens that were read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers

import transformer_viz as tv
from tests.families.catalogue import BY_NAME, built

NEW = 6
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "without a cache": {"use_cache": False},
    "static cache": {"cache_implementation": "static"},
    "beams": {"num_beams": 3},
    "beams, several returned": {"num_beams": 4, "num_return_sequences": 3},
}


def words(ids: torch.Tensor) -> list[str]:
    return [f"w{i}" for i in ids.tolist()]


def written(family: str, ids: list[list[int]], **way: Any) -> Any:
    asked = {"output_attentions": True, "return_dict_in_generate": True, "do_sample": False}
    limits = {"max_new_tokens": NEW, "min_new_tokens": NEW}
    return built(BY_NAME[family]).generate(torch.tensor(ids), **asked, **limits, **way)


def far(found: tv.Trace, block: str, theirs: Any) -> float:
    pairs = zip(found.attention(block), theirs, strict=True)
    return max(float(np.abs(ours - layer[0].numpy()).max()) for ours, layer in pairs)


@pytest.mark.parametrize("way", WAYS)
def test_a_decoders_steps_are_one_pass_over_what_it_read(way: str) -> None:
    out = written("gpt_neox", [[5, 6, 7]], **WAYS[way])
    model = built(BY_NAME["gpt_neox"])
    for number, ids in enumerate(out.sequences):
        batch = number if len(out.sequences) > 1 else None
        found = tv.from_attentions(out, words(ids), batch=batch)
        with torch.no_grad():
            theirs = model(ids[None, :-1], output_attentions=True).attentions
        assert len(found.source) == 3 + NEW - 1  # the last word was written and not read
        assert far(found, "decoder", theirs) < 1e-5
        assert found.manifest["given"]["decoder"]["masks"] == ["causal", "causal"]


@pytest.mark.parametrize("sources", [1, 2])
@pytest.mark.parametrize("way", ["greedy", "beams", "beams, several returned"])
def test_a_translators_steps_are_one_pass(way: str, sources: int) -> None:
    ids = [[5, 6, 7, 8], [9, 10, 11, 12]][:sources]
    out = written("bart", ids, **WAYS[way])
    model = built(BY_NAME["bart"])
    for number, target in enumerate(out.sequences):
        source = torch.tensor(ids[number * sources // len(out.sequences)])
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
            assert far(found, block, theirs) < 1e-5, block


def test_several_sequences_of_a_beam_search_need_a_number() -> None:
    out = written("gpt_neox", [[5, 6, 7]], **WAYS["beams, several returned"])
    with pytest.raises(ValueError, match="returned 3 sequences; say which with batch=0"):
        tv.from_attentions(out, words(out.sequences[0]))
    with pytest.raises(ValueError, match="There are 3 sequences"):
        tv.from_attentions(out, words(out.sequences[0]), batch=3)


def test_an_output_without_weights_says_how_to_get_them() -> None:
    out = transformers.modeling_outputs.BaseModelOutput(last_hidden_state=torch.zeros(1, 3, 4))
    with pytest.raises(ValueError, match=r"The BaseModelOutput holds no weights: .*eager"):
        tv.from_attentions(out, ["a", "b", "c"])


def test_two_models_side_by_side_are_asked_which() -> None:
    from tests.families.catalogue import run

    clip = BY_NAME["clip"]
    out = run(built(clip), clip, output_attentions=True)
    with pytest.raises(ValueError, match=r"give the one to look at, such as outputs\.text_model"):
        tv.from_attentions(out, ["a"])
