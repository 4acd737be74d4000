"""Folders as the transformers library saves them, and what their numbers mean, written down again.

The witnesses are a literal reading of each architecture on the tensors of the saved files, in
float64; no code of the library or of the package is in them. tests/families holds a hundred kinds
against the library's own report.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import transformers
from torch import Tensor

from transformer_viz.checkpoints import Model, load

from . import gpt
from .rows import Row, compared
from .witness import State, attend, hidden_future, hidden_keys, layer_norm, linear

D, HEADS, LAYERS, F, V, P = 20, 2, 3, 27, 37, 23
PAD, START = 1, 2
IDS = torch.tensor([[5, 11, 17, 36, 9, 7, 19], [8, 30, 3, 12, 21, PAD, PAD]])
TARGET = torch.tensor([[START, 4, 9, 33], [START, 13, 6, 6]])
PAIRS = torch.cat((IDS, torch.full((1, 7), PAD)))  # the last line is nothing but padding
SEGMENTS = torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 0, 0], [0] * 7])
TEXT = {"vocab_size": V, "pad_token_id": PAD, "bos_token_id": START, "eos_token_id": 0}
BERT = {
    "hidden_size": D,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": F,
}
Witness = tuple[list[Tensor], Tensor]


def made(cls: str, config: str, **words: Any) -> Any:
    """A model of the library with strong random weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(7)
        model = getattr(transformers, cls)(getattr(transformers, config)(**words))
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=draw)
            if parameter.dim() < 2:
                parameter.add_(noise / 4)
            elif "embed_positions" not in name:
                parameter.copy_(noise * 1.2 / parameter.shape[-1] ** 0.5)
    return model.eval()


def saved(model: Any, folder: Path, **options: Any) -> Path:
    """The model's folder, as ``save_pretrained`` writes it."""
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder, **options)
    return folder


def as_torch(folder: Path) -> Path:
    """The same folder with its weights in files of torch.save, as older versions wrote them."""
    for path in sorted(folder.glob("*.safetensors")):
        name = path.name.replace("model", "pytorch_model").replace(".safetensors", ".bin")
        torch.save(safetensors.torch.load_file(path), folder / name)
        path.unlink()
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        text = index.read_text().replace("model-", "pytorch_model-").replace(".safetensors", ".bin")
        (folder / "pytorch_model.bin.index.json").write_text(text)
        index.unlink()
    return folder


def state_of(folder: Path) -> dict[str, Tensor]:
    """Every tensor of a folder, from whatever files it has."""
    state: dict[str, Tensor] = {}
    for path in folder.glob("*.safetensors"):
        state |= safetensors.torch.load_file(path)
    for path in folder.glob("*.bin"):
        state |= torch.load(path, weights_only=True)
    return state


def normed(x: Tensor, state: State, name: str, eps: float) -> Tensor:
    return layer_norm(x, state[f"{name}.weight"], state[f"{name}.bias"], eps)


