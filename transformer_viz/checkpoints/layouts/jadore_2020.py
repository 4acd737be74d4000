"""jadore801120/attention-is-all-you-need-pytorch since June 2020.

Post-norm, with a norm on the embeddings too and none at the end. Files of November 2019 to May 2020
(:mod:`.jadore_2019`) have the same names and shapes but other norms. Only the setting
``scale_emb_or_prj``, since January 2021, distinguishes them.
"""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from ...model import ModelConfig, Transformer
from ...preprocessing.tokenizers import Tokenizer
from ..common import native
from ..common.build_reference import (
    PLAIN,
    ReferencePlan,
    add,
    build_reference_model,
    settings,
    sidecar,
    special_ids,
    widths,
)
from ..common.calibration import calibrated, calibrated_heads
from ..common.candidate import Candidate
from ..common.model import Model
from ..common.provenance import resolve
from ..common.rename_keys import Table, patterns, size
from ..common.stated import REFERENCE, stated
from ..common.word_checks import refuse_unknown
from .jadore import CLOSED, SUBLAYERS, measured, projected, stacked, told

NAME, EARLIER = "jadore_2020", "jadore_2019"
WORDS = native.WORDS
TABLE: Table = (
    *SUBLAYERS,
    ("encoder.src_word_emb.weight", "encoder.embedding.tokens.weight"),
    ("decoder.trg_word_emb.weight", "decoder.embedding.tokens.weight"),
    ("{stack}.position_enc.pos_table", "{stack}.embedding.positions.table"),
    ("{stack}.layer_norm.{part}", "{stack}.embedding.norm.{part}"),
    ("{stack}.layer_norm.{part}", "{stack}.norm.{part}"),
    ("trg_word_prj.weight", "output.weight"),
)
NAMES = patterns(TABLE)
STATED = tuple(word for word in REFERENCE if word != "norm")  # it has two of its own
TABLES = {stack: f"{stack}.position_enc.pos_table" for stack in ("encoder", "decoder")}
#: The axes of a position table before d_model, for tables under mapped names.
TABLE_SHAPES = {"{stack}.position_enc.pos_table": (1, -1)}
USUAL_IDS = {"pad_id": 1, "bos_id": 2, "eos_id": 3}  # of a torchtext vocabulary
ADVICE = (
    "Files of November 2019 to May 2020 (norm='query_only') and later ones (norm='post') look the "
    "same: say which if you know."
)


def recognise(found: Candidate) -> bool:
    """Return True if the names of the weights are those of this code base since November 2019."""
    return stacked(found) and TABLES["encoder"] in found.weights.tensors


def open(found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]) -> Model:
    """Return the reference Transformer described by settings and shapes, with the file's weights.

    Raises:
        CheckpointError: Overrides are unknown or impossible, or weights do not fit.
    """
    refuse_unknown(overrides, WORDS)
    words, origins = _words(found, tokenizer, overrides)
    if "norm" not in words:
        return calibrated(
            ("norm", "embedding_norm", "final_norm"),
            ("post", "query_only"),
            "post",
            lambda chosen: open(found, tokenizer, overrides | chosen),
            ADVICE,
        )
    if "heads" not in words:
        return calibrated_heads(
            projected(found.weights), lambda chosen: open(found, tokenizer, overrides | chosen)
        )
    return _made(found, tokenizer, words, origins)


class TargetPadded(Transformer):
    """Transformer whose target has a separate padding token."""

    def __init__(self, config: ModelConfig, target_pad: int):
        super().__init__(config)
        self.target_pad = target_pad

    def causal_mask(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        own = (ids != self.target_pad)[:, None, None, :]
        return super().causal_mask(ids, own if mask is None else mask)


def _words(
    found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return all known options; placement of norms and heads may be missing."""
    weights = found.weights
    held = settings(weights, "settings")
    newest = {"norm": "post"} if "scale_emb_or_prj" in held else {}
    sizes = measured(weights, "trg")
    beside = special_ids(found, tokenizer, sizes) | sidecar(found, WORDS)
    tables = [size(weights, name, 3)[1] for name in TABLES.values()]
    words, origins = resolve(
        overrides,
        ("file", told(weights, "trg") | newest),
        *stated(found, STATED, sizes, beside, rows=math.gcd(*projected(weights).values())),
        ("shapes", sizes | {"max_positions": min(tables)}),
        ("layout", {"attention_bias": False, "mask_fill": -1e9, "norm_eps": 1e-6}),
        ("convention", USUAL_IDS),
    )
    scales = _scales(held, words["tied"], sizes["d_model"])
    # Without settings, a file since 2021 may scale the embeddings instead.
    unsaid = "layout" if held or words["tied"] not in ("output", "all") else "convention"
    add(words, origins, "file" if newest else unsaid, scales)
    if "norm" in words:
        early = words["norm"] != "post"
        origin = "layout" if origins["norm"] == "override" else origins["norm"]
        add(words, origins, origin, {"embedding_norm": not early, "final_norm": early})
    if "heads" in words:
        add(words, origins, "shapes", widths(words["heads"], projected(weights)))
    add(words, origins, "layout", PLAIN)
    return words, origins


def _scales(held: dict[str, Any], tied: str, d_model: int) -> dict[str, float]:
    """Return the scales; they apply only if the output projection shares its matrix."""
    what = held.get("scale_emb_or_prj", "prj") if tied in ("output", "all") else "none"
    root = math.sqrt(d_model)
    return {
        "embedding_scale": root if what == "emb" else 1.0,
        "logit_scale": 1 / root if what == "prj" else 1.0,
    }


def _made(
    found: Candidate, tokenizer: Tokenizer | None, words: dict[str, Any], origins: dict[str, str]
) -> Model:
    held = settings(found.weights, "settings")
    target_pad = held.get("trg_pad_idx", words["pad_id"])
    native.check_types({"pad_id": target_pad})
    plain = target_pad == words["pad_id"] or origins["pad_id"] == "override"
    return build_reference_model(
        found,
        ReferencePlan(
            NAME if words["norm"] == "post" else EARLIER,
            words,
            origins,
            TABLE,
            tokenizer=tokenizer,
            stored={stack: size(found.weights, name, 3) for stack, name in TABLES.items()},
            make=Transformer if plain else lambda config: TargetPadded(config, target_pad),
            closed=CLOSED,
        ),
    )
