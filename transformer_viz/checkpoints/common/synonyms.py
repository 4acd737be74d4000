"""Names of model options in training scripts, for each option of ours.

Names are compared in lower case without punctuation: ``n_head``, ``nHead`` and ``n-head`` are
equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import Tensor

#: Our option, and its synonyms. Add new names here only.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "heads": (
        *("nhead", "nheads", "numhead", "numheads", "heads", "headcount", "headnum", "h"),
        *("nbhead", "nbheads", "nbattentionheads", "headsnum", "headscount", "numattnhead"),
        *("numattentionheads", "nattentionheads", "attentionheads", "attentionheadcount"),
        *("attnheads", "numattnheads", "nattnheads", "mhaheads", "transformerheads"),
        *("encoderattentionheads", "decoderattentionheads", "encoderheads", "decoderheads"),
        *("numencoderheads", "numdecoderheads", "numberofheads", "numofheads"),
        *("numberofattentionheads", "numselfattentionheads", "numtransformerheads"),
        *("numattentionhead", "nheadenc", "nheaddec", "encnheads", "decnheads"),
    ),
    "head_width": (
        *("headdim", "headsize", "headwidth", "dhead", "dimhead", "dkv", "dk", "dimperhead"),
        *("sizeperhead", "attentionheaddim", "attentionheadsize", "kvchannels"),
    ),
    "activation": (
        *("activation", "activationfunction", "activationfn", "activationfunc", "actfn"),
        *("act", "actfunc", "actlayer", "hiddenact", "hiddenactivation", "nonlinearity"),
        *("ffactivation", "ffnactivation", "ffnact", "mlpactivation", "mlpact"),
        *("posffnactivationfn", "transformeractivation", "gluvariant", "feedforwardactivation"),
    ),
    "norm": (
        *("norm", "normposition", "normstyle", "normplacement", "normmode", "normtype"),
        *("normorder", "lnposition", "layernormposition", "normfirst", "prenorm", "preln"),
        *("prelayernorm", "useprenorm", "ispreln", "lnfirst", "layernormfirst", "prelnorm"),
        *("normalizebefore", "encodernormalizebefore", "decodernormalizebefore"),
        *("postnorm", "postln", "postlayernorm", "usepostnorm"),
    ),
    "norm_eps": (
        *("layernormeps", "layernormepsilon", "normeps", "normepsilon", "lneps", "lnepsilon"),
        *("rmsnormeps", "rmsnormepsilon", "epsnorm", "normlayereps"),
    ),
    "dropout": ("dropout", "dropoutrate", "dropoutp", "pdrop", "pdropout", "residpdrop"),
    "pad_id": (
        *("padid", "padidx", "padindex", "padtokenid", "padtokenidx", "padtoken"),
        *("paddingid", "paddingidx", "paddingindex", "srcpadidx", "srcpadid", "srcpadindex"),
        *("sourcepadid", "sourcepadidx"),
    ),
    "bos_id": (
        *("bosid", "bosidx", "bosindex", "bostokenid", "bostokenidx", "bostoken"),
        *("sosid", "sosidx", "sosindex", "sostokenid", "sostokenidx", "sostoken"),
        *("startid", "startidx", "starttokenid", "starttoken", "decoderstarttokenid"),
        *("trgsosidx", "tgtsosidx", "trgbosidx", "tgtbosidx", "gotokenid"),
    ),
    "eos_id": (
        *("eosid", "eosidx", "eosindex", "eostokenid", "eostokenidx", "eostoken"),
        *("endid", "endidx", "endtokenid", "endtoken", "eotid", "eottokenid"),
        *("trgeosidx", "tgteosidx"),
    ),
    "max_positions": (
        *("blocksize", "npositions", "maxpositions", "maxpositionembeddings", "nctx"),
        *("contextlength", "contextsize", "contextwindow", "maxlen", "maxlength"),
        *("maxseqlen", "maxseqlength", "maxsequencelength", "maxtokenseqlen"),
    ),
    "d_model": (
        *("nembd", "nembed", "dmodel", "modeldim", "embeddim", "embeddingdim", "embdim"),
        *("embsize", "embedsize", "embeddingsize", "hiddensize", "dembed", "modelsize"),
    ),
    "layers": ("nlayer", "nlayers", "numlayers", "numhiddenlayers", "depth", "numblocks"),
    "encoder_layers": ("numencoderlayers", "encoderlayers", "nencoderlayers", "enclayers"),
    "decoder_layers": ("numdecoderlayers", "decoderlayers", "ndecoderlayers", "declayers"),
    "d_ff": ("dff", "dinner", "dimfeedforward", "ffndim", "ffdim", "dinnerhid", "ninner"),
    "target_vocab": (
        *("vocabsize", "nvocab", "numvocab", "ntokens", "ntoken", "vocabularysize"),
        *("tgtvocabsize", "trgvocabsize", "targetvocabsize"),
    ),
    "source_vocab": ("srcvocabsize", "sourcevocabsize"),
}
#: Names that need another name of a Transformer beside them to have our meaning.
SHORT = {"h": ("dmodel", "n", "nembd")}
#: Names with a boolean value, and the position of the norm for true and false.
PLACES = {
    **dict.fromkeys(
        (
            *("normfirst", "prenorm", "preln", "prelayernorm", "useprenorm", "ispreln", "lnfirst"),
            *("layernormfirst", "prelnorm", "normalizebefore"),
            *("encodernormalizebefore", "decodernormalizebefore"),
        ),
        ("pre", "post"),
    ),
    **dict.fromkeys(("postnorm", "postln", "postlayernorm", "usepostnorm"), ("post", "pre")),
}
NORMS = {
    **dict.fromkeys(("pre", "prenorm", "preln", "prelayernorm", "before", "first"), "pre"),
    **dict.fromkeys(("post", "postnorm", "postln", "postlayernorm", "after", "last"), "post"),
}
ACTIVATIONS = {
    **{name: name for name in ("relu", "gelu", "silu", "sigmoid", "tanh", "identity")},
    **dict.fromkeys(("gelutanh", "gelunew", "newgelu", "gelupytorchtanh"), "gelu_tanh"),
    **dict.fromkeys(("geluapproximate", "geluapprox", "geluaccurate", "gelufast"), "gelu_tanh"),
    **dict.fromkeys(("gelugoogle", "tanhgelu", "geluapproximatetanh"), "gelu_tanh"),
    **dict.fromkeys(("gelupython", "geluerf", "geluexact", "geluapproximatenone"), "gelu"),
    **dict.fromkeys(("quickgelu", "geluquick"), "quick_gelu"),
    **dict.fromkeys(("swish", "swiglu"), "silu"),
    "geglu": "gelu",
    "reglu": "relu",
    "glu": "sigmoid",
    "bilinear": "identity",
    "linear": "identity",
}
LARGEST_EPS = 0.1
MOST = 2**31  # of a number
MOST_LAYERS = 1000  # with a value each
LONGEST_NUMBER = 12  # characters


def plain_name(name: Any) -> str:
    """Return a name in lower case, without punctuation."""
    return re.sub(r"[\W_]+", "", str(name)[:80]).lower()


#: Our option for each name.
MEANINGS = {name: word for word, names in SYNONYMS.items() for name in names}


def value_of(word: str, name: str, value: Any) -> Any:
    """Return the value of our option that a name states, or None."""
    if isinstance(value, Tensor | np.ndarray | np.generic) and value.ndim < 2:
        value = value.tolist() if np.prod(value.shape) <= MOST_LAYERS else None
    if isinstance(value, list | tuple):  # one for each layer
        first = value[0] if value and len(value) <= MOST_LAYERS else None
        plain = isinstance(first, int | float | str | bool)
        same = plain and all(type(item) is type(first) and item == first for item in value)
        value = first if same else None
    reader: Callable[[str, Any], Any] = READERS.get(word, _whole)
    return reader(name, value)


def _whole(name: str, value: Any) -> int | None:
    if isinstance(value, str) and len(value) < LONGEST_NUMBER and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < MOST else None


def _size(name: str, value: Any) -> int | None:
    return _whole(name, value) or None


def _number(name: str, value: Any) -> float | None:
    if isinstance(value, str) and len(value) < LONGEST_NUMBER:  # YAML reads 1e-5 as text
        try:
            value = float(value)
        except ValueError:
            return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and abs(value) < MOST else None


def _eps(name: str, value: Any) -> float | None:
    number = _number(name, value)
    return number if number is not None and 0 < number <= LARGEST_EPS else None


def _share(name: str, value: Any) -> float | None:
    number = _number(name, value)
    return number if number is not None and 0 <= number < 1 else None


def _norm(name: str, value: Any) -> str | None:
    if isinstance(value, int) and value in (0, 1):
        value = bool(value)
    if isinstance(value, str):
        text = plain_name(value)
        value = {"true": True, "false": False}.get(text, value)
        if text in NORMS:
            return NORMS[text]
    if name in PLACES and isinstance(value, bool):
        return PLACES[name][not value]
    return None


def _activation(name: str, value: Any) -> str | None:
    """Return the activation of ``nn.GELU()``, ``torch.nn.functional.gelu`` or ``gelu_new``.

    An unknown name is returned unchanged.
    """
    if not isinstance(value, str) or len(value) > 200:
        return None
    head, _, rest = value.partition("(")
    parts = re.findall(r"\w+", head)
    if not parts or plain_name(parts[-1]) in ("none", "default", "auto", "true", "false"):
        return None
    last = plain_name(parts[-1])
    return ACTIVATIONS.get(last + plain_name(rest), ACTIVATIONS.get(last, last))


READERS: Mapping[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("heads", "head_width", "d_model", "layers", "d_ff", "max_positions"), _size),
    "norm_eps": _eps,
    "dropout": _share,
    "norm": _norm,
    "activation": _activation,
}