def rms(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * gain.double()


def erf(x: Tensor) -> Tensor:
    return x * (1 + torch.erf(x / 2**0.5)) / 2


LOWEST = torch.finfo(torch.float32).min


def bert(state: State) -> Witness:
    """A masked language model: post-norm, three embeddings, the output tied to the words.

    Fused attention leaves a row empty that sees nothing: its weights and its context are 0.
    """
    e = "bert.embeddings."
    x = state[f"{e}word_embeddings.weight"].double()[PAIRS]
    x = x + state[f"{e}position_embeddings.weight"].double()[: PAIRS.shape[1]]
    x = x + state[f"{e}token_type_embeddings.weight"].double()[SEGMENTS]
    x = normed(x, state, f"{e}LayerNorm", 1e-12)
    hidden = hidden_keys(PAIRS, PAD, PAIRS.shape[1])
    sees = (~hidden).any(-1, keepdim=True)
    maps = []
    for n in range(LAYERS):
        h = f"bert.encoder.layer.{n}."
        q, k, v = (linear(x, state, f"{h}attention.self.{r}") for r in ("query", "key", "value"))
        context, weights = attend(q, k, v, HEADS, hidden, LOWEST)
        maps.append(weights * sees[:, None])
        x = x + linear(context * sees, state, f"{h}attention.output.dense")
        x = normed(x, state, f"{h}attention.output.LayerNorm", 1e-12)
        inner = erf(linear(x, state, f"{h}intermediate.dense"))
        x = normed(
            x + linear(inner, state, f"{h}output.dense"), state, f"{h}output.LayerNorm", 1e-12
        )
    x = erf(linear(x, state, "cls.predictions.transform.dense"))
    x = normed(x, state, "cls.predictions.transform.LayerNorm", 1e-12)
    words = state[f"{e}word_embeddings.weight"].double()
    return maps, x @ words.T + state["cls.predictions.bias"].double()


def gpt2(state: State) -> Witness:
    """Weights ``[in, out]``, queries, keys and values in one, the output tied."""
    held = {**state, "lm_head.weight": state["transformer.wte.weight"]}
    return gpt.forward(held, IDS[:1], gpt.tanh, heads=HEADS, conv=True)


def llama(state: State) -> Witness:
    """RMS norms, rotated halves, two query heads to one key head, a gate; padding on the left side
    of nothing: the second line ends in padding, which counts as no position."""
    width = D // HEADS
    table = state["model.embed_tokens.weight"].double()
    x = table[IDS]
    places = ((IDS != PAD).long().cumsum(-1) - 1).clamp(min=0)
    angles = places[..., None] * 10000.0 ** (-torch.arange(0, width, 2).double() / width)
    angles = torch.cat((angles, angles), dim=-1)

    def turned(x: Tensor, heads: int) -> Tensor:
        parts = []
        for part in x.chunk(heads, dim=-1):
            first, second = part.chunk(2, dim=-1)
            half = torch.cat((-second, first), dim=-1)
            parts.append(part * angles.cos() + half * angles.sin())
        return torch.cat(parts, dim=-1)

    hidden = hidden_keys(IDS, PAD, IDS.shape[1]) | hidden_future(IDS)
    maps = []
    for n in range(LAYERS):
        h = f"model.layers.{n}."
        y = rms(x, state[f"{h}input_layernorm.weight"], 1e-6)
        q = turned(linear(y, state, f"{h}self_attn.q_proj"), HEADS)
        k = turned(linear(y, state, f"{h}self_attn.k_proj"), 1).repeat(1, 1, HEADS)
        v = linear(y, state, f"{h}self_attn.v_proj").repeat(1, 1, HEADS)
        context, weights = attend(q, k, v, HEADS, hidden, LOWEST)
        maps.append(weights)
        x = x + linear(context, state, f"{h}self_attn.o_proj")
        y = rms(x, state[f"{h}post_attention_layernorm.weight"], 1e-6)
        gate = linear(y, state, f"{h}mlp.gate_proj")
        x = x + linear(gate * gate.sigmoid() * linear(y, state, f"{h}mlp.up_proj"), state,
                       f"{h}mlp.down_proj")  # fmt: skip
    return maps, rms(x, state["model.norm.weight"], 1e-6) @ state["lm_head.weight"].double().T


def sinusoid(rows: int) -> Tensor:
    """Marian's table: all sines, then all cosines."""
    angle = torch.arange(rows)[:, None] / 10000.0 ** (2 * torch.arange(D // 2).double() / D)
    return torch.cat((angle.sin(), angle.cos()), dim=-1)


def marian(state: State) -> Witness:
    """Post-norm encoder and decoder, scaled embeddings, a bias on the output."""
    table = state["model.shared.weight"].double()
    maps: dict[str, list[Tensor]] = {"encoder": [], "decoder": []}

    def block(x: Tensor, y: Tensor, name: str, hidden: Tensor, stack: str) -> Tensor:
        q = linear(x, state, f"{name}.q_proj")
        k, v = linear(y, state, f"{name}.k_proj"), linear(y, state, f"{name}.v_proj")
        context, weights = attend(q, k, v, HEADS, hidden, LOWEST)
        maps[stack].append(weights)
        x = x + linear(context, state, f"{name}.out_proj")
        return normed(x, state, f"{name}_layer_norm", 1e-5)

    def run(ids: Tensor, stack: str, memory: Tensor | None = None) -> Tensor:
        x = table[ids] * D**0.5 + sinusoid(ids.shape[1])
        hidden = hidden_keys(IDS, PAD, ids.shape[1])
        for n in range(LAYERS):
            h = f"model.{stack}.layers.{n}."
            own = hidden if memory is None else hidden_future(ids)
            x = block(x, x, f"{h}self_attn", own, stack)
            if memory is not None:
                x = block(x, memory, f"{h}encoder_attn", hidden, stack)
            inner = linear(x, state, f"{h}fc1")
            x = x + linear(inner * inner.sigmoid(), state, f"{h}fc2")
            x = normed(x, state, f"{h}final_layer_norm", 1e-5)
        return x

    states = run(TARGET, "decoder", run(IDS, "encoder"))
    return [*maps["encoder"], *maps["decoder"]], states @ table.T + state["final_logits_bias"]


def pixels() -> Tensor:
    """Two pictures of noise, 12 pixels high and wide."""
    return torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(4))


def vit(state: State) -> Witness:
    """Pre-norm over a class token and nine patches; classes from the class token."""
    e = "vit.embeddings."
    kernel = state[f"{e}patch_embeddings.projection.weight"].double()
    patches = pixels().double().unfold(2, 4, 4).unfold(3, 4, 4)  # [B, C, row, column, 4, 4]
    x = torch.einsum("bcrsij,dcij->brsd", patches, kernel).flatten(1, 2)
    x = x + state[f"{e}patch_embeddings.projection.bias"].double()
    x = torch.cat((state[f"{e}cls_token"].double().expand(2, 1, D), x), dim=1)
    x = x + state[f"{e}position_embeddings"].double()
    maps = []
    for n in range(LAYERS):
        h = f"vit.encoder.layer.{n}."
        y = normed(x, state, f"{h}layernorm_before", 1e-12)
        roles = ("query", "key", "value")
        q, k, v = (linear(y, state, f"{h}attention.attention.{role}") for role in roles)
        nothing = torch.zeros(2, x.shape[1], x.shape[1], dtype=torch.bool)
        context, weights = attend(q, k, v, HEADS, nothing, LOWEST)
        maps.append(weights)
        x = x + linear(context, state, f"{h}attention.output.dense")
        y = erf(linear(normed(x, state, f"{h}layernorm_after", 1e-12), state,
                       f"{h}intermediate.dense"))  # fmt: skip
        x = x + linear(y, state, f"{h}output.dense")
    return maps, linear(normed(x, state, "vit.layernorm", 1e-12)[:, 0], state, "classifier")


@dataclass(frozen=True)
class Case:
    """One kind of folder: its class, its words, its witness, and what goes in."""

    cls: str
    config: str
    words: dict[str, Any]
    witness: Callable[[State], Witness]
    inputs: tuple[Tensor | None, ...]
    says: str


CASES = {
    "bert": Case("BertForMaskedLM", "BertConfig", TEXT | BERT | {"max_position_embeddings": P},
                 bert, (PAIRS, None, None, SEGMENTS), "BERT, pairs, a line of padding alone"),
    "gpt2": Case("GPT2LMHeadModel", "GPT2Config",
                 TEXT | {"n_embd": D, "n_layer": LAYERS, "n_head": HEADS,
                  "n_positions": P}, gpt2, (IDS[:1],), "GPT-2, the output tied"),
    "llama": Case("LlamaForCausalLM", "LlamaConfig",
                  TEXT | BERT | {"num_key_value_heads": 1, "max_position_embeddings": P},
                  llama, (IDS,), "Llama, grouped queries, padding"),
    "marian": Case("MarianMTModel", "MarianConfig",
                   TEXT | {"d_model": D, "encoder_layers": LAYERS, "decoder_layers": LAYERS,
                           "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS,
                           "encoder_ffn_dim": F, "decoder_ffn_dim": F, "scale_embedding": True,
                           "max_position_embeddings": P, "activation_function": "swish",
                           "decoder_start_token_id": PAD, "forced_eos_token_id": None},
                   marian, (IDS, TARGET), "Marian, padding"),
    "vit": Case("ViTForImageClassification", "ViTConfig",
                BERT | {"image_size": 12, "patch_size": 4, "num_labels": 5},
                vit, (pixels(),), "ViT"),
}  # fmt: skip
FILES = ("safetensors", "safetensors in parts", "bin", "bin in parts")


def folder_of(case: Case, files: str, folder: Path) -> Path:
    """A folder of one kind, its weights in one kind of file."""
    parts = {"max_shard_size": "9KB"} if files.endswith("parts") else {}
    saved(made(case.cls, case.config, **case.words), folder, **parts)
    return as_torch(folder) if files.startswith("bin") else folder


def row_of(name: str, files: str) -> Row:
    """How far the opened folder is from its witness."""
    case = CASES[name]
    with tempfile.TemporaryDirectory() as place:
        folder = folder_of(case, files, Path(place))
        model: Model = load(folder, device="cpu")
        expected = case.witness(state_of(folder))
        attention, logits = compared(model, case.inputs, *expected)
    return Row("hugging_face", f"{case.says}, {files}", attention, logits, "literal, float64")


@cache
def rows() -> list[Row]:
    """Every kind in one file of safetensors, and one kind in every other sort of file."""
    found = [row_of(name, "safetensors") for name in CASES]
    return found + [row_of("bert", files) for files in FILES[1:]]
