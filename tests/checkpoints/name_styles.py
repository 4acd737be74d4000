"""The same models under the names that different people give their fields.

Each style rewrites the names that a layout has, so that the right answer is known for each weight.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from transformer_viz.model import ModelConfig, Transformer

from .own_models import VS, VT, D, F, H, P, sinusoid
from .witness import State

Style = tuple[tuple[str, str], ...]


def tutorial(shared: bool = False, positions: str = "stored", same: bool = False) -> State:
    """Return a translator's tensors under the names of the layout torch_tutorial_seq2seq."""
    target = VS if same or shared else VT
    core = nn.Transformer(D, H, 2, 2, F)
    found: State = {"src_tok_emb.embedding.weight": torch.randn(VS, D)}
    if not shared:
        found["tgt_tok_emb.embedding.weight"] = torch.randn(target, D)
    if positions == "stored":
        found["positional_encoding.pos_embedding"] = sinusoid()[:, None]
    elif positions == "two":
        found["positional_encoding.pos_embedding"] = torch.randn(P, D)
        found["tgt_positional_encoding.pos_embedding"] = torch.randn(P, D)
    found |= {f"transformer.{name}": t for name, t in core.state_dict().items()}
    return found | {
        "generator.weight": torch.randn(target, D),
        "generator.bias": torch.zeros(target),
    }


def reference(encoder_layers: int = 2, bias: bool = True) -> State:
    """Return a Transformer's tensors under the names of the layout reference."""
    sizes: dict[str, Any] = {"d_model": D, "heads": H, "d_ff": F, "max_positions": P}
    source, target = (VS, VT) if encoder_layers else (0, VS)
    config = ModelConfig(
        **sizes, encoder_layers=encoder_layers, decoder_layers=2, source_vocab=source,
        target_vocab=target, positions="learned", attention_bias=bias, output_bias=True,
    )  # fmt: skip
    state = Transformer(config).state_dict()
    return {
        name.replace("positions.table.weight", "positions.table"): w for name, w in state.items()
    }


def encoder(rows: int) -> State:
    """Return an encoder's tensors under the names of the layout torch_language_model."""
    layer = nn.TransformerEncoderLayer(D, H, F)
    stack = nn.TransformerEncoder(layer, 2, nn.LayerNorm(D), enable_nested_tensor=False)
    found: State = {"embedding.weight": torch.randn(VS, D), "pos_encoder.pe": sinusoid()[None]}
    found |= {f"transformer_encoder.{name}": t for name, t in stack.state_dict().items()}
    return found | {"linear.weight": torch.randn(rows, D), "linear.bias": torch.zeros(rows)}


def renamed(state: State, style: Style) -> tuple[State, dict[str, str]]:
    """Return the tensors under the style's names, and the right table."""
    made, right = {}, {}
    for name, tensor in state.items():
        own = name
        for form, new in style:
            own = re.sub(form, new, own)
        made[own], right[own] = tensor, name
    assert len(made) == len(state)
    return made, right


def turned(state: State) -> State:
    """Return the tensors with those outside of the layers last."""
    inside = {name: t for name, t in state.items() if ".layers." in name}
    return inside | {name: t for name, t in state.items() if name not in inside}


def style(source: str, target: str, core: str, output: str, positions: str = "pos.pe") -> Style:
    """Return the rewriting of a translator's names."""
    return (
        (r"^src_tok_emb\.embedding", source),
        (r"^tgt_tok_emb\.embedding", target),
        (r"^tgt_positional_encoding\.pos_embedding", "trg_pos.weight"),
        (r"^positional_encoding\.pos_embedding", positions),
        (r"^transformer\.", core),
        (r"^generator", output),
    )


