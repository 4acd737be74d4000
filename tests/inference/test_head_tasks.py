"""Scores of classifiers follow the task of their head, against sums by the library alone."""

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
from transformer_viz.metrics.attention.map_cells import cells
from transformer_viz.metrics.output.answer_span import said_of_output
from transformer_viz.views.html.candidate_bars import candidates

IDS = [2, 5, 9, 17, 3]
SMALL: dict[str, Any] = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1}
SMALL |= {"num_attention_heads": 2, "intermediate_size": 24, "initializer_range": 0.3}


def made(cls: str, **words: Any) -> Any:
    torch.manual_seed(0)
    return getattr(transformers, cls)(transformers.BertConfig(**(SMALL | words))).eval()


def removal(module: Any, score: Any) -> np.ndarray:
    """Return what the score loses by hiding each token from the attention."""
    masks = torch.ones(len(IDS) + 1, len(IDS), dtype=torch.long)
    masks[range(1, len(IDS) + 1), range(len(IDS))] = 0
    with torch.inference_mode():
        found = [
            float(score(module(torch.tensor([IDS]), attention_mask=mask[None]))) for mask in masks
        ]
    return found[0] - np.array(found[1:])


def test_removal_is_measured_in_the_unit_of_the_task():
    several = {"num_labels": 3}
    answering = made("BertForQuestionAnswering")
    with torch.inference_mode():
        out = answering(torch.tensor([IDS]))
    sums = (out.start_logits[0][:, None] + out.end_logits[0][None]).triu()
    start = int(sums.masked_fill(torch.ones_like(sums).tril(-1).bool(), -torch.inf).argmax()) // 5
    for module, target, score, task, unit in (
        (made("BertForSequenceClassification", num_labels=1), None,
         lambda o: o.logits[0, 0], "regression", "logit"),
        (made("BertForSequenceClassification", problem_type="regression", **several), 1,
         lambda o: o.logits[0, 1], "regression", "logit"),
        (made("BertForSequenceClassification", problem_type="multi_label_classification",
              **several), 2, lambda o: F.logsigmoid(o.logits[0, 2]), "multi_label", "nats"),
        (made("BertForSequenceClassification", **several), 2,
         lambda o: o.logits[0].log_softmax(-1)[2], "single_label", "nats"),
        (answering, None, lambda o: o.start_logits[0].log_softmax(-1)[start], "", "nats"),
    ):  # fmt: skip
        model = tv.load(module)
        asked = {"output": "start"} if model.gives == "spans" else {}
        asked |= {} if target is None else {"target": target}
        values = tv.explain(model, IDS, method="removal", **asked).values
        assert np.allclose(values["value"], removal(module, score), atol=1e-5), (task, asked)
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
            with torch.inference_mode():
                out = module(torch.tensor([ids]), output_attentions=True)
            values = tv.explain(tv.load(module), ids, method="weights").values
            own = torch.cat(
                [
                    out.cross_attentions[0][0, :, -1].mean(0),
                    out.decoder_attentions[0][0, :, -1].mean(0),
                ]
            )
            assert np.allclose(values["value"], own, atol=1e-5), (name, ids)


def test_the_only_output_is_ranked_by_its_logit():
    module = made("BertForSequenceClassification", num_labels=1)
    table = tv.rank(tv.load(module), [(IDS, 0)], method="zero").table
    mixing = module.bert.encoder.layer[0].attention.output.dense
    with torch.inference_mode():
        clean = float(module(torch.tensor([IDS])).logits)
        for head in (0, 1):
            part = slice(8 * head, 8 * head + 8)

            def silence(_: Any, given: Any, part: slice = part) -> Any:
                kept = given[0].clone()
                kept[..., part] = 0
                return (kept, *given[1:])

            with mixing.register_forward_pre_hook(silence):
                lost = clean - float(module(torch.tensor([IDS])).logits)
            row = table[table["head"] == head].iloc[0]
            assert abs(row["moved"] - abs(lost)) < 1e-5 and row["unit"] == "logit"


