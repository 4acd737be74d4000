"""Decoding: every number against one forced pass, every search against a plainer one."""

from __future__ import annotations

import dataclasses
import itertools
from contextlib import suppress

import pytest
import torch

import transformer_viz as tv
from tests.support.witness_models import random_gpt2
from transformer_viz.capture import probe
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import (
    Causal,
    Intervention,
    Pad,
    ScaleHead,
    ScalePositions,
    ScaleResidual,
    Temperature,
)
from transformer_viz.inference.decoding.key_value_cache import reads_on
from transformer_viz.inference.generation import generate, length_norm, translate, translate_lines
from transformer_viz.inference.token_ids import padded_source, source_ids, target_ids
from transformer_viz.preprocessing.tokenizers import SentencePieceText

SOURCE = [5, 9, 31, 7, 3]
LINES = ["5 9 31 7 3", "8 36 3", "30 3", "11 12 13 14 15 16 17 3", "9 3", "20 21 22 3", "8 36 3"]


def forced_rows(model, ids, source=SOURCE, mask=None):
    """Log-probabilities ``[row, vocabulary]`` of one pass over the finished words."""
    with torch.inference_mode():
        if model.kind == "decoder-only":
            rows = model.calls.forward(torch.tensor([[*source, *ids[:-1]]]), None, mask)
            rows = rows[:, len(source) - 1 :]
        else:
            target = torch.tensor([[model.bos_id, *ids[:-1]]])
            rows = model.calls.forward(torch.tensor([source]), target, mask)
    return rows[0].log_softmax(-1)


def greedy_by_hand(model, source, limit):
    """The most probable token, again and again, with nothing but `calls.forward`."""
    ids = []
    while len(ids) < limit:
        ids.append(int(forced_rows(model, [*ids, 0], source)[-1].argmax()))
        if ids[-1] == model.eos_id:
            break
    return tuple(ids)


@pytest.fixture(params=["encoder-decoder", "decoder-only"])
def model(request, tiny_model, tiny_gpt):
    return tiny_model if request.param == "encoder-decoder" else tiny_gpt


def test_greedy_takes_the_most_probable_token(model):
    limit = 15 if model.kind == "encoder-decoder" else 39
    best = translate(model, SOURCE)
    assert len(best) == 1
    assert best[0].ids == greedy_by_hand(model, SOURCE, limit)


def test_one_forced_pass_equals_step_by_step(model):
    """Logits of every prefix's last row against the same row of one pass over all words."""
    ids = list(translate(model, SOURCE, max_tokens=13)[0].ids)
    whole = forced_rows(model, ids)
    for length in range(1, len(ids) + 1):
        step = forced_rows(model, ids[:length])
        torch.testing.assert_close(step, whole[:length], atol=1e-5, rtol=0)


@pytest.mark.parametrize("beam", [1, 2, 4, 7])
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
def test_every_score_is_that_of_a_forced_pass(model, beam, penalty):
    found = translate(model, SOURCE, beam, max_tokens=9, length_penalty=penalty)
    assert len(found) == beam
    assert len({hypothesis.ids for hypothesis in found}) == beam
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    for hypothesis in found:
        rows = forced_rows(model, list(hypothesis.ids)).double()
        steps = [float(rows[t, token]) for t, token in enumerate(hypothesis.ids)]
        assert hypothesis.steps == pytest.approx(steps, abs=1e-5)
        assert hypothesis.log_probability == pytest.approx(sum(steps), abs=1e-5)
        norm = ((5 + len(steps)) / 6) ** penalty
        assert hypothesis.score == pytest.approx(sum(steps) / norm, abs=1e-5)
        assert hypothesis.finished == (hypothesis.ids[-1] == model.eos_id)


@pytest.mark.slow
def test_a_beam_finds_nothing_worse_than_greedy(model):
    """No theorem for a narrow beam, but it holds for these sources; wide enough, it must."""
    for line in LINES:
        alone = translate(model, line, length_penalty=0.0)[0]
        for beam in (4, 8):
            assert translate(model, line, beam, length_penalty=0.0)[0].score >= alone.score - 1e-5


