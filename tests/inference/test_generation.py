"""Decoding: every number against one forced pass, every search against a plainer one."""

from __future__ import annotations

import dataclasses
import itertools
from contextlib import suppress

import pytest
import torch

import transformer_viz as tv
from tests.support.refusals import refuses
from tests.support.witness_models import random_gpt2
from transformer_viz.capture import probe
from transformer_viz.core import interventions as edit
from transformer_viz.core.interventions import Intervention, Pad
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


def forced_steps(model, ids):
    """The log-probability of each token in one pass over the finished words."""
    rows = forced_rows(model, list(ids)).double()
    return [float(rows[t, token]) for t, token in enumerate(ids)]


@pytest.fixture(params=["encoder-decoder", "decoder-only"])
def model(request, tiny_model, tiny_gpt):
    return tiny_model if request.param == "encoder-decoder" else tiny_gpt


def test_greedy_takes_the_most_probable_token(model):
    limit = 15 if model.kind == "encoder-decoder" else 39
    best, ids = translate(model, SOURCE), []
    while len(ids) < limit and ids[-1:] != [model.eos_id]:
        ids.append(int(forced_rows(model, [*ids, 0])[-1].argmax()))
    assert [one.ids for one in best] == [tuple(ids)]
    for cold in (0, 5e-324, 1e-4):
        assert translate(model, SOURCE, sample=cold)[0].ids == best[0].ids, cold
    # logits of every prefix's last row are the same row of one pass over all words
    ids = list(translate(model, SOURCE, max_tokens=13)[0].ids)
    whole = forced_rows(model, ids)
    for length in range(1, len(ids) + 1):
        step = forced_rows(model, ids[:length])
        torch.testing.assert_close(step, whole[:length], atol=1e-5, rtol=0)


def test_every_score_is_that_of_a_forced_pass(model):
    for beam, penalty in itertools.product((1, 2, 4, 7), (0.0, 0.6, 1.0)):
        found = translate(model, SOURCE, beam, max_tokens=9, length_penalty=penalty)
        case = beam, penalty
        assert len(found) == len({hypothesis.ids for hypothesis in found}) == beam, case
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True), case
        for hypothesis in found:
            steps = forced_steps(model, hypothesis.ids)
            assert hypothesis.steps == pytest.approx(steps, abs=1e-5), case
            assert hypothesis.log_probability == pytest.approx(sum(steps), abs=1e-5), case
            norm = ((5 + len(steps)) / 6) ** penalty
            assert hypothesis.score == pytest.approx(sum(steps) / norm, abs=1e-5), case
            assert hypothesis.finished == (hypothesis.ids[-1] == model.eos_id), case


@pytest.mark.slow
def test_many_lines_equal_one_by_one_and_a_beam_is_no_worse_than_greedy(model):
    alone = {beam: [translate(model, line, beam)[0] for line in LINES] for beam in (1, 4)}
    for beam, batch in itertools.product((1, 4), (1, 3, 32)):
        heard = []
        together = translate_lines(model, LINES, beam, batch, on_progress=heard.append)
        assert heard[-1] == len(LINES)
        assert [one.ids for one in together] == [one.ids for one in alone[beam]], (beam, batch)
        for one, own in zip(together, alone[beam], strict=True):
            assert one.score == pytest.approx(own.score, abs=1e-4), (beam, batch)
    assert translate_lines(model, []) == []
    # no theorem for a narrow beam, but it holds for these sources; wide enough, it must
    for line in LINES:
        greedy, *beams = (translate(model, line, b, length_penalty=0.0)[0].score for b in (1, 4, 8))
        assert min(beams) >= greedy - 1e-5, line


