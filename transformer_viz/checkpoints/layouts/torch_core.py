"""PyTorch's own Transformer: nn.Transformer and its two stacks, without embeddings.

Such a file holds no vocabulary and states neither heads nor norm placement. Sources and targets are
vectors ``[batch, token, d_model]``, and so is the output. A stack of decoder layers alone reads the
source as its memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ...model.transformer import ACTIVATIONS
from ...preprocessing.tokenizers import PlainIds, Tokenizer
from ..common import native
from ..common.build_reference import divisors, sidecar
from ..common.calibration import calibrated
from ..common.candidate import Candidate
from ..common.fill_weights import build
from ..common.model import Calls, Model
from ..common.provenance import resolve
from ..common.rename_keys import Table, count, map_names
from ..common.stated import stated
from ..common.word_checks import refuse_unknown, usual_heads
from ..files.reading import CheckpointError, Weights

NAME = "torch_transformer"
NAMES: tuple[str, ...] = (
    r"((encoder|decoder)\.)?layers\.\d+\.(self_attn|multihead_attn)\.in_proj_(weight|bias)",
    r"((encoder|decoder)\.)?layers\.\d+\.multihead_attn\.[qkv]_proj_weight",
    r"((encoder|decoder)\.)?layers\.\d+\.(self_attn|multihead_attn)\.out_proj\.(weight|bias)",
    r"((encoder|decoder)\.)?layers\.\d+\.(linear[12]|norm[123])\.(weight|bias)",
    r"((encoder|decoder)\.)?norm\.(weight|bias)",
)
#: Names of the file and of the reference Transformer, for name proposals.
ROLES: Table = (
    *(
        (
            f"{{stack}}.layers.{{n}}.{theirs}.in_proj_{{part}}",
            f"{{stack}}.layers.{{n}}.{ours}.fused.{{part}}",
        )
        for theirs, ours in (("self_attn", "self_attention"), ("multihead_attn", "cross_attention"))
    ),
    *(
        (
            f"{{stack}}.layers.{{n}}.{theirs}.out_proj.{{part}}",
            f"{{stack}}.layers.{{n}}.{ours}.output.{{part}}",
        )
        for theirs, ours in (("self_attn", "self_attention"), ("multihead_attn", "cross_attention"))
    ),
    ("{stack}.layers.{n}.linear1.{part}", "{stack}.layers.{n}.feed_forward.inner.{part}"),
    ("{stack}.layers.{n}.linear2.{part}", "{stack}.layers.{n}.feed_forward.outer.{part}"),
    ("{stack}.layers.{n}.norm1.{part}", "{stack}.layers.{n}.self_norm.{part}"),
    ("encoder.layers.{n}.norm2.{part}", "encoder.layers.{n}.feed_forward_norm.{part}"),
    ("decoder.layers.{n}.norm2.{part}", "decoder.layers.{n}.cross_norm.{part}"),
    ("decoder.layers.{n}.norm3.{part}", "decoder.layers.{n}.feed_forward_norm.{part}"),
    ("{stack}.norm.{part}", "{stack}.norm.{part}"),
)
WORDS: tuple[str, ...] = ("heads", "norm", "activation", "norm_eps")
CHOICES: dict[str, tuple[str, ...]] = {"norm": ("post", "pre"), "activation": tuple(ACTIVATIONS)}
#: PyTorch's defaults of options that no file of its stacks states.
CUSTOMARY = {"norm": "post", "activation": "relu", "norm_eps": 1e-5}
READY_MADE_EPS = 1e-5  # of a last norm that is given to a stack: the layers' eps does not reach it
SILENT = (
    "Such a file says neither heads nor norm (post or pre) nor activation; give them, as "
    "tv.load(..., heads=8, norm='pre') or --set heads=8 --set norm=pre."
)


@dataclass(frozen=True)
class Stack:
    """Sizes of a stack, from the shapes of its weights.

    ``memory`` is the width of a decoder's memory, 0 without cross-attention.
    """

    layers: int
    width: int
    d_ff: int
    memory: int
    bias: bool
    final_norm: bool
    final_bias: bool


def recognise(found: Candidate) -> bool:
    """Return True if every weight is one of PyTorch's own stacks: more needs its own code."""
    names = list(bare(found.weights).tensors)
    return any(name.endswith("layers.0.self_attn.in_proj_weight") for name in names) and all(
        any(re.fullmatch(form, name) for form in NAMES) for name in names
    )


