"""Options of a Hugging Face config under our names, each with its origin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..files.errors import CheckpointError
from .config import SILENT
from .special_tokens import IDS

#: Our options, and their names in configs of the library.
NAMES: dict[str, tuple[str, ...]] = {
    "d_model": ("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embed_dim"),
    "heads": (
        *("encoder_attention_heads", "decoder_attention_heads", "num_attention_heads"),
        *("encoder_num_attention_heads", "decoder_num_attention_heads"),
        *("n_head", "n_heads", "num_heads", "attention_heads"),
    ),
    "key_value_heads": ("num_key_value_heads", "num_kv_heads", "decoder_num_key_value_heads"),
    "d_k": ("head_dim", "d_kv"),
    "d_ff": (
        *("intermediate_size", "encoder_ffn_dim", "d_ff", "ffn_dim", "n_inner", "hidden_dim"),
        "d_inner",
    ),
    "encoder_layers": (
        *("encoder_layers", "encoder_num_hidden_layers", "num_hidden_layers", "num_layers"),
        *("n_layers", "n_layer"),
    ),
    "decoder_layers": (
        *("decoder_layers", "num_decoder_layers", "decoder_num_hidden_layers"),
        *("num_hidden_layers", "num_layers", "n_layers", "n_layer"),
    ),
    "source_vocab": ("src_vocab_size", "vocab_size"),
    "target_vocab": ("tgt_vocab_size", "decoder_vocab_size", "vocab_size"),
    "max_positions": (
        *("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"),
        "max_target_positions",
    ),
    "activation": (
        *(
            "hidden_act",
            "activation_function",
            "hidden_activation",
            "activation",
            "feed_forward_proj",
        ),
        "dense_act_fn",
    ),
    "norm_eps": (
        *("layer_norm_eps", "rms_norm_eps", "layer_norm_epsilon", "layernorm_epsilon", "norm_eps"),
    ),
}
#: Options with one value per stack in a model of two models, under these names.
STACKED = {
    "heads": ("encoder_attention_heads", "decoder_attention_heads"),
    "encoder_layers": ("encoder_layers", "decoder_layers"),
    "source_vocab": ("src_vocab_size", "tgt_vocab_size"),
}
#: Options of loading.
LOADING = ("device", "dtype", "max_memory", "offload_folder", "part", "task")
WORDS = (*NAMES, *IDS, "part", "task")
BOTH = ("heads",)  # options that set all their names in the config, one for each stack


def overridden(config: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return overrides under the config's own names: ours are translated, others must exist there.

    Args:
        config: Every option of the library's config, with its defaults.
        overrides: Our options, or the config's own; the caller handles ids and loading.

    Raises:
        CheckpointError: An option is unknown here and in this config, or a value has another type.
    """
    said: dict[str, Any] = {}
    for word, value in overrides.items():
        if word in (*IDS, *LOADING):
            continue
        names = [name for name in NAMES.get(word, (word,)) if name in config]
        if not names:
            raise CheckpointError(
                f"A {config['model_type']} config has no word {word!r}; it knows "
                f"{', '.join(ours(config))}, and its own words."
            )
        for name in names if word in BOTH else names[:1]:
            before = config[name]
            if before is not None and not _same_type(before, value):
                raise CheckpointError(
                    f"{word} is {type(before).__name__} in this config; got {value!r}."
                )
            said[name] = value
    return said


def _same_type(before: Any, value: Any) -> bool:
    if isinstance(before, bool) or isinstance(value, bool):
        return isinstance(before, bool) and isinstance(value, bool)
    return isinstance(value, type(before)) or (isinstance(before, float) and isinstance(value, int))


def ours(config: Mapping[str, Any]) -> dict[str, str]:
    """Return our options that a config has, each with the config's name for it."""
    found = {
        word: next((name for name in names if config.get(name) is not None), "")
        for word, names in NAMES.items()
    }
    return {word: name for word, name in found.items() if name}


def join_stacks(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return one config's options for a config of two others, ``encoder`` and ``decoder``.

    Other configs are returned as they are. The decoder wins where both have an option; sizes of
    each stack have separate names.
    """
    encoder, decoder = (config.get(name) for name in ("encoder", "decoder"))
    if not isinstance(encoder, Mapping) or not isinstance(decoder, Mapping):
        return dict(config)
    joined = {word: value for word, value in config.items() if word not in ("encoder", "decoder")}
    joined |= {word: value for word, value in decoder.items() if joined.get(word) is None}
    for word, sides in STACKED.items():
        for stack, name in zip((encoder, decoder), sides, strict=True):
            found = next((stack[n] for n in NAMES[word] if stack.get(n) is not None), None)
            joined |= {} if found is None else {name: found}
    lengths = [stack.get("max_position_embeddings") for stack in (encoder, decoder)]
    known = [length for length in lengths if isinstance(length, int)]
    return joined | ({"max_position_embeddings": min(known)} if known else {})


def described(
    config: Mapping[str, Any],
    file: Mapping[str, Any],
    overrides: Mapping[str, Any],
    kind: str,
    gives: str,
    origin: str,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the options of a model with their values, ours first, and the origin of each.

    Args:
        config: Every option of the library's config, with its defaults.
        file: Content of ``config.json`` itself; the rest are the library's defaults.
        overrides: Options of the user, under the config's names.
        kind: Kind of model; a missing stack has no layers.
        gives: Kind of output; without tokens there is no target vocabulary.
        origin: Origin of the options in ``file``.
    """
    names = ours(config)
    words = {word: config[name] for word, name in names.items()}
    if kind == "decoder-only":
        words["encoder_layers"] = 0
        words.pop("source_vocab", None)
    if kind == "encoder-only":
        words["decoder_layers"] = 0
        if gives != "words":
            words.pop("target_vocab", None)
    own = {w: v for w, v in file.items() if w not in (*SILENT, *words) and w in config}
    words |= {word: config[word] for word in own}

    def told(word: str) -> str:
        name = names.get(word, word)
        if name in overrides:
            return "override"
        return origin if name in file or word not in names else "layout"

    origins = {word: told(word) for word in words}
    for word in ("encoder_layers", "decoder_layers"):
        if words.get(word) == 0:
            origins[word] = "layout"
    return words, origins