@pytest.mark.slow
def test_a_beam_wide_enough_finds_every_text(build_model):
    """Seven tokens, three steps: all 1 + 6 + 36 * 7 texts, with the scores of brute force."""
    model = build_model(target_vocab=7)
    found = translate(model, SOURCE, beam=259, max_tokens=3)
    others = [token for token in range(7) if token != model.eos_id]
    texts = [(model.eos_id,), *((a, model.eos_id) for a in others)]
    texts += [(a, b, c) for a, b in itertools.product(others, others) for c in range(7)]
    assert {h.ids for h in found} == set(texts)
    scores = {}
    for ids in texts:
        rows = forced_rows(model, ids)
        total = sum(float(rows[t, i]) for t, i in enumerate(ids))
        scores[ids] = total / length_norm(len(ids), 1.0)
    assert found[0].ids == max(scores, key=lambda ids: scores[ids])
    assert {h.ids: pytest.approx(h.score, abs=1e-5) for h in found} == scores


def test_sampling_repeats_itself_by_seed(model):
    first = translate(model, SOURCE, sample=1.0, seed=3)
    assert translate(model, SOURCE, sample=1.0, seed=3) == first
    others = {translate(model, SOURCE, sample=1.5, seed=seed)[0].ids for seed in range(7)}
    assert len(others) > 1
    assert first[0].steps == pytest.approx(forced_steps(model, first[0].ids), abs=1e-5)


def test_sampling_follows_the_model_s_distribution(tiny_model):
    """The first token of 600 draws against its probability at temperature 2 (chi-squared)."""
    words = {"sample": 2.0, "max_tokens": 1}
    draws = [translate(tiny_model, SOURCE, seed=seed, **words)[0].ids[0] for seed in range(600)]
    expected = torch.softmax(forced_rows(tiny_model, [0])[0] / 2.0, -1).double() * 600
    counts = torch.bincount(torch.tensor(draws), minlength=41)
    chi = float(((counts - expected) ** 2 / expected).sum())
    assert chi < 40 + 5 * (2 * 40) ** 0.5


def test_a_given_target_is_scored(tiny_model, tiny_gpt):
    best = translate(tiny_model, SOURCE, 4)[0]
    given = translate(tiny_model, SOURCE, target=[tiny_model.bos_id, *best.ids])
    assert [given[0].ids, given[0].finished] == [best.ids, best.finished]
    assert given[0].score == pytest.approx(best.score, abs=1e-5)
    # typed ids are text for this model: the end token is added to what was typed
    typed = translate(tiny_model, SOURCE, target="2 6 40")[0]
    assert typed.ids == (6, 40, tiny_model.eos_id) and typed.finished
    best = translate(tiny_gpt, SOURCE, max_tokens=5)[0]
    given = translate(tiny_gpt, SOURCE, target=list(best.ids))[0]  # a GPT goes on with it
    assert given.ids == best.ids and given.steps == pytest.approx(best.steps, abs=1e-5)


def test_lengths_are_limited(tiny_model, tiny_gpt, build_model):
    endless = dataclasses.replace(tiny_model, eos_id=None)
    gpt = dataclasses.replace(tiny_gpt, eos_id=None)
    free = dataclasses.replace(build_model(positions="none"), eos_id=None, max_tokens=None)
    for model, source, limit, count in (
        (endless, SOURCE, None, int(1.4 * 5) + 8),
        (endless, SOURCE, 3, 3),
        (endless, SOURCE, 500, 43),
        (gpt, SOURCE, None, 43 + 1 - 5),
        (gpt, [4] * 43, 9, 1),
        (free, SOURCE, 60, 60),
    ):
        found = translate(model, source, max_tokens=limit)[0]
        assert len(found.ids) == count and not found.finished, (source, limit)


def test_generate_is_for_gpt_alone(tiny_model, tiny_gpt):
    heard, words = [], {"max_tokens": 5}
    found = generate(tiny_gpt, SOURCE, on_progress=lambda *step: heard.append(step), **words)
    assert found == translate(tiny_gpt, SOURCE, **words) and heard[0] == (0, 5)
    hot = generate(tiny_gpt, SOURCE, sample=2.0, seed=1)[0].ids
    assert hot != generate(tiny_gpt, SOURCE)[0].ids
    refuses("only a decoder-only model goes on with a text", generate, tiny_model, SOURCE)