def test_a_constant_head_is_named_and_a_class_has_effects_of_its_own():
    module = made("BertForSequenceClassification", num_labels=2)
    value = module.bert.encoder.layer[0].attention.self.value
    with torch.no_grad():
        value.weight[:8], value.bias[:8] = 0, 2.0
    pairs = [([2, first, 9, 17, 3], first % 2) for first in range(10, 16)]
    model, found = tv.load(module), {}
    for method in ("mean", "resample", "zero"):
        ranking = tv.rank(model, pairs, method=method)
        table = ranking.table.set_index("head")["effect"]
        noted = [note for note in ranking.notes if "encoder L0 H0" in note]
        assert len(noted) == (method != "zero") and all("method='zero'" in n for n in noted), method
        found[method] = abs(table[0]), ranking.by_class
    assert found["mean"][0] < 1e-6 and found["resample"][0] < 1e-6 and found["zero"][0] > 1e-3
    mixing = module.bert.encoder.layer[0].attention.output.dense

    def silence(_: Any, given: Any) -> Any:
        return (F.pad(given[0][..., 8:], (8, 0)), *given[1:])

    for number in (0, 1):
        lost = []
        for ids, label in pairs[number::2]:
            with torch.inference_mode():
                clean = module(torch.tensor([ids])).logits[0].log_softmax(-1)[label]
                with mixing.register_forward_pre_hook(silence):
                    other = module(torch.tensor([ids])).logits[0].log_softmax(-1)[label]
            lost.append(float(clean - other))
        row = found["zero"][1].query(f"`class` == {number} and head == 0").iloc[0]
        assert abs(row["effect"] - np.mean(lost)) < 1e-5 and row["unit"] == "nats", number


def test_effects_by_class_are_those_of_a_hook_that_replaces_one_head():
    """Each head of two layers by its mean over all rows and by zero: three classes."""
    module = made("BertForSequenceClassification", num_labels=3, num_hidden_layers=2)
    pairs = [([*IDS[: 4 + n % 2], 7 + n], n % 3) for n in range(7)]
    model = tv.load(module)
    given = {layer: [] for layer in (0, 1)}  # what each layer's heads give, [row, feature]
    places = [layer.attention.output.dense for layer in module.bert.encoder.layer]

    def judged(ids: list[int], label: int) -> float:
        with torch.inference_mode():
            return float(module(torch.tensor([ids])).logits[0].log_softmax(-1)[label])

    hooks = [
        place.register_forward_pre_hook(lambda _, x, n=n: given[n].append(x[0][0].clone()))
        for n, place in enumerate(places)
    ]
    clean = [judged(*pair) for pair in pairs]
    for hook in hooks:
        hook.remove()
    for method in ("mean", "zero"):
        table = tv.rank(model, pairs, method=method).by_class
        assert len(table) == 3 * 4 and set(table["unit"]) == {"nats"}
        for layer, head in ((0, 0), (0, 1), (1, 0), (1, 1)):
            part = slice(8 * head, 8 * head + 8)
            kept = torch.cat(given[layer]).double().mean(0).float() * (method == "mean")

            def put(_: Any, x: Any, part: slice = part, kept: Any = kept) -> Any:
                mixed = x[0].clone()
                mixed[..., part] = kept[part]
                return (mixed, *x[1:])

            with places[layer].register_forward_pre_hook(put):
                lost = np.array(clean) - [judged(*pair) for pair in pairs]
            for number in range(3):
                row = table.query(f"`class` == {number} and layer == {layer} and head == {head}")
                found, own = row.iloc[0], lost[number::3]
                where = (method, layer, head, number)
                assert abs(found["effect"] - own.mean()) < 1e-5, where
                assert found["low"] - 1e-5 <= own.mean() <= found["high"] + 1e-5, where
                assert (found["rows"], found["label"]) == (len(own), f"LABEL_{number}"), where


def test_a_score_given_as_a_reference_is_refused_and_numpy_numbers_are_classes():
    scored = tv.load(made("BertForSequenceClassification", num_labels=1))
    for reference in (4.2, 1, np.float32(0.5), np.int64(3), [0.7]):
        with pytest.raises(ValueError, match="takes no score to compare with"):
            tv.rank(scored, [(IDS, reference)])
    judging = tv.load(made("BertForSequenceClassification", num_labels=3))
    named, counted = (
        tv.rank(judging, [(IDS, label), (IDS[:3], "LABEL_2")], method="zero").table
        for label in ("LABEL_1", np.int64(1))
    )
    assert named.equals(counted)