APART = (
    (r"^transformer\.encoder\.", "enc."), (r"^transformer\.decoder\.", "dec."),
)  # fmt: skip
HANDS = (
    (r"self_attention\.", "slf_att."), (r"cross_attention\.", "enc_dec_att."),
    (r"\.query\.", ".wq."), (r"\.key\.", ".wk."), (r"\.value\.", ".wv."),
    (r"att\.output\.", "att.wo."), ("self_norm", "norm1"),
    (r"(decoder\.layers\.\d\.)cross_norm", r"\1norm2"),
    (r"(decoder\.layers\.\d\.)feed_forward_norm", r"\1norm3"), ("feed_forward_norm", "norm2"),
    (r"feed_forward\.inner", "ffn.linear1"), (r"feed_forward\.outer", "ffn.linear2"),
    (r"embedding\.tokens", "emb"), (r"embedding\.positions\.table", "pos.weight"),
    ("^output", "decoder.out"),
)  # fmt: skip
KARPATHY = (
    (r"^decoder\.embedding\.tokens", "token_embedding_table"),
    (r"^decoder\.embedding\.positions\.table", "position_embedding_table.weight"),
    (r"^decoder\.layers", "blocks"), (r"self_attention\.output", "sa.proj"),
    ("self_attention", "sa"), (r"feed_forward\.inner", "ffwd.net.0"),
    (r"feed_forward\.outer", "ffwd.net.2"), ("self_norm", "ln1"), ("feed_forward_norm", "ln2"),
    (r"^decoder\.norm", "ln_f"), ("^output", "lm_head"),
)  # fmt: skip
LISTED = (
    (r"(self|cross)_attention\.query", r"\1_attn.linears.0"),
    (r"(self|cross)_attention\.key", r"\1_attn.linears.1"),
    (r"(self|cross)_attention\.value", r"\1_attn.linears.2"),
    (r"(self|cross)_attention\.output", r"\1_attn.linears.3"), ("self_norm", "sublayer.0.norm"),
    (r"(decoder\.layers\.\d\.)cross_norm", r"\1sublayer.1.norm"),
    (r"(decoder\.layers\.\d\.)feed_forward_norm", r"\1sublayer.2.norm"),
    ("feed_forward_norm", "sublayer.1.norm"), (r"feed_forward\.inner", "feed_forward.w_1"),
    (r"feed_forward\.outer", "feed_forward.w_2"),
    (r"^encoder\.embedding\.tokens", "src_embed.0.lut"),
    (r"^decoder\.embedding\.tokens", "tgt_embed.0.lut"),
    (r"^encoder\.embedding\.positions\.table", "src_embed.1.pe"),
    (r"^decoder\.embedding\.positions\.table", "tgt_embed.1.pe"), ("^output", "generator.proj"),
)  # fmt: skip
PORTED = (
    (r"\.layers\.", ".dec_layers."), (r"self_attention\.output", "mha1.dense"),
    (r"cross_attention\.output", "mha2.dense"), ("self_attention", "mha1"),
    ("cross_attention", "mha2"), (r"(decoder\.dec_layers\.\d\.)self_norm", r"\1layernorm1"),
    (r"(decoder\.dec_layers\.\d\.)cross_norm", r"\1layernorm2"),
    (r"(decoder\.dec_layers\.\d\.)feed_forward_norm", r"\1layernorm3"),
    ("self_norm", "layernorm1"), ("feed_forward_norm", "layernorm2"),
    (r"feed_forward\.inner", "ffn.0"), (r"feed_forward\.outer", "ffn.2"),
    (r"embedding\.tokens", "embedding"), (r"embedding\.positions\.table", "pos_encoding"),
    (r"\.query\.", ".wq."), (r"\.key\.", ".wk."), (r"\.value\.", ".wv."),
    ("^output", "final_layer"),
)  # fmt: skip
BLOCKS = (
    (r"^transformer_encoder\.norm", "ln_final"), (r"^transformer_encoder\.layers", "blocks"),
    (r"self_attn\.", "attn."), ("linear1", "mlp.0"), ("linear2", "mlp.3"), ("norm1", "ln_attn"),
    ("norm2", "ln_mlp"), ("^embedding", "wte"), (r"^pos_encoder\.pe", "wpe.weight"),
    ("^linear", "head"),
)  # fmt: skip

SIDES = (
    (r"^transformer\.(encoder|decoder)\.", r"\1.transformer_\1."),
    (r"^src_tok_emb\.embedding", "encoder.embedding"),
    (r"^tgt_tok_emb\.embedding", "decoder.embedding"),
    (r"^tgt_positional_encoding\.pos_embedding", "decoder.pos_encoder.pe"),
    (r"^positional_encoding\.pos_embedding", "encoder.pos_encoder.pe"),
    (r"^generator", "decoder.fc"),
)
CLASSIFIER = ((r"^transformer_encoder", "encoder"), (r"^linear", "classifier"),
              (r"^embedding", "emb"))  # fmt: skip

#: By name: the tensors under a layout's names, the layout, and the style.
STYLES: dict[str, tuple[Callable[[], State], str, Style]] = {
    **{name: (make, "torch_tutorial_seq2seq", rules) for name, make, rules in (
        ("the journey", lambda: tutorial(positions="none"),
         style("encoder_emb", "decoder_emb", "core.", "fc_out")),
        ("words and positions", lambda: tutorial(positions="two"),
         style("src_word_embedding", "trg_word_embedding", "transformer.", "fc_out",
               "src_pos.weight")),
        ("tables last", lambda: turned(tutorial()), style("emb_in", "emb_out", "trf.", "lin")),
        ("stacks apart", tutorial,
         (*APART, *style("tok_src", "tok_tgt", "", "proj_out", "pos_enc.pe"))),
        ("camel case", tutorial,
         style("srcEmbedding", "tgtEmbedding", "transformerModel.", "outputLayer",
               "posEncoder.pe")),
        ("letters", tutorial, style("a", "b", "c.", "d", "e")),
        ("letters, equal vocabularies", lambda: tutorial(same=True),
         style("a", "b", "c.", "d", "e")),
        ("German", lambda: tutorial(positions="none"),
         style("quelle", "ziel", "kern.", "ausgabe")),
        ("dictionaries in a model", tutorial,
         style("net.emb.src", "net.emb.tgt", "net.seq2seq.", "net.head", "net.pos.pe")),
        ("one table", lambda: tutorial(shared=True),
         style("shared", "", "model.", "lm_head", "pos_emb")),
        ("sides with tables of their own", lambda: tutorial(positions="two"), SIDES),
        ("input and output", lambda: turned(tutorial(same=True)),
         style("input_embedding", "output_embedding", "body.", "output_projection")),
    )},
    "projections apart": (reference, "reference", HANDS),
    "lists of projections": (reference, "reference", LISTED),
    "a port": (reference, "reference", PORTED),
    "a GPT": (lambda: reference(0, bias=False), "reference", KARPATHY),
    "blocks": (lambda: encoder(VS), "torch_language_model", BLOCKS),
    "a classifier": (lambda: encoder(3), "torch_language_model", CLASSIFIER),
}  # fmt: skip


def file_of(name: str) -> tuple[dict[str, Tensor], dict[str, str], str]:
    """Return a style's tensors, the right table, and the layout."""
    make, layout, rules = STYLES[name]
    state, right = renamed(make(), rules)
    return state, right, layout
