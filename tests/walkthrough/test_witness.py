"""Every number of Step inside against a second computation from the file's tensors and the ids."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import transformer_viz as tv
from tests.conftest import TINY, make_model
from tests.support.cases import case
from transformer_viz.checkpoints.common.bundled import PRETRAINED
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.sites import Site
from transformer_viz.core.stages import Walkthrough
from transformer_viz.walkthrough import step_inside

from .laws import CLOSE, differences, hold, hold_form, hold_sums, hold_together
from .witness import Numbers, Witness

SENTENCES = (
    "The animal didn't cross the street because it was too tired.",
    "The cat sat on the mat.",
    "A man is riding a horse along the beach.",
    "Two dogs are playing in the snow.",
    "She said that she would come tomorrow, but she never did.",
    "I have never seen such a beautiful house.",
    "The children are not allowed to play here after dark.",
    "Why did you leave the door open?",
    "He gave his sister the book that she had asked for.",
    "Yesterday it rained all day long.",
    "A woman in a red coat is talking to a small boy.",
    "The old bridge was closed for three months.",
    "We are looking for a teacher who speaks Chinese.",
    "Nobody knew where the money had gone.",
    "There is a bank on the other side of the river.",
    "Please give me the key to room 214.",
    "The train to Berlin leaves at half past nine.",
    "If I had known that, I would have called you.",
    "Three young people stand in front of a theatre and laugh.",
    "Green ideas sleep.",
)
FEW = (*SENTENCES[:2], SENTENCES[-1])  # long, ordinary, short
BLOCKS = (("encoder", "self"), ("decoder", "self"), ("decoder", "cross"))
SOURCE, TARGET = [4, 9, 6, 21, 9, 30, 3], [2, 7, 11, 19, 5]


@pytest.fixture(scope="module")
def en_de() -> Model:
    return tv.load("en-de", device="cpu")


def file_of(name: str) -> Witness:
    """The witness of a shipped model, straight from its two files."""
    words = json.loads((PRETRAINED / name / "config.json").read_text(encoding="utf-8"))
    return Witness(load_file(PRETRAINED / name / "weights.safetensors"), words)


def hold_to_witness(chain: Walkthrough, notes: Numbers) -> set[str]:
    """Hold every array and number of a chain to the witness; return their names."""
    found = differences(chain, notes)
    assert max(found.values()) <= CLOSE, max(found.items(), key=lambda item: item[1])
    return set(found)


@pytest.mark.shipped
@pytest.mark.parametrize(
    "sentences",
    [pytest.param(FEW, id="few"), pytest.param(SENTENCES, id="all", marks=pytest.mark.soak)],
)
def test_sentences_on_the_shipped_model(en_de, sentences):
    """Each sentence x 3 blocks x a head and a row drawn for each."""
    witness, draw = file_of("en-de"), np.random.default_rng(6)
    seen: set[str] = set()
    for sentence in sentences:
        best = tv.translate(en_de, sentence)[0]
        source, target = en_de.tokenizer.source_ids(sentence), [2, *best.ids[:-1]]
        for stack, block in BLOCKS:
            rows = len(source) if stack == "encoder" else len(target)
            layer, head, row = (int(draw.integers(size)) for size in (3, 8, rows))
            site = Site(stack, block, layer, head)
            chain = step_inside(en_de, sentence, target, site=site, row=row)
            notes = witness.run(source, target, (stack, block, layer, head, row))
            with case(sentence, site, row):
                hold_form(chain)
                hold_together(chain, post=False)
                seen |= hold_to_witness(chain, notes)
    assert len(seen) > 60


@pytest.mark.shipped
def test_every_number_opens_as_a_sum_on_the_shipped_model(en_de):
    for number, (stack, block) in enumerate(BLOCKS):
        site = Site(stack, block, number, 5 - number)
        chain = step_inside(en_de, SENTENCES[0], "Das Tier.", site=site, row=3)
        assert hold_sums(en_de, chain, most=7) > 100


@pytest.mark.shipped
def test_the_other_shipped_text_models():
    text, target = "The animal was too tired.", [2, 11, 7, 15]
    for name in ("en-lm", "en-mlm", "en-de-small"):
        model, witness = tv.load(name, device="cpu"), file_of(name)
        lone = model.kind != "encoder-decoder"
        stack = "decoder" if model.kind == "decoder-only" else "encoder"
        read = model.tokenizer.prompt_ids if stack == "decoder" else model.tokenizer.source_ids
        site = Site(stack, "self", 1, 1)
        chain = step_inside(model, text, None if lone else target, site=site, row=2)
        notes = witness.run(list(read(text)), target, (stack, "self", 1, 1, 2))
        with case(name):
            hold_to_witness(chain, notes)


WORDS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "post": {"norm": "post", "final_norm": False},
    "post, embedding norm": {"norm": "post", "embedding_norm": True, "final_norm": False},
    "query only": {"norm": "query_only", "embedding_norm": True},
    "annotated": {"norm_kind": "annotated", "norm_eps": 1e-2},
    "rms": {"norm_kind": "rms", "norm": "post"},
    "no final norm": {"final_norm": False},
    "halves": {"positions": "sinusoidal_halves", "embedding_scale": 4.7},
    "learned": {"positions": "learned"},
    "rotary": {"positions": "rotary", "d_k": 10},
    "no positions": {"positions": "none"},
    "dot": {"score": "dot"},
    "general": {"score": "general"},
    "additive": {"score": "additive"},
    "location": {"score": "location", "max_positions": 17},
    "rotary, additive": {"positions": "rotary", "d_k": 10, "score": "additive"},
    "rotary, location": {
        "positions": "rotary",
        "d_k": 10,
        "score": "location",
        "max_positions": 17,
    },
    "gated": {"gated": True, "activation": "silu"},
    "gelu": {"activation": "gelu"},
    "gelu by tanh": {"activation": "gelu_tanh"},
    "gated sigmoid": {"gated": True, "activation": "sigmoid"},
    "tanh": {"activation": "tanh"},
    "identity": {"activation": "identity"},
    "no bias": {"attention_bias": False},
    "low fill": {"mask_fill": -1e9},
    "one table": {"source_vocab": 41, "tied": "all"},
    "decoder alone": {"encoder_layers": 0, "source_vocab": 0},
    "encoder alone": {"decoder_layers": 0, "target_vocab": 0},
}


@pytest.mark.slow
def test_every_word_of_the_config():
    """Tiny models with every choice a trainer has, at every block, layer and head, padding too."""
    source = [*SOURCE, 0, 0]  # two tokens of padding
    for name, words in WORDS.items():
        model = make_model(TINY, **words)
        tensors = {name: x.detach().numpy() for name, x in model.module.state_dict().items()}
        witness, both = Witness(tensors, model.config), model.kind == "encoder-decoder"
        for stack, block in BLOCKS if both else [(model.kind.split("-")[0], "self")]:
            rows = len(TARGET) if both and stack == "decoder" else len(source)
            for layer in range(model.config[f"{stack}_layers"]):
                head, row = layer % 2, (3 * layer + 2) % rows
                site = Site(stack, block, layer, head)
                chain = step_inside(model, source, TARGET if both else None, site=site, row=row)
                notes = witness.run(source, TARGET, (stack, block, layer, head, row))
                with case(name, site):
                    hold_to_witness(chain, notes)
                    assert hold(model, chain, most=3, seed=layer) > 50
