"""Scores of classifiers follow the task of their head, against sums of the library alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from torch.nn import functional as F

import transformer_viz as tv
from tests.support.refusals import refuses
from transformer_viz.metrics.attention.map_cells import cells
from transformer_viz.metrics.output.answer_span import said_of_output
from transformer_viz.views.html.candidate_bars import candidates

from .patching.hooks import reading, seen

IDS = [2, 5, 9, 17, 3]
SMALL: dict[str, Any] = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1}
SMALL |= {"num_attention_heads": 2, "intermediate_size": 24, "initializer_range": 0.3}
JUDGE, ANSWER = "BertForSequenceClassification", "BertForQuestionAnswering"
HEADS = (slice(0, 8), slice(8, 16))  # features of each head in what the projection reads


def made(cls: str, **words: Any) -> Any:
    torch.manual_seed(0)
    return getattr(transformers, cls)(transformers.BertConfig(**(SMALL | words))).eval()


def output(module: Any, ids: list[int] = IDS, **words: Any) -> Any:
    with torch.inference_mode():
        return module(torch.tensor([ids]), **words)


def mixing(module: Any, layer: int = 0) -> Any:
    """The projection that reads the heads side by side."""
    return module.bert.encoder.layer[layer].attention.output.dense


def putting(values: Any, part: slice) -> Any:
    """Return a change that puts the columns ``part`` of some rows, or of one for all."""

    def change(x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x[..., part] = values[..., part]
        return x

    return change


NOTHING = torch.zeros(16)


def test_removal_is_measured_in_the_unit_of_the_task():
    several, answering = {"num_labels": 3}, made(ANSWER)
    regressing = made(JUDGE, problem_type="regression", **several)
    labelling = made(JUDGE, problem_type="multi_label_classification", **several)
    out = output(answering)
    sums = (out.start_logits[0][:, None] + out.end_logits[0][None]).triu()
    start = int(sums.masked_fill(torch.ones_like(sums).tril(-1).bool(), -torch.inf).argmax()) // 5
    masks = torch.ones(len(IDS) + 1, len(IDS), dtype=torch.long)  # none hidden, then each token
    masks[range(1, len(IDS) + 1), range(len(IDS))] = 0
    for module, target, score, task, unit in (
        (made(JUDGE, num_labels=1), None, lambda o: o.logits[0, 0], "regression", "logit"),
        (regressing, 1, lambda o: o.logits[0, 1], "regression", "logit"),
        (labelling, 2, lambda o: F.logsigmoid(o.logits[0, 2]), "multi_label", "nats"),
        (made(JUDGE, **several), 2,
         lambda o: o.logits[0].log_softmax(-1)[2], "single_label", "nats"),
        (answering, None, lambda o: o.start_logits[0].log_softmax(-1)[start], "", "nats"),
    ):  # fmt: skip
        model = tv.load(module)
        asked = {"output": "start"} if model.gives == "spans" else {}
        asked |= {} if target is None else {"target": target}
        values = tv.explain(model, IDS, method="removal", **asked).values
        full, *rest = (float(score(output(module, attention_mask=mask[None]))) for mask in masks)
        assert np.allclose(values["value"], full - np.array(rest), atol=1e-5), (task, asked)
        assert (model.task, set(values["unit"])) == (task, {unit})


def test_an_encoder_decoder_that_judges_is_asked_at_its_last_end_token():
    """BART and T5 judge by the row at which the source has its last end token."""
    sizes: dict[str, Any] = {"vocab_size": 40, "eos_token_id": 3, "pad_token_id": 1}
    sizes |= {"decoder_start_token_id": 1, "attn_implementation": "eager", "num_labels": 1}
    bart = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "init_std": 0.3}
    bart |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    t5 = {"num_layers": 1, "d_model": 16, "d_kv": 8, "num_heads": 2, "d_ff": 24}
    for name, words in (("Bart", bart), ("T5", t5)):
        torch.manual_seed(0)
        config = getattr(transformers, f"{name}Config")(**sizes, **words)
        module = getattr(transformers, f"{name}ForSequenceClassification")(config).eval()
        for ids in (IDS, [2, 5, 3, 9, 17, 3]):
            out = output(module, ids, output_attentions=True)
            maps = out.cross_attentions[0], out.decoder_attentions[0]
            own = torch.cat([weights[0, :, -1].mean(0) for weights in maps])
            values = tv.explain(tv.load(module), ids, method="weights").values
            assert np.allclose(values["value"], own, atol=1e-5), (name, ids)


def test_the_only_output_is_ranked_and_swapped_by_its_logit():
    module, other = made(JUDGE, num_labels=1), [2, 5, 9, 30, 3]
    model, score = tv.load(module), lambda ids=IDS: float(output(module, ids).logits)
    ranked = tv.rank(model, [(IDS, 0)], method="zero").table.set_index("head")
    swapped = tv.swap(model, IDS, other).table.set_index("head")
    kept = seen(reading, mixing(module), lambda: score(other))
    here, there = score(), score(other)
    for head, part in enumerate(HEADS):
        with reading(mixing(module), putting(NOTHING, part)):
            lost = here - score()
        row = ranked.loc[head]
        assert abs(row["moved"] - abs(lost)) < 1e-5 and row["unit"] == "logit", head
        with reading(mixing(module), putting(kept, part)):
            moved = (score() - here) / (there - here)
        row = swapped.loc[head]
        assert abs(row["moved"] - moved) < 1e-4 and row["unit"] == "logit", head
    for reference in (4.2, 1, np.float32(0.5), np.int64(3), [0.7]):
        refuses("takes no score to compare with", tv.rank, model, [(IDS, reference)])
    judging = tv.load(made(JUDGE, num_labels=3))
    named, counted = (
        tv.rank(judging, [(IDS, label), (IDS[:3], "LABEL_2")], method="zero").table
        for label in ("LABEL_1", np.int64(1))
    )
    assert named.equals(counted)


def test_a_constant_head_is_named():
    module = made(JUDGE, num_labels=2)
    value = module.bert.encoder.layer[0].attention.self.value
    with torch.no_grad():
        value.weight[:8], value.bias[:8] = 0, 2.0
    pairs = [([2, first, 9, 17, 3], first % 2) for first in range(10, 16)]
    model, found = tv.load(module), {}
    for method in ("mean", "resample", "zero"):
        ranking = tv.rank(model, pairs, method=method)
        noted = [note for note in ranking.notes if "encoder L0 H0" in note]
        assert len(noted) == (method != "zero") and all("method='zero'" in n for n in noted), method
        found[method] = abs(ranking.table.set_index("head")["effect"][0])
    assert found["mean"] < 1e-6 and found["resample"] < 1e-6 and found["zero"] > 1e-3


def test_effects_by_class_are_those_of_a_hook_that_replaces_one_head():
    """Each head of two layers by its mean over all rows and by zero: three classes."""
    module = made(JUDGE, num_labels=3, num_hidden_layers=2)
    pairs = [([*IDS[: 4 + n % 2], 7 + n], n % 3) for n in range(7)]
    model = tv.load(module)

    def judged() -> np.ndarray:
        outs = [output(module, ids).logits[0].log_softmax(-1)[label] for ids, label in pairs]
        return np.array([float(out) for out in outs])

    clean = judged()
    for method in ("mean", "zero"):
        table = tv.rank(model, pairs, method=method).by_class
        assert len(table) == 3 * 4 and set(table["unit"]) == {"nats"}
        for layer, (head, part) in ((n, one) for n in (0, 1) for one in enumerate(HEADS)):
            place = mixing(module, layer)
            given = [seen(reading, place, lambda ids=ids: output(module, ids)) for ids, _ in pairs]
            mean = torch.cat([x[0] for x in given]).double().mean(0).float()
            with reading(place, putting(mean if method == "mean" else NOTHING, part)):
                lost = clean - judged()
            for number in range(3):
                row = table.query(f"`class` == {number} and layer == {layer} and head == {head}")
                found, own, where = row.iloc[0], lost[number::3], (method, layer, head, number)
                assert abs(found["effect"] - own.mean()) < 1e-5, where
                assert found["low"] - 1e-5 <= own.mean() <= found["high"] + 1e-5, where
                assert (found["rows"], found["label"]) == (len(own), f"LABEL_{number}"), where


def swapped(module: Any, own: Any, other: Any, part: slice, rows: list[int]) -> Any:
    """Return three outputs: of each text, and of the first with one head's rows of the other.

    ``rows`` are the rows of the other text that stand where those of the first do.
    """
    with torch.inference_mode():
        kept = seen(reading, mixing(module), lambda: module(**other))[:, rows]
        here, there = module(**own), module(**other)
        with reading(mixing(module), putting(kept, part)):
            return here, there, module(**own)


def test_a_swap_moves_the_end_of_an_answer_and_the_class_of_a_token():
    ids, other = [2, 5, 9, 17, 12, 3], [2, 30, 9, 17, 31, 3]
    given = [{"input_ids": torch.tensor([x])} for x in (ids, other)]
    tags = "BertForTokenClassification"
    for cls, asked, words, score in (
        (ANSWER, {}, (1, 4), lambda o, w: o.start_logits[0, w]),
        (ANSWER, {"output": "end"}, (4, 2), lambda o, w: o.end_logits[0, w]),
        (tags, {"token": 4}, ("LABEL_2", 0),
         lambda o, w: o.logits[0, 4, 2 if w == "LABEL_2" else w]),
    ):  # fmt: skip
        module = made(cls, num_labels=2 if cls == ANSWER else 3)
        model = tv.load(module)
        found = tv.swap(model, ids, other, words, **asked)
        for head, part in enumerate(HEADS):
            runs = swapped(module, *given, part, [0, 1, 2, 3, 4, 5])
            here, there, moved = (float(score(o, words[0]) - score(o, words[1])) for o in runs)
            row, where = found.table.query(f"head == {head}").iloc[0], (cls, asked, head)
            assert abs(row["moved"] - (moved - here) / (there - here)) < 1e-4, where
            assert (row["unit"], abs(found.clean - here) < 1e-5) == ("nats", True), where
            assert abs(found.other - there) < 1e-5, where
        for wrong, sentence in (
            ({"token": 9}, "There is no token 9|leave it out"),
            ({"output": "middle"}, "output is start or end"),
            ({"words": (1, 99)}, "numbers from 0 to 5|There is no class 99"),
            ({"words": (1, 1)}, "name two that differ"),
        ):
            refuses(sentence, tv.swap, model, ids, other, **(asked | wrong))


def test_an_answer_in_two_texts_is_swapped_with_their_segments():
    """The question differs by a word that has no counterpart; the pair is named by its labels."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "what", "wrote", "said", "old", "book"]
    words += ["ann", "bob", "it", "the"]
    numbers = {word: n for n, word in enumerate(words)}
    pieces = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, "[UNK]"))
    pieces.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    pieces.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    marks: dict[str, Any] = {f"{n}_token": f"[{n.upper()}]" for n in ("pad", "unk", "cls", "sep")}
    marks["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=pieces, **marks)
    module = made(ANSWER)
    model = tv.load(module, tokenizer=tokenizer)
    pair, other = ("who wrote", "ann wrote it"), ("who old wrote", "bob wrote it")
    found = tv.swap(model, pair, other, ("ann", "it"))
    given = [tokenizer(*texts, return_tensors="pt") for texts in (pair, other)]
    assert given[1]["token_type_ids"].sum() == 4
    runs = swapped(module, *given, HEADS[1], [0, 1, 3, 4, 5, 6, 7, 8])
    places = ((4, 6), (5, 7), (4, 6))
    here, there, moved = (
        float(o.start_logits[0, a] - o.start_logits[0, b])
        for o, (a, b) in zip(runs, places, strict=True)
    )
    row = found.table.query("head == 1").iloc[0]
    assert abs(row["moved"] - (moved - here) / (there - here)) < 1e-4
    assert "“old”" in found.notes[-1] and found.words == ("ann", "it")
    edit = next(edit for edit in found.best(2) if edit.head == 1)
    edits = tv.Intervention.from_json(tv.Intervention((edit,)).to_json())
    trace = tv.trace(model, pair, intervention=edits, check=False)
    assert np.allclose(trace.logits[0], runs[2].start_logits[0], atol=1e-5)


def test_captions_name_the_class_and_pictures_the_kind_of_score():
    labelling = {"problem_type": "multi_label_classification"}
    for words, target, sentence in (
        ({"num_labels": 3}, None, "the class “LABEL_{}”, the most probable one"),
        ({"num_labels": 3} | labelling, None, "the label “LABEL_{}”, the most probable one"),
        ({"num_labels": 2, "problem_type": "regression"}, None, "the first of 2"),
        ({"num_labels": 3}, 1, ""),
        ({"num_labels": 1}, None, ""),
    ):
        module = made(JUDGE, **words)
        best = int(output(module).logits[0].argmax())
        caption = tv.explain(tv.load(module), IDS, 3, target, method="gradient").caption
        if sentence:
            assert sentence.format(best) in caption and "target=" in caption, words
        else:
            assert "Asked about" not in caption, words
    for words, spoken in (
        ({"num_labels": 1}, "no probability"),
        ({"num_labels": 5} | labelling, "need not sum to 1"),
    ):
        module = made(JUDGE, **words)
        trace = tv.trace(tv.load(module), IDS, check=False)
        picture = candidates(trace, None, 0, [f"LABEL_{n}" for n in range(5)])
        logits = output(module).logits[0]
        shown = logits.sigmoid() if len(logits) > 1 else logits.abs()
        assert spoken in picture.caption and f"{float(shown[0]):.3f}" in picture.html, words


def test_rows_and_reports_of_models_that_judge():
    words: dict[str, Any] = {"vocab_size": 40, "n_embd": 16, "n_layer": 1, "n_head": 2}
    config = transformers.GPT2Config(**words, num_labels=1, pad_token_id=0)
    for cls in ("GPT2ForSequenceClassification", "GPT2ForQuestionAnswering"):
        trace = tv.trace(tv.load(getattr(transformers, cls)(config).eval()), IDS, check=False)
        assert trace.maps == ("decoder",), cls
        assert cells(trace, "decoder", 0, 0).rows.labels == trace.source.labels, cls
        assert tv.views.head_map(trace, "decoder", layer=0, head=0), cls
    module = made(ANSWER)
    trace, out = tv.trace(tv.load(module), IDS), output(module)
    both = torch.stack((out.start_logits[0], out.end_logits[0]))
    assert np.allclose(trace.logits, both, atol=1e-6)
    assert "Answer: “" in tv.views.report(trace)
    for first, special, none in ((0, True, True), (0, False, False), (1, True, False)):
        logits = np.zeros_like(trace.logits)
        logits[:, first] = 5
        marks = dataclasses.replace(trace.source, special=(special, *[False] * 4))
        said = said_of_output(dataclasses.replace(trace, logits=logits, source=marks))
        assert ("no answer" in said) == none, (first, special)


class Wrapper(torch.nn.Module):
    """A classifier whose forward needs a mask."""

    def __init__(self):
        super().__init__()
        self.bert, self.head = made("BertModel"), torch.nn.Linear(16, 2)

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        states = self.bert(input_ids, attention_mask=attention_mask).last_hidden_state
        return self.head(states[:, 0])


class Segmented(Wrapper):
    def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
        assert attention_mask.all() and not token_type_ids.any()
        return super().forward(input_ids, attention_mask)


class Counted(Wrapper):
    def forward(self, input_ids: Any, lengths: Any) -> Any:
        places = torch.arange(input_ids.shape[1])
        return super().forward(input_ids, places < lengths[:, None])


@pytest.mark.slow
def test_a_wrapper_whose_forward_needs_a_mask_is_no_encoder_decoder():
    for cls in (Wrapper, Segmented, Counted):
        module = cls().eval()
        with torch.inference_mode():
            expected = Wrapper.forward(module, torch.tensor([IDS]), torch.ones(1, len(IDS)))[0]
        for words in ({}, {"kind": "encoder-only"}):
            model = tv.load(module, **words)
            assert (model.kind, model.gives) == ("encoder-only", "classes"), cls
            trace = tv.trace(model, IDS)
            assert np.allclose(trace.logits, expected, atol=1e-6) and trace.report.status == "green"