@pytest.mark.slow
def test_a_beam_wide_enough_finds_every_text(build_model):
    """Seven tokens, three steps: all 1 + 6 + 36 * 7 texts, with the scores of brute force."""
    model = build_model(target_vocab=7)
    found = translate(model, SOURCE, beam=259, max_tokens=3)
    others = [token for token in range(7) if token != model.eos_id]
    texts = [(model.eos_id,), *((a, model.eos_id) for a in others)]
    texts += [(a, b, c) for a, b in itertools.product(others, others) for c in range(7)]
    assert {h.ids for h in found} == set(texts)
    scores = {
        ids: sum(float(forced_rows(model, ids)[t, i]) for t, i in enumerate(ids))
        / length_norm(len(ids), 1.0)
        for ids in texts
    }
    assert found[0].ids == max(scores, key=lambda ids: scores[ids])
    assert {h.ids: pytest.approx(h.score, abs=1e-5) for h in found} == scores


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("batch", [1, 3, 32])
def test_many_lines_equal_one_by_one(model, beam, batch):
    heard = []
    together = translate_lines(model, LINES, beam, batch, tell=heard.append)
    assert heard[-1] == len(LINES)
    for line, hypothesis in zip(LINES, together, strict=True):
        alone = translate(model, line, beam)[0]
        assert hypothesis.ids == alone.ids
        assert hypothesis.score == pytest.approx(alone.score, abs=1e-4)


def test_the_smallest_temperature_is_greedy(model):
    assert translate(model, SOURCE, sample=5e-324)[0].ids == translate(model, SOURCE)[0].ids


def test_an_output_that_is_no_number_is_no_translation(model):
    huge = Intervention((ScaleResidual(value=1e30),))
    with pytest.raises(ValueError, match=r"not a number.*give the edit a smaller value"):
        translate(model, SOURCE, intervention=huge)


def test_no_lines_are_no_translations(model):
    assert translate_lines(model, []) == []


def test_sampling_repeats_itself_by_seed(model):
    first = translate(model, SOURCE, sample=1.0, seed=3)
    assert translate(model, SOURCE, sample=1.0, seed=3) == first
    others = {translate(model, SOURCE, sample=1.5, seed=seed)[0].ids for seed in range(7)}
    assert len(others) > 1
    rows = forced_rows(model, list(first[0].ids))
    steps = [float(rows[t, token]) for t, token in enumerate(first[0].ids)]
    assert first[0].steps == pytest.approx(steps, abs=1e-5)


@pytest.mark.parametrize("sample", [0, 1e-4])
def test_cold_sampling_is_greedy(model, sample):
    assert translate(model, SOURCE, sample=sample)[0].ids == translate(model, SOURCE)[0].ids


def test_sampling_follows_the_model_s_distribution(tiny_model):
    """The first token of 600 draws against its probability at temperature 2 (chi-squared)."""
    draws = [
        translate(tiny_model, SOURCE, sample=2.0, seed=seed, max_tokens=1)[0].ids[0]
        for seed in range(600)
    ]
    expected = torch.softmax(forced_rows(tiny_model, [0])[0] / 2.0, -1).double() * 600
    counts = torch.bincount(torch.tensor(draws), minlength=41)
    chi = float(((counts - expected) ** 2 / expected).sum())
    assert chi < 40 + 5 * (2 * 40) ** 0.5


def test_a_given_target_is_scored(tiny_model):
    best = translate(tiny_model, SOURCE, 4)[0]
    ids = [tiny_model.bos_id, *best.ids]
    given = translate(tiny_model, SOURCE, target=ids)
    assert [given[0].ids, given[0].finished] == [best.ids, best.finished]
    assert given[0].score == pytest.approx(best.score, abs=1e-5)
    # typed ids are text for this model: the end token is added to what was typed
    typed = translate(tiny_model, SOURCE, target="2 6 40")[0]
    assert typed.ids == (6, 40, tiny_model.eos_id)
    assert typed.finished


