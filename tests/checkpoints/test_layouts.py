"""Files without a full config: weights and overrides that do not fit are named."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.checkpoints import annotated, fairseq, gpt, jadore, labml
from tests.checkpoints.fairseq import Variant
from tests.checkpoints.opening import refused

State = dict[str, Any]


def save(folder: Path, held: State, name: str = "model.pt") -> Path:
    torch.save(held, folder / name)
    return folder / name


def changed(path: Path, name: str, value: Tensor | str | None) -> Path:
    """Replace a weight of a file, rename it, or remove all that begin with the name (None)."""
    content = torch.load(path, weights_only=False)
    weights = content.get("model", content)
    if isinstance(value, Tensor):
        weights[name] = value
    else:
        for old in [key for key in weights if key.startswith(name)]:
            moved = weights.pop(old)
            if value is not None:
                weights[value] = moved
    torch.save(content, path)
    return path


#: Makers of files by name.
FILES: dict[str, Callable[[Path], Path]] = {
    "annotated": lambda place: save(place, annotated.state()),
    "labml": lambda place: save(place, labml.state({})),
    "labml, no biases": lambda place: save(place, labml.state({"qk_bias": False})),
    "labml, gated": lambda place: save(place, labml.state({"gated": True})),
    "labml, one stack": lambda place: save(place, labml.state({"kind": "decoder-only"})),
    "jadore 2018": lambda place: save(place, jadore.content("2018", False, False)),
    "jadore 2020": lambda place: save(place, jadore.content("2020", False, False)),
    "jadore 2020, scaled": lambda place: save(place, jadore.content("2020", False, False, "prj")),
    "fairseq": lambda place: fairseq.save(place, Variant())[0],
    "nanogpt": lambda place: gpt.nanogpt_file(place)[0],
    "mingpt": lambda place: gpt.mingpt_file(place)[0],
    "mingpt of 2020": lambda place: gpt.mingpt_2020_file(place)[0],
    "gpt2": lambda place: gpt.gpt2_file(place)[0],
}


def test_witnesses_of_rows_that_see_nothing():
    given = annotated.inputs()["rows that may see nothing"]
    maps, _ = annotated.witness(annotated.state(), *given)
    assert torch.equal(maps[0][1], torch.full((5, 3, 3), 1 / 3, dtype=torch.float64))
    given = jadore.inputs(1)["rows that may see nothing"]
    maps, _ = jadore.witness("2020", jadore.content("2020", False, False), *given)
    assert torch.equal(maps[0][1], torch.full((3, 3, 3), 1 / 3, dtype=torch.float64))
    assert torch.equal(maps[2][1, :, 0], torch.full((3, 4), 0.25, dtype=torch.float64))
    given = jadore.inputs(0)["rows that may see nothing"]
    old = jadore.witness("2018", jadore.content("2018", False, False), *given)
    given = jadore.inputs(1)["rows that may see nothing"]
    for maps, logits in (old, labml.witness(labml.state({}), {}, *given, 1)):
        assert maps[0][1].isnan().all() and logits[1].isnan().all() and not logits[0].isnan().any()


MISSING = r"lacks the weight {}\. Missing"
LACKS = "lacks the weight {}"
FC = "encoder.layer_stack.1.slf_attn.fc.weight"
BIAS = "encoder.layers.1.self_attn.key.linear.bias"
NAN = torch.full((14, 21), torch.nan)
#: A file, a weight, what replaces it (a name: it is renamed; None: it is removed), the message.
FAULTS: list[tuple[str, str, Tensor | str | None, str]] = [
    ("annotated", "decoder.layers.2.src_attn.linears.1.bias", None, MISSING),
    ("annotated", "encoder.norm.a_2", torch.zeros(14), r"{} is \[14\] in model.*makes it \[15\]"),
    ("annotated", "tgt_embed.1.pe", None, LACKS + r" \(the nearest name is src_embed\.1"),
    ("annotated", "src_embed.0.lut.weight", torch.zeros(5), r"{} is \[5\] .* has 2 axes there"),
    ("annotated", "decoder.", None, LACKS + r"layers\.0\.self_attn"),
    ("annotated", "encoder.norm.a_2", "encoder.norm.a_3", r"{} \(the nearest name is .*a_3\)"),
    ("jadore 2020", FC, None, MISSING),
    ("jadore 2018", FC.replace("weight", "waight"), torch.zeros(2), "{} that this model does not"),
    ("jadore 2020", FC, torch.zeros(14, 20), r"{} is \[14, 20\] in model\.pt, .* \[14, 21\]"),
    ("jadore 2020", FC, NAN, r"{} in model\.pt has 294 values that are NaN"),
    ("jadore 2020", "encoder.position_enc.pos_table", torch.zeros(29, 14),
     r"{} is \[29, 14\] in model\.pt; this layout has 3 axes"),
    ("jadore 2018", "encoder.src_word_emb.weight", None, LACKS),
    ("labml", BIAS, None, MISSING),
    ("labml", BIAS, torch.zeros(3), r"{} is \[3\] in model\.pt, .* makes it \[15\]"),
    ("labml", "encoder.layers.1.extra", torch.zeros(3), "has a weight {} that this model"),
    ("labml", "tgt_embed.linear.weight", None, LACKS),
    ("labml", "tgt_embed.positional_encodings", None, LACKS),
    ("labml, one stack", "src_embed.positional_encodings", None, LACKS),
    ("labml, no biases", "encoder.layers.1.self_attn.value.linear.bias", None, MISSING),
    ("labml, gated", "decoder.layers.1.feed_forward.linear_v.weight", None, MISSING),
    ("fairseq", "encoder.layers.0.attn_ln.weight", torch.ones(22), "{} that this model"),
    ("fairseq", "decoder.output_projection.weight", None, LACKS),
    ("nanogpt", "transformer.h.1.mlp.c_proj.weight", None, LACKS),
    ("nanogpt", "transformer.ln_f.bias", None, LACKS),
    ("nanogpt", "transformer.h.0.attn.c_attn.bias", None, LACKS + r"[ .][^\[]*$"),
    ("nanogpt", "transformer.h.1.attn.c_attn.weight", None, LACKS + r"[ .][^\[]*$"),
    ("mingpt", "transformer.h.1.mlp.c_proj.weight", None, LACKS),
    ("mingpt", "lm_head.weight", None, LACKS),
    ("mingpt of 2020", "blocks.1.mlp.2.weight", None, LACKS),
    ("gpt2", "transformer.h.1.mlp.c_proj.weight", None, LACKS),
    ("gpt2", "transformer.ln_f.bias", None, LACKS),
]  # fmt: skip


@pytest.mark.slow
def test_weights_that_do_not_fit_are_named_as_in_the_file(tmp_path):
    for file, name, value, message in FAULTS:
        path = changed(FILES[file](tmp_path), name, value)
        refused(path, message.format(re.escape(name)))


#: A file, an override, the message.
OVERRIDES: list[tuple[str, State, str]] = [
    ("annotated", {"head": 3}, "no word 'head' to override; known are d_model, heads"),
    ("annotated", {"heads": 4}, "heads=4 does not divide the 15 rows .*; choose one of 1, "),
    ("annotated", {"norm": "sideways"}, "norm='sideways' is not supported"),
    ("annotated", {"d_model": "x"}, "d_model needs a whole number"),
    ("annotated", {"pad_id": -2}, "pad_id needs a whole number"),
    ("annotated", {"bos_id": 23}, "bos_id=23, but this model knows tokens 0 to 22"),
    ("annotated", {"max_positions": 30}, "max_positions=30 needs more rows than the 29"),
    ("annotated", {"encoder_layers": 0}, r"a weight src_embed\.0\.lut\.weight that this model"),
    ("jadore 2020", {"hedas": 3}, "no word 'hedas' to override; known are d_model"),
    ("jadore 2020", {"hedas": 3, "layout": "jadore_2019"}, "no word 'hedas' to override"),
    ("jadore 2020", {"hedas": 3, "layout": "jadore_2018"}, "no word 'hedas' to override"),
    ("jadore 2018", {"norm": "pre"}, "no word 'norm' to override"),
    ("jadore 2018", {"positions": "none"}, "no word 'positions' to override"),
    ("jadore 2018", {"final_norm": True}, "no word 'final_norm' to override"),
    ("jadore 2020, scaled", {"positions": "none"}, r"a weight encoder\..* that this model"),
    ("jadore 2020, scaled", {"embedding_norm": False}, r"a weight encoder\..* that this model"),
    ("labml, one stack", {"kind": "gpt"}, "kind='gpt' does not fit a file with one stack"),
    ("labml", {"kind": "decoder-only"}, "with two stacks; say encoder-decoder"),
    ("fairseq", {"positions": "learned"}, r"lacks the weight encoder\.embed_positions\.weight"),
    ("fairseq", {"decoder_layers": 0}, r"decoder\.embed_tokens\.weight that this model does"),
    ("nanogpt", {"heads": 5}, "heads=5 does not divide the 22 rows"),
    ("nanogpt", {"n_head": 2}, "There is no word 'n_head'"),
    ("nanogpt", {"d_model": 44}, r"transformer.wte.weight is \[37, 22\]"),
    ("nanogpt", {"eos_id": 37}, "eos_id=37, but this model knows tokens 0 to 36"),
]  # fmt: skip


@pytest.mark.slow
def test_overrides_that_do_not_fit_are_refused(tmp_path):
    for file, words, message in OVERRIDES:
        refused(FILES[file](tmp_path), message, **words)
    for file, table in (("fairseq", "source_vocab"), ("nanogpt", "target_vocab")):
        path = FILES[file](tmp_path)
        for word in ("d_model", table, "heads", "pad_id"):
            for value in ("x", None, 2.5, True, -7, [1]):
                refused(path, word, **{word: value})
