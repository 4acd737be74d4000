"""Files as jadore801120/attention-is-all-you-need-pytorch saves them, and what it computes."""

from __future__ import annotations

import argparse
import tempfile
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformer_viz.checkpoints.common.candidate import Candidate
from transformer_viz.checkpoints.layouts import jadore_2018, jadore_2019, jadore_2020

from .rows import Row, compared
from .witness import Streams, attend, hidden_future, hidden_keys, layer_norm, linear, random

D, H, DK, DV, F, VS, VT, P = 14, 3, 5, 7, 17, 19, 23, 29
LAYERS = {"encoder": 2, "decoder": 3}
WITNESS = "float64, by hand from the file's tensors"
LAYOUTS = {"2018": jadore_2018, "2019": jadore_2019, "2020": jadore_2020}


def sinusoid(positions: int, first: int = 0) -> Tensor:
    """``sin(p / 10000^(2 (j // 2) / D))`` in even columns, the cosine in odd ones."""
    rows = [
        [
            (torch.sin if j % 2 == 0 else torch.cos)(
                torch.tensor(p / 10000 ** (2 * (j // 2) / D), dtype=torch.float64)
            )
            for j in range(D)
        ]
        for p in range(first, first + positions)
    ]
    return torch.tensor(rows).float()


def state(version: str, embs: bool, proj: bool) -> dict[str, Tensor]:
    """A state dict with the names and shapes of a version; shared tables are one matrix."""
    old = version == "2018"
    target = "tgt" if old else "trg"
    shapes: dict[str, tuple[int, ...]] = {
        "encoder__src_word_emb__weight": (VT if embs else VS, D),
        f"decoder__{target}_word_emb__weight": (VT, D),
        f"{target}_word_prj__weight": (VT, D),
    }
    for stack, layers in LAYERS.items():
        if not old:
            shapes |= {f"{stack}__layer_norm__{part}": (D,) for part in ("weight", "bias")}
        blocks = ("slf_attn", "enc_attn") if stack == "decoder" else ("slf_attn",)
        for n in range(layers):
            at = f"{stack}__layer_stack__{n}__"
            for block in blocks:
                shapes |= {
                    f"{at}{block}__w_qs__weight": (H * DK, D),
                    f"{at}{block}__w_ks__weight": (H * DK, D),
                    f"{at}{block}__w_vs__weight": (H * DV, D),
                    f"{at}{block}__fc__weight": (D, H * DV),
                    f"{at}{block}__layer_norm__weight": (D,),
                    f"{at}{block}__layer_norm__bias": (D,),
                }
                if old:
                    wide = {"w_qs": H * DK, "w_ks": H * DK, "w_vs": H * DV, "fc": D}
                    shapes |= {f"{at}{block}__{w}__bias": (size,) for w, size in wide.items()}
            shapes |= {
                f"{at}pos_ffn__w_1__weight": (F, D),
                f"{at}pos_ffn__w_1__bias": (F,),
                f"{at}pos_ffn__w_2__weight": (D, F),
                f"{at}pos_ffn__w_2__bias": (D,),
                f"{at}pos_ffn__layer_norm__weight": (D,),
                f"{at}pos_ffn__layer_norm__bias": (D,),
            }
    made = random(7, **shapes)
    for name in made:
        if old and ("w_1.weight" in name or "w_2.weight" in name):
            made[name] = made[name][..., None]  # a convolution of width 1
    for stack in LAYERS:
        if old:
            table = torch.cat((torch.zeros(1, D), sinusoid(P - 1, 1)))
            made[f"{stack}.position_enc.weight"] = table
        else:
            made[f"{stack}.position_enc.pos_table"] = sinusoid(P)[None]
    if embs:
        made["encoder.src_word_emb.weight"] = made[f"decoder.{target}_word_emb.weight"]
    if proj:
        made[f"{target}_word_prj.weight"] = made[f"decoder.{target}_word_emb.weight"]
    return made


def content(version: str, embs: bool, proj: bool, scale: str | None = None) -> dict[str, Any]:
    """What ``model.chkpt`` holds: the epoch, the settings as a Namespace, the weights."""
    words: dict[str, Any] = {
        "d_model": D,
        "d_word_vec": D,
        "d_inner_hid": F,
        "d_k": DK,
        "d_v": DV,
        "n_head": H,
        "n_layers": 2,
        "dropout": 0.1,
        "src_vocab_size": VT if embs else VS,
        "embs_share_weight": embs,
        "proj_share_weight": proj,
    }
    if version == "2018":
        words |= {"tgt_vocab_size": VT, "max_token_seq_len": P - 1}
    else:
        words |= {"trg_vocab_size": VT, "src_pad_idx": 1, "trg_pad_idx": 1}
    if scale is not None:
        words["scale_emb_or_prj"] = scale
    settings = argparse.Namespace(**words)
    return {"epoch": 3, "settings": settings, "model": state(version, embs, proj)}


def witness(
    version: str,
    held: dict[str, Any],
    source: Tensor,
    target: Tensor,
    streams: Streams | None = None,
) -> tuple[list[Tensor], Tensor]:
    """Return attention maps in call order and logits.

    The code of 2018 clears padding after each norm and counts positions from 1; that of 2019
    normalises the query alone, that of 2020 each sum, and both the embeddings or the output.

    Args:
        version: the year of the code.
        held: the content of a file.
        source: ids ``[batch, token]``.
        target: ids ``[batch, token]``.
        streams: receives what flows between layers.
    """
    streams = {"encoder": [], "decoder": []} if streams is None else streams
    w, words = held["model"], vars(held["settings"])
    old, early = version == "2018", version == "2019"
    eps, fill = (1e-5, float("-inf")) if old else (1e-6, -1e9)
    scale = words.get("scale_emb_or_prj", "prj") if words["proj_share_weight"] else "none"
    pads = (0, 0) if old else (words["src_pad_idx"], words["trg_pad_idx"])
    maps: list[Tensor] = []

    def normed(x: Tensor, name: str) -> Tensor:
        return layer_norm(x, w[f"{name}.weight"], w[f"{name}.bias"], eps)

    def attention(at: str, queries: Tensor, keys: Tensor, hidden: Tensor) -> Tensor:
        q, k, v = (
            linear(x, w, f"{at}.{part}")
            for x, part in ((queries, "w_qs"), (keys, "w_ks"), (keys, "w_vs"))
        )
        context, weights = attend(q, k, v, H, hidden, fill)
        maps.append(weights)
        return linear(context, w, f"{at}.fc")

    def feed_forward(at: str, x: Tensor) -> Tensor:
        flat = {name: value[..., 0] if value.dim() == 3 else value for name, value in w.items()}
        return linear(linear(x, flat, f"{at}.w_1").relu(), flat, f"{at}.w_2")

    def embedded(name: str, table: str, ids: Tensor) -> Tensor:
        x = w[table].double()[ids] * (D**0.5 if scale == "emb" else 1.0)
        if old:
            places = torch.arange(1, ids.shape[1] + 1).repeat(len(ids), 1) * (ids != 0)
            return x + w[f"{name}.position_enc.weight"].double()[places]
        x = x + w[f"{name}.position_enc.pos_table"][0, : ids.shape[1]].double()
        return x if early else normed(x, f"{name}.layer_norm")

    def stack(name: str, table: str, ids: Tensor, hidden: Tensor, memory: Any = None) -> Tensor:
        real = (ids != 0).double()[..., None] if old else 1.0
        x = embedded(name, table, ids)
        for n in range(LAYERS[name]):
            streams[name].append(x)
            at = f"{name}.layer_stack.{n}"
            blocks = [("slf_attn", None, hidden)]
            if memory is not None:
                blocks.append(("enc_attn", *memory))
            for block, other, mask in blocks:
                asked = normed(x, f"{at}.{block}.layer_norm") if early else x
                out = x + attention(f"{at}.{block}", asked, x if other is None else other, mask)
                x = out if early else normed(out, f"{at}.{block}.layer_norm") * real
            asked = normed(x, f"{at}.pos_ffn.layer_norm") if early else x
            out = x + feed_forward(f"{at}.pos_ffn", asked)
            x = out if early else normed(out, f"{at}.pos_ffn.layer_norm") * real
        streams[name].append(normed(x, f"{name}.layer_norm") if early else x)
        return streams[name][-1]

    hidden = hidden_keys(source, pads[0], source.shape[1])
    memory = stack("encoder", "encoder.src_word_emb.weight", source, hidden)
    own = hidden_keys(target, pads[1], target.shape[1]) | hidden_future(target)
    cross = hidden_keys(source, pads[0], target.shape[1])
    name = "tgt" if old else "trg"
    x = stack("decoder", f"decoder.{name}_word_emb.weight", target, own, (memory, cross))
    logits = x @ w[f"{name}_word_prj.weight"].double().T
    return maps, logits * (D**-0.5 if scale == "prj" else 1.0)


def inputs(pad: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Two sentences with padding; and a source of nothing else, a target that begins with it."""
    source = torch.tensor([[4, 9, 18, 6, 11], [7, 5, 3, pad, pad]])
    target = torch.tensor([[2, 12, 22, 8], [2, 17, pad, pad]])
    empty = torch.tensor([[4, 9, 18], [pad, pad, pad]])
    late = torch.tensor([[2, 12, 22, 8], [pad, 17, 5, pad]])
    return {"padding": (source, target), "rows that may see nothing": (empty, late)}


def variants() -> list[tuple[str, str, dict[str, Any]]]:
    """Version, name and content of each kind of file."""
    made = []
    for embs, proj in product((False, True), repeat=2):
        ties = f"{'shared' if embs else 'own'} embeddings, {'shared' if proj else 'own'} projection"
        made += [
            ("2020", f"{ties}, scale {scale}", content("2020", embs, proj, scale))
            for scale in ("emb", "prj", "none")
        ]
        made += [(v, ties, content(v, embs, proj)) for v in ("2020", "2019", "2018")]
    other = content("2020", False, False, "prj")
    other["settings"].trg_pad_idx = 3
    return [*made, ("2020", "two padding ids", other)]


def target_pad(held: dict[str, Any]) -> int:
    """The padding id of the target; 2018 knows but 0."""
    return getattr(held["settings"], "trg_pad_idx", 0)


@cache
def rows() -> list[Row]:
    """Every kind of file with padding; for each version the worst where a row may see nothing."""
    found, blind = [], dict.fromkeys(LAYOUTS, (0.0, 0.0))
    with tempfile.TemporaryDirectory() as folder:
        for version, name, held in variants():
            layout, path = LAYOUTS[version], Path(folder) / "model.chkpt"
            torch.save(held, path)
            model = layout.open(Candidate(path, {}), None, {})
            for case, (source, target) in inputs(model.pad_id or 0).items():
                target = torch.where(target == 1, target_pad(held), target)
                apart = compared(model, (source, target), *witness(version, held, source, target))
                if case == "padding":
                    found.append(Row(layout.NAME, f"{name}; {case}", *apart, WITNESS))
                else:
                    worse = zip(blind[version], apart, strict=True)
                    blind[version] = max(next(worse)), max(next(worse))
    return found + [
        Row(layout.NAME, "all of these; rows that may see nothing", *blind[version], WITNESS)
        for version, layout in LAYOUTS.items()
    ]