def test_a_gpt_appends_a_given_target(tiny_gpt):
    best = translate(tiny_gpt, SOURCE, max_tokens=5)[0]
    given = translate(tiny_gpt, SOURCE, target=list(best.ids))[0]
    assert given.ids == best.ids
    assert given.steps == pytest.approx(best.steps, abs=1e-5)


def test_lengths_are_limited(tiny_model, tiny_gpt, build_model):
    endless = dataclasses.replace(tiny_model, eos_id=None)
    assert len(translate(endless, SOURCE)[0].ids) == int(1.4 * 5) + 8
    assert len(translate(endless, SOURCE, max_tokens=3)[0].ids) == 3
    assert not translate(endless, SOURCE, max_tokens=3)[0].finished
    assert len(translate(endless, SOURCE, max_tokens=500)[0].ids) == 43
    gpt = dataclasses.replace(tiny_gpt, eos_id=None)
    assert len(translate(gpt, SOURCE)[0].ids) == 43 + 1 - 5
    assert len(translate(gpt, [4] * 43, max_tokens=9)[0].ids) == 1
    free = dataclasses.replace(build_model(positions="none"), eos_id=None, max_tokens=None)
    assert len(translate(free, SOURCE, max_tokens=60)[0].ids) == 60


def test_generate_is_for_gpt_alone(tiny_model, tiny_gpt):
    assert generate(tiny_gpt, SOURCE, max_tokens=5) == translate(tiny_gpt, SOURCE, max_tokens=5)
    assert (
        generate(tiny_gpt, SOURCE, sample=2.0, seed=1)[0].ids != generate(tiny_gpt, SOURCE)[0].ids
    )
    with pytest.raises(ValueError, match="only a decoder-only model goes on with a text"):
        generate(tiny_model, SOURCE)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"beam": 0}, "A beam holds at least 1 hypothesis; got beam=0."),
        ({"beam": 10**9}, "A beam holds at most 1000 hypotheses; got beam=1000000000."),
        ({"beam": 2, "sample": 1.0}, "goes without a beam; got sample=1.0, beam=2. Leave one"),
        ({"sample": -1.0}, "sample is a temperature from 0"),
        ({"sample": float("nan")}, "sample is a temperature from 0"),
        ({"max_tokens": 0}, "max_tokens is a number from 1; got 0."),
        ({"source": []}, "The source has no tokens; give at least one."),
        ({"source": [36, 37]}, "The source has the id 37; this model knows ids from 0 to 36."),
        ({"source": [-1]}, "The source has the id -1"),
        ({"source": [1.5]}, "The source must be text or whole token ids"),
        ({"source": [4] * 44}, "The source has 44 tokens and this model reads at most 43; sh"),
        ({"target": [2, 41]}, "The target has the id 41; this model knows ids from 0 to 40."),
        ({"target": [2]}, "The target has a start token and nothing after it"),
    ],
)
def test_bad_input_is_refused_by_name(tiny_model, words, message):
    with pytest.raises(ValueError) as refused:
        translate(tiny_model, **({"source": SOURCE} | words))
    assert message in str(refused.value)


def test_models_that_cannot_decode_say_so(build_model, tiny_model):
    with pytest.raises(ValueError, match="tiny has no decoder, so it produces no text"):
        translate(build_model(decoder_layers=0), SOURCE)
    with pytest.raises(ValueError, match="tiny names no start token; load it with bos_id="):
        translate(dataclasses.replace(tiny_model, bos_id=None), SOURCE)


def test_a_model_that_is_only_a_forward_decodes_alike(tiny_model):
    calls = dataclasses.replace(tiny_model.calls, encode=None, decode=None)
    bare = dataclasses.replace(tiny_model, calls=calls)
    for first, second in zip(
        translate(tiny_model, SOURCE, 4), translate(bare, SOURCE, 4), strict=True
    ):
        assert first.ids == second.ids
        assert first.score == pytest.approx(second.score, abs=1e-5)