def test_bad_input_is_refused_by_name(tiny_model, build_model, model):
    cases = [
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
    ]
    for words, message in cases:
        with pytest.raises(ValueError) as refused:
            translate(tiny_model, **({"source": SOURCE} | words))
        assert message in str(refused.value), words
    lone, blank = build_model(decoder_layers=0), dataclasses.replace(tiny_model, bos_id=None)
    refuses("tiny has no decoder, so it produces no text", translate, lone, SOURCE)
    refuses("tiny names no start token; load it with bos_id=", translate, blank, SOURCE)
    silent = dataclasses.replace(tiny_model, gives="vectors")
    refuses("gives vectors and no words", translate, silent, [2, 3])
    lost = Intervention((edit.ScaleHead(value=0.0, layer=9),))
    refuses("matches no place in this model", translate, tiny_model, SOURCE, intervention=lost)
    huge, said = Intervention((edit.ScaleResidual(value=1e30),)), "not a number.*give the edit a sm"
    refuses(said, translate, model, SOURCE, intervention=huge)


def test_a_model_that_is_only_a_forward_decodes_alike(tiny_model):
    calls = dataclasses.replace(tiny_model.calls, encode=None, decode=None)
    bare = dataclasses.replace(tiny_model, calls=calls)
    found, other = translate(tiny_model, SOURCE, 4), translate(bare, SOURCE, 4)
    assert [h.ids for h in found] == [h.ids for h in other]
    assert [h.score for h in found] == pytest.approx([h.score for h in other], abs=1e-5)


EDITS = (
    edit.Temperature(value=3.0, stack="decoder", block="cross"),
    edit.ScaleHead(value=0.0, stack="encoder", layer=1, head=1),
    edit.Causal(on=True, stack="encoder"),
    edit.ScalePositions(value=0.0),
)


@pytest.mark.slow
def test_an_edited_run_is_decoded_under_its_edits(tiny_model, tiny_gpt):
    """Each step's probability is that of one edited pass over the finished words."""
    for one, beam in itertools.product(EDITS, (1, 4)):
        edits, case = Intervention((one,)), (one, beam)
        best = translate(tiny_model, SOURCE, beam, intervention=edits)[0]
        with probe(tiny_model.module, edits):
            steps = forced_steps(tiny_model, best.ids)
        assert best.steps == pytest.approx(steps, abs=1e-4), case
        clean = translate(tiny_model, SOURCE, target=[tiny_model.bos_id, *best.ids])[0]
        assert abs(clean.log_probability - best.log_probability) > 1e-3, case
        again = translate_lines(tiny_model, LINES[:1], beam, intervention=edits)[0]
        assert again.ids == best.ids, case
    edits = Intervention((edit.ScaleHead(value=0.0, layer=0, head=1),))
    best = translate(tiny_gpt, SOURCE, intervention=edits, max_tokens=7)[0]
    with probe(tiny_gpt.module, edits):
        assert best.steps == pytest.approx(forced_steps(tiny_gpt, best.ids), abs=1e-4)
    clean = translate(tiny_model, SOURCE, 4)
    assert translate(tiny_model, SOURCE, 4, intervention=Intervention()) == clean


def test_masked_padding_changes_nothing_and_seen_padding_does(model):
    clean = translate(model, SOURCE, 3, max_tokens=9)
    masked = Intervention((Pad(count=2),))
    seen = Intervention((Pad(count=2, masked=False),))
    steps = translate(model, SOURCE, 3, intervention=masked, max_tokens=9)
    both = model.kind == "encoder-decoder"
    if both:  # a GPT goes on behind the padding: other positions
        assert [h.ids for h in steps] == [h.ids for h in clean]
        assert steps[0].score == pytest.approx(clean[0].score, abs=1e-4)
        given = translate(model, [*SOURCE, 0, 0], 3, max_tokens=9)  # comes with the ids
        assert [h.ids for h in given] == [h.ids for h in clean]
    words = {"target": [*([model.bos_id] if both else []), *clean[0].ids]}
    hidden, shown = (translate(model, SOURCE, intervention=e, **words)[0] for e in (masked, seen))
    assert abs(hidden.score - shown.score) > 1e-3