def open(found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]) -> Model:
    """Return PyTorch's own modules with the file's weights; they read and return vectors.

    Raises:
        CheckpointError: Options are unknown or impossible, or weights do not fit.
    """
    refuse_unknown(overrides, WORDS)
    beside = sidecar(found, WORDS)
    weights = bare(found.weights)
    stacks = stacks_of(weights, "")
    kinds = [bool(stack.memory) for stack in stacks.values()]
    if not kinds or len(set(kinds)) < len(kinds):
        raise CheckpointError(
            f"{found.path.name} should hold an encoder, a decoder that looks at a memory, or one "
            f"of each; it has {f'{len(kinds)} stacks of one kind' if kinds else 'neither'}. Build "
            "the module with its own code and give it to load(module)."
        )
    shapes = sizes(stacks)
    told = stated(found, WORDS, shapes, beside, activations=CHOICES["activation"])
    if "heads" not in overrides and not any("heads" in given for _, given in told):
        heads = usual_heads(next(iter(stacks.values())).width)
        return calibrated(
            ("heads",), (), heads, lambda chosen: open(found, tokenizer, overrides | chosen), SILENT
        )
    words, origins = resolve(overrides, *told, ("shapes", shapes), ("convention", CUSTOMARY))
    check(words, stacks, found)
    module = build(lambda: core(stacks, words), weights)
    kind = "encoder-only" if not words["decoder_layers"] else "encoder-decoder"
    return Model(
        name=native.name_of(found.path),
        module=module,
        kind=kind,
        config=words,
        tokenizer=PlainIds() if tokenizer is None else tokenizer,
        device="cpu",
        calls=make_calls(module),
        layout=NAME,
        hash=found.hash,
        file_dtype=found.weights.dtype,
        folder=found.folder,
        title=str(found.config.get("title", "")),
        takes="vectors",
        gives="vectors",
        provenance=origins,
    )


def bare(weights: Weights) -> Weights:
    """Return the weights without the name of the field that held the core in a larger module.

    ``transformer.encoder.layers...`` becomes ``encoder.layers...`` if all names share the field.
    """
    first = next(iter(weights.tensors), "")
    field = re.match(r"((?!(encoder|decoder|layers|norm)\.)[^.]+\.)*", first)
    prefix = field.group() if field else ""
    if not all(name.startswith(prefix) for name in weights.tensors):
        return weights
    tensors = {name.removeprefix(prefix): tensor for name, tensor in weights.tensors.items()}
    return replace(weights, tensors=tensors)


def core(stacks: Mapping[str, Stack], settings: Mapping[str, Any]) -> nn.Module:
    """Return an nn.Transformer, or a stack alone; the names are those of its weights."""
    if set(stacks) == {""}:
        return make_stack(stacks[""], settings, READY_MADE_EPS)
    made = {
        name: make_stack(stack, settings, settings["norm_eps"]) for name, stack in stacks.items()
    }
    if set(made) != {"encoder", "decoder"}:
        return nn.ModuleDict(made)
    width, heads = stacks["decoder"].width, settings["heads"]
    return nn.Transformer(
        width, heads, custom_encoder=made["encoder"], custom_decoder=made["decoder"]
    )


def make_stack(stack: Stack, settings: Mapping[str, Any], final_eps: float) -> nn.Module:
    """Return an nn.TransformerEncoder, or an nn.TransformerDecoder if there is a memory."""
    kind = nn.TransformerDecoderLayer if stack.memory else nn.TransformerEncoderLayer
    layer: Any = kind(
        stack.width,
        settings["heads"],
        stack.d_ff,
        dropout=0.0,
        activation=_plainly(ACTIVATIONS[settings["activation"]]),
        layer_norm_eps=settings["norm_eps"],
        batch_first=True,
        norm_first=settings["norm"] == "pre",
        bias=stack.bias,
    )
    norm = nn.LayerNorm(stack.width, final_eps, bias=stack.final_bias) if stack.final_norm else None
    if not stack.memory:
        return nn.TransformerEncoder(layer, stack.layers, norm, enable_nested_tensor=False)
    if stack.memory != stack.width:
        layer.multihead_attn = nn.MultiheadAttention(
            stack.width,
            settings["heads"],
            bias=stack.bias,
            kdim=stack.memory,
            vdim=stack.memory,
            batch_first=True,
        )
    return nn.TransformerDecoder(layer, stack.layers, norm)


def make_calls(module: nn.Module) -> Calls:
    """Return the calls of PyTorch's stacks, with a causal mask for the decoder."""
    encoder, decoder = _parts(module)

    def encode(source: Tensor, source_mask: Tensor | None = None) -> Tensor:
        assert encoder is not None
        return encoder(source, src_key_padding_mask=hidden(source_mask))

    def decode(target: Tensor, memory: Tensor, source_mask: Tensor | None = None) -> Tensor:
        assert decoder is not None
        return decoder(
            target,
            memory,
            tgt_mask=later(target.shape[1], target.device),
            memory_key_padding_mask=hidden(source_mask),
        )

    def forward(
        source: Tensor, target: Tensor | None = None, source_mask: Tensor | None = None
    ) -> Tensor:
        memory = source if encoder is None else encode(source, source_mask)
        return memory if target is None else decode(target, memory, source_mask)

    return Calls(forward, encode if encoder else None, decode if decoder else None)