def test_a_swap_of_a_score_moves_the_score():
    module = made("BertForSequenceClassification", num_labels=1)
    other = [2, 5, 9, 30, 3]
    found = tv.swap(tv.load(module), IDS, other)
    mixing, kept = module.bert.encoder.layer[0].attention.output.dense, []
    with torch.inference_mode():
        with mixing.register_forward_pre_hook(lambda _, given: kept.append(given[0].clone())):
            there = float(module(torch.tensor([other])).logits)
        here = float(module(torch.tensor([IDS])).logits)
        for head in (0, 1):
            part = slice(8 * head, 8 * head + 8)

            def put(_: Any, given: Any, part: slice = part) -> Any:
                mixed = given[0].clone()
                mixed[..., part] = kept[0][..., part]
                return (mixed, *given[1:])

            with mixing.register_forward_pre_hook(put):
                moved = (float(module(torch.tensor([IDS])).logits) - here) / (there - here)
            row = found.table.query(f"head == {head}").iloc[0]
            assert abs(row["moved"] - moved) < 1e-4 and row["unit"] == "logit", head


def swapped(module: Any, own: Any, other: Any, part: slice, of: list[int]) -> Any:
    """Return three outputs: of each text, and of the first with one head's rows of the other.

    ``of`` are the rows of the other text that stand where those of the first do.
    """
    mixing, kept = module.bert.encoder.layer[0].attention.output.dense, []

    def put(_: Any, given: Any) -> Any:
        mixed = given[0].clone()
        mixed[..., part] = kept[0][:, of][..., part]
        return (mixed, *given[1:])

    with torch.inference_mode():
        with mixing.register_forward_pre_hook(lambda _, given: kept.append(given[0].clone())):
            there = module(**other)
        here = module(**own)
        with mixing.register_forward_pre_hook(put):
            return here, there, module(**own)


def test_a_swap_moves_the_end_of_an_answer_and_the_class_of_a_token():
    ids, other = [2, 5, 9, 17, 12, 3], [2, 30, 9, 17, 31, 3]
    for cls, asked, words, score in (
        ("BertForQuestionAnswering", {}, (1, 4), lambda o, w: o.start_logits[0, w]),
        ("BertForQuestionAnswering", {"output": "end"}, (4, 2), lambda o, w: o.end_logits[0, w]),
        ("BertForTokenClassification", {"token": 4}, ("LABEL_2", 0),
         lambda o, w: o.logits[0, 4, 2 if w == "LABEL_2" else w]),
    ):  # fmt: skip
        module = made(cls, num_labels=2 if "Question" in cls else 3)
        model = tv.load(module)
        found = tv.swap(model, ids, other, words, **asked)
        given = [{"input_ids": torch.tensor([x])} for x in (ids, other)]
        for head in (0, 1):
            runs = swapped(module, *given, slice(8 * head, 8 * head + 8), [0, 1, 2, 3, 4, 5])
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
            with pytest.raises(ValueError, match=sentence):
                tv.swap(model, ids, other, **(asked | wrong))


def test_an_answer_in_two_texts_is_swapped_with_their_segments():
    """The question differs by a word that has no counterpart; the pair is named by its labels."""
    marked, rest = "[PAD] [UNK] [CLS] [SEP]", "who what wrote said old book ann bob it the"
    words = f"{marked} {rest}".split()
    pieces = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: n for n, word in enumerate(words)}, "[UNK]")
    )
    pieces.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    pieces.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    marks = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=pieces, **marks,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip
    module = made("BertForQuestionAnswering")
    model = tv.load(module, tokenizer=tokenizer)
    pair, other = ("who wrote", "ann wrote it"), ("who old wrote", "bob wrote it")
    found = tv.swap(model, pair, other, ("ann", "it"))
    given = [tokenizer(*texts, return_tensors="pt") for texts in (pair, other)]
    assert given[1]["token_type_ids"].sum() == 4
    of = [0, 1, 3, 4, 5, 6, 7, 8]
    runs = swapped(module, *given, slice(8, 16), of)
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