def test_padded_source_says_what_may_be_seen():
    hidden, seen = (Intervention((Pad(count=n, masked=n == 2),)) for n in (2, 1))
    for ids, edits, pad, wanted in (
        ([5, 0, 3], None, 0, ([5, 0, 3], [True, False, True])),
        ([5, 0, 3], Intervention(), None, ([5, 0, 3], [True] * 3)),
        ([5, 3], hidden, 0, ([5, 3, 0, 0], [True, True, False, False])),
        ([5, 3], seen, 0, ([5, 3, 0], [True] * 3)),
    ):
        assert padded_source(ids, edits, pad) == wanted, (ids, edits)
    refuses("'pad' needs a padding token and this model ha", padded_source, [5, 3], hidden, None)


def test_a_text_is_read_as_its_model_reads_it(tiny_model, tiny_gpt, build_model, tiny_vocabulary):
    tokenizer, text = SentencePieceText(tiny_vocabulary), "The cat sat."
    spoken = dataclasses.replace(tiny_model, tokenizer=tokenizer, config={})
    ids = source_ids(spoken, text)
    assert (ids[0] != 2, ids[-1]) == (True, 3)
    assert target_ids(spoken, text) == [2, *ids[:-1]]
    assert source_ids(dataclasses.replace(spoken, kind="decoder-only"), text) == [2, *ids[:-1]]
    assert source_ids(tiny_gpt, "5 9") == [5, 9]
    sizes = {"source_vocab": 0, "target_vocab": len(tokenizer.pieces), "tied": "output"}
    gpt = dataclasses.replace(build_model(encoder_layers=0, **sizes), tokenizer=tokenizer)
    for target in (tokenizer.prompt_ids("the cat")[1:], "the cat"):  # the space before it is kept
        assert translate(gpt, "The", target=target)[0].text == " the cat"


def test_each_pass_tells_how_far_the_search_is(model):
    for words in ({"beam": 1}, {"beam": 3}, {"sample": 1.0}):
        heard: list[tuple[int, int]] = []
        tell = lambda *step: heard.append(step)  # noqa: E731, B023
        found = translate(model, SOURCE, max_tokens=6, on_progress=tell, **words)
        longest = max(len(path.ids) for path in found)
        assert heard == [(done, 6) for done in range(longest)], words
        assert found == translate(model, SOURCE, max_tokens=6, **words), words

    def stop(done, of):
        if done == 2:
            raise InterruptedError

    warm, clean = Intervention((edit.Temperature(value=2.0),)), translate(model, SOURCE)
    with pytest.raises(InterruptedError):
        translate(model, SOURCE, max_tokens=9, intervention=warm, on_progress=stop)
    assert torch._C._len_torch_function_stack() == 0  # no probe watches any more
    assert not torch.is_inference_mode_enabled()
    assert translate(model, SOURCE) == clean


@pytest.mark.slow
def test_a_search_may_be_ended_before_any_of_its_passes():
    def ended(beam: int, last: int) -> tuple[tv.Model, int, int]:
        """Return a fresh model, its passes, and how often ``on_progress`` was called."""
        made, told, module = [], [], random_gpt2()
        module.register_forward_pre_hook(lambda *_: made.append(1))

        def tell(done: int, of: int) -> None:
            told.append(done)
            if len(told) == last:
                raise InterruptedError

        model = tv.load(module)
        made.clear()
        with suppress(InterruptedError):
            tv.translate(model, [5, 17, 6], beam, max_tokens=4, on_progress=tell)
        return model, len(made), len(told)

    for beam in (1, 3):
        _, passes, told = ended(beam, -1)
        assert passes == told, beam
        for last in range(1, passes + 1):
            model, made, _ = ended(beam, last)
            assert made == last - 1, (beam, last)
            assert reads_on(model, [5, 17, 6]), "an ended trial is no answer"