EDITS = {
    "temperature": Temperature(value=3.0, stack="decoder", block="cross"),
    "encoder head": ScaleHead(value=0.0, stack="encoder", layer=1, head=1),
    "causal": Causal(on=True, stack="encoder"),
    "positions": ScalePositions(value=0.0),
}


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("beam", [1, 4])
def test_an_edited_run_is_decoded_under_its_edits(tiny_model, name, beam):
    """Each step's probability is that of one edited pass over the finished words."""
    edits = Intervention((EDITS[name],))
    best = translate(tiny_model, SOURCE, beam, intervention=edits)[0]
    with probe(tiny_model.module, edits):
        rows = forced_rows(tiny_model, list(best.ids))
    steps = [float(rows[t, token]) for t, token in enumerate(best.ids)]
    assert best.steps == pytest.approx(steps, abs=1e-4)
    clean = translate(tiny_model, SOURCE, target=[tiny_model.bos_id, *best.ids])[0]
    assert abs(clean.log_probability - best.log_probability) > 1e-3
    again = translate_lines(tiny_model, ["5 9 31 7 3"], beam, intervention=edits)[0]
    assert again.ids == best.ids


def test_an_edited_gpt_goes_on_under_its_edits(tiny_gpt):
    edits = Intervention((ScaleHead(value=0.0, layer=0, head=1),))
    best = translate(tiny_gpt, SOURCE, intervention=edits, max_tokens=7)[0]
    with probe(tiny_gpt.module, edits):
        rows = forced_rows(tiny_gpt, list(best.ids))
    steps = [float(rows[t, token]) for t, token in enumerate(best.ids)]
    assert best.steps == pytest.approx(steps, abs=1e-4)


def test_an_edit_without_a_place_is_refused(tiny_model):
    edits = Intervention((ScaleHead(value=0.0, layer=9),))
    with pytest.raises(ValueError, match="matches no place in this model"):
        translate(tiny_model, SOURCE, intervention=edits)


def test_an_empty_intervention_is_the_clean_run(tiny_model):
    assert translate(tiny_model, SOURCE, 4, intervention=Intervention()) == translate(
        tiny_model, SOURCE, 4
    )


def test_masked_padding_changes_nothing_and_seen_padding_does(model):
    clean = translate(model, SOURCE, 3, max_tokens=9)
    masked = Intervention((Pad(count=2),))
    seen = Intervention((Pad(count=2, masked=False),))
    steps = translate(model, SOURCE, 3, intervention=masked, max_tokens=9)
    if model.kind == "encoder-decoder":  # a GPT goes on behind the padding: other positions
        assert [h.ids for h in steps] == [h.ids for h in clean]
        assert steps[0].score == pytest.approx(clean[0].score, abs=1e-4)
    start = [model.bos_id] if model.kind == "encoder-decoder" else []
    target = [*start, *clean[0].ids]
    hidden, shown = (
        translate(model, SOURCE, intervention=edit, target=target)[0].score
        for edit in (masked, seen)
    )
    assert abs(hidden - shown) > 1e-3


def test_padded_source_says_what_may_be_seen():
    assert padded_source([5, 0, 3], None, 0) == ([5, 0, 3], [True, False, True])
    assert padded_source([5, 0, 3], Intervention(), None) == ([5, 0, 3], [True] * 3)
    hidden = Intervention((Pad(count=2),))
    assert padded_source([5, 3], hidden, 0) == ([5, 3, 0, 0], [True, True, False, False])
    seen = Intervention((Pad(count=1, masked=False),))
    assert padded_source([5, 3], seen, 0) == ([5, 3, 0], [True] * 3)
    with pytest.raises(ValueError, match="The edit 'pad' needs a padding token and this model ha"):
        padded_source([5, 3], hidden, None)


def test_padding_that_comes_with_the_ids_is_not_read(tiny_model):
    padded = translate(tiny_model, [*SOURCE, 0, 0], 3, max_tokens=9)
    clean = translate(tiny_model, SOURCE, 3, max_tokens=9)
    assert [h.ids for h in padded] == [h.ids for h in clean]