def hidden(visible: Tensor | None) -> Tensor | None:
    """Return the mask as PyTorch reads it, true for hidden tokens."""
    return None if visible is None else ~visible


def later(length: int, device: torch.device) -> Tensor:
    """Return the mask ``[query, key]``, true for keys after the query."""
    return torch.ones(length, length, dtype=torch.bool, device=device).triu(1)


def stacks_of(weights: Weights, prefix: str) -> dict[str, Stack]:
    """Return the stacks of a file by name (``encoder``, ``decoder``; empty for a stack alone).

    Raises:
        CheckpointError: A weight that defines the sizes has the wrong shape.
    """
    names = [f"{prefix}encoder.", f"{prefix}decoder.", prefix]
    return {
        name.removeprefix(prefix).rstrip("."): _stack(weights, name)
        for name in names
        if f"{name}layers.0.self_attn.in_proj_weight" in weights.tensors
    }


def sizes(stacks: Mapping[str, Stack]) -> dict[str, Any]:
    """Return the options given by the shapes."""
    last = stacks.get("decoder") or next(iter(stacks.values()))
    decoders = [stack for stack in stacks.values() if stack.memory]
    encoders = [stack for stack in stacks.values() if not stack.memory]
    return {
        "d_model": last.width,
        "source_width": encoders[0].width if encoders else last.memory,
        "d_ff": last.d_ff,
        "encoder_layers": sum(stack.layers for stack in encoders),
        "decoder_layers": sum(stack.layers for stack in decoders),
        "bias": last.bias,
        "final_norm": last.final_norm,
    }


def built_in(weights: Weights) -> tuple[str, ...]:
    """Return the options that PyTorch's own layers fix, if the file's own names are theirs.

    Mapped names may belong to other code, of which nothing is known.
    """
    own = weights.names or weights.tensors
    if not any(re.search(r"layers\.0\.self_attn\.in_proj_weight$", name) for name in own):
        return ()
    return ("norm_kind", "score", "mask_fill")


def check(settings: Mapping[str, Any], stacks: Mapping[str, Stack], found: Candidate) -> None:
    """Refuse values that PyTorch's stacks cannot have.

    Raises:
        CheckpointError: Names the option, its value, and possible values.
    """
    native.check_types({word: settings[word] for word in WORDS})
    for word, choices in CHOICES.items():
        if settings[word] not in choices:
            raise CheckpointError(
                f"There is no {word} {settings[word]!r} in PyTorch's Transformer; choose one of "
                f"{', '.join(choices)}."
            )
    for stack in stacks.values():
        if not settings["heads"] or stack.width % settings["heads"]:
            raise CheckpointError(
                f"A width of {stack.width} in {found.path.name} cannot be shared by "
                f"{settings['heads']} heads; override heads= with one of "
                f"{', '.join(map(str, divisors(stack.width)))}."
            )


def _plainly(activation: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return the same function as a lambda, for which PyTorch's layers do not take the fast path.

    That path gives NaN for a query without visible keys; the layers' own code gives zeros. Models
    with the sequence first, PyTorch's default, never take it.
    """
    return lambda x: activation(x)


def _parts(module: nn.Module) -> tuple[nn.Module | None, nn.Module | None]:
    """Return the encoder and the decoder of a core; a stack alone is one of them."""
    stacks = (module, *module.children())
    encoders = (part for part in stacks if isinstance(part, nn.TransformerEncoder))
    decoders = (part for part in stacks if isinstance(part, nn.TransformerDecoder))
    return next(encoders, None), next(decoders, None)


def _stack(weights: Weights, prefix: str) -> Stack:
    tensors = weights.tensors
    first = f"{prefix}layers.0."
    for name in (f"{first}self_attn.in_proj_weight", f"{first}linear1.weight"):
        if name not in tensors or tensors[name].dim() != 2:
            found = list(tensors[name].shape) if name in tensors else "missing"
            raise CheckpointError(
                f"{name} in {weights.path.name} is {found}; expected [rows, d_model]"
                f"{map_names(weights)}."
            )
    keys = tensors.get(f"{first}multihead_attn.k_proj_weight")
    d_ff, width = tensors[f"{first}linear1.weight"].shape
    looks = keys is not None or f"{first}multihead_attn.in_proj_weight" in tensors
    return Stack(
        layers=count(weights, f"{prefix}layers.{{n}}.self_attn.in_proj_weight"),
        width=width,
        d_ff=d_ff,
        memory=0 if not looks else width if keys is None else int(keys.shape[-1]),
        bias=count(weights, f"{prefix}layers.{{n}}.linear1.bias") > 0,
        final_norm=f"{prefix}norm.weight" in tensors,
        final_bias=f"{prefix}norm.bias" in tensors,
    )