def test_an_explanation_says_which_class_it_is_about():
    judged = "BertForSequenceClassification"
    for module, target, sentence in (
        (made(judged, num_labels=3), None, "the class “LABEL_{}”, the most probable one"),
        (made(judged, num_labels=3, problem_type="multi_label_classification"), None,
         "the label “LABEL_{}”, the most probable one"),
        (made(judged, num_labels=2, problem_type="regression"), None, "the first of 2"),
        (made(judged, num_labels=3), 1, ""),
        (made(judged, num_labels=1), None, ""),
    ):  # fmt: skip
        with torch.inference_mode():
            best = int(module(torch.tensor([IDS])).logits[0].argmax())
        found = tv.explain(tv.load(module), IDS, 3, target, method="gradient")
        if sentence:
            assert sentence.format(best) in found.caption and "target=" in found.caption
        else:
            assert "Asked about" not in found.caption, module.config.num_labels


def test_rows_of_a_decoder_that_judges_bear_the_words_they_read():
    words: dict[str, Any] = {"vocab_size": 40, "n_embd": 16, "n_layer": 1, "n_head": 2}
    config = transformers.GPT2Config(**words, num_labels=1, pad_token_id=0)
    for cls in ("GPT2ForSequenceClassification", "GPT2ForQuestionAnswering"):
        trace = tv.trace(tv.load(getattr(transformers, cls)(config).eval()), IDS, check=False)
        assert trace.maps == ("decoder",), cls
        assert cells(trace, "decoder", 0, 0).rows.labels == trace.source.labels, cls
        assert tv.views.head_map(trace, "decoder", layer=0, head=0), cls


def test_a_score_is_drawn_as_a_score_and_a_label_by_its_sigmoid():
    for words, spoken in (
        ({"num_labels": 1}, "no probability"),
        ({"num_labels": 5, "problem_type": "multi_label_classification"}, "need not sum to 1"),
    ):
        module = made("BertForSequenceClassification", **words)
        trace = tv.trace(tv.load(module), IDS, check=False)
        picture = candidates(trace, None, 0, [f"LABEL_{n}" for n in range(5)])
        with torch.inference_mode():
            logits = module(torch.tensor([IDS])).logits[0]
        shown = logits.sigmoid() if len(logits) > 1 else logits.abs()
        assert spoken in picture.caption and f"{float(shown[0]):.3f}" in picture.html, words


def test_a_trace_of_question_answering_has_both_ends_and_the_report_says_the_answer():
    module = made("BertForQuestionAnswering")
    trace = tv.trace(tv.load(module), IDS)
    with torch.inference_mode():
        out = module(torch.tensor([IDS]))
    both = torch.stack((out.start_logits[0], out.end_logits[0]))
    assert np.allclose(trace.logits, both, atol=1e-6)
    assert "Answer: “" in tv.views.report(trace)
    for first, special, none in ((0, True, True), (0, False, False), (1, True, False)):
        logits = np.zeros_like(trace.logits)
        logits[:, first] = 5
        marks = dataclasses.replace(trace.source, special=(special, *[False] * 4))
        said = said_of_output(dataclasses.replace(trace, logits=logits, source=marks))
        assert ("no answer" in said) == none, (first, special)


def test_a_wrapper_whose_forward_needs_a_mask_is_no_encoder_decoder():
    class Wrapper(torch.nn.Module):
        def __init__(self) -> None:
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

    for cls in (Wrapper, Segmented, Counted):
        module = cls().eval()
        with torch.inference_mode():
            expected = Wrapper.forward(module, torch.tensor([IDS]), torch.ones(1, len(IDS)))[0]
        for words in ({}, {"kind": "encoder-only"}):
            model = tv.load(module, **words)
            assert (model.kind, model.gives) == ("encoder-only", "classes"), cls
            trace = tv.trace(model, IDS)
            assert np.allclose(trace.logits, expected, atol=1e-6) and trace.report.status == "green"