def test_a_text_is_read_as_its_model_reads_it(tiny_model, tiny_gpt, tiny_vocabulary):
    spoken = dataclasses.replace(
        tiny_model, tokenizer=SentencePieceText(tiny_vocabulary), config={}
    )
    ids = source_ids(spoken, "The cat sat.")
    assert (ids[0] != 2, ids[-1]) == (True, 3)
    assert target_ids(spoken, "The cat sat.") == [2, *ids[:-1]]
    gpt = dataclasses.replace(spoken, kind="decoder-only")
    assert source_ids(gpt, "The cat sat.") == [2, *ids[:-1]]
    assert source_ids(tiny_gpt, "5 9") == [5, 9]


def test_a_continuation_keeps_the_space_before_it(build_model, tiny_vocabulary):
    tokenizer = SentencePieceText(tiny_vocabulary)
    gpt = build_model(
        encoder_layers=0, source_vocab=0, target_vocab=len(tokenizer.pieces), tied="output"
    )
    gpt = dataclasses.replace(gpt, tokenizer=tokenizer)
    cat = tokenizer.prompt_ids("the cat")[1:]
    assert translate(gpt, "The", target=cat)[0].text == " the cat"
    assert translate(gpt, "The", target="the cat")[0].text == " the cat"


@pytest.mark.parametrize("words", [{"beam": 1}, {"beam": 3}, {"sample": 1.0}])
def test_each_pass_tells_how_far_the_search_is(model, words):
    heard: list[tuple[int, int]] = []
    found = translate(model, SOURCE, max_tokens=6, tell=lambda *step: heard.append(step), **words)
    longest = max(len(path.ids) for path in found)
    assert heard == [(done, 6) for done in range(longest)]
    assert found == translate(model, SOURCE, max_tokens=6, **words)


def test_what_tell_raises_ends_the_search_and_leaves_nothing(model):
    class Enough(Exception):
        pass

    def tell(done, of):
        if done == 2:
            raise Enough

    warm = Intervention((Temperature(value=2.0),))
    clean = translate(model, SOURCE)
    with pytest.raises(Enough):
        translate(model, SOURCE, max_tokens=9, intervention=warm, tell=tell)
    assert torch._C._len_torch_function_stack() == 0  # no probe watches any more
    assert not torch.is_inference_mode_enabled()
    assert translate(model, SOURCE) == clean


def test_a_text_that_is_continued_tells_it_too(tiny_gpt):
    heard = []
    generate(tiny_gpt, SOURCE, max_tokens=3, tell=lambda *step: heard.append(step))
    assert heard[0] == (0, 3)


def test_a_model_without_an_output_layer_writes_nothing(tiny_model):
    with pytest.raises(ValueError, match="gives vectors and no words"):
        translate(dataclasses.replace(tiny_model, gives="vectors"), [2, 3])


def test_a_search_may_be_ended_before_any_of_its_passes() -> None:
    made: list[int] = []
    whole = [0]

    def ended(model: Model, beam: int, last: int) -> int:
        told = [0]

        def tell(done: int, of: int) -> None:
            told[0] += 1
            whole[0] = told[0]
            if told[0] == last:
                raise InterruptedError

        made.clear()
        with suppress(InterruptedError):
            tv.translate(model, [5, 17, 6], beam, max_tokens=4, tell=tell)
        return len(made)

    for beam in (1, 3):
        module = random_gpt2()
        module.register_forward_pre_hook(lambda *_: made.append(1))
        passes = ended(tv.load(module), beam, -1)
        assert passes == whole[0], beam
        for last in range(1, passes + 1):
            fresh = random_gpt2()
            fresh.register_forward_pre_hook(lambda *_: made.append(1))
            model = tv.load(fresh)
            assert ended(model, beam, last) == last - 1, (beam, last)
            assert reads_on(model, [5, 17, 6]), "an ended trial is no answer"
