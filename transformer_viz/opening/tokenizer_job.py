"""Job of the process that creates and runs the tokenizers of one checkpoint."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..checkpoints.files.plain_pickle import read_plain_pickle
from ..checkpoints.hugging_face.library import library
from ..checkpoints.hugging_face.side_files import makes_pairs, open_tokenizer
from ..checkpoints.vocabularies.dictionaries import read_byte_pairs
from ..checkpoints.vocabularies.reading import read_here
from ..confinement.channel import MOST, Channel
from ..preprocessing.elsewhere import SPECIAL
from ..preprocessing.hugging_face import (
    NO_LANGUAGES,
    added_special_ids,
    encode_target,
    needed_size,
    pieces_of,
    separate_words,
    without_panics,
)
from ..preprocessing.tokenizers import processor
from ..preprocessing.word_tables import WordTable
from .plain_data import encode
from .rehearsal import refusal


def serve(channel: Channel) -> None:
    """Serve requests until the channel is closed: ``make`` a tokenizer, or ``do`` a call of one."""
    held: list[Any] = []
    while True:
        try:
            request = channel.receive(2 * MOST)
        except EOFError:
            return
        try:
            with without_panics():
                if "make" in request:
                    thing, answer = MAKERS[request["make"]](request)
                    held.append(thing)
                else:
                    answer = _used(held[request["of"]], request)
        except BaseException as error:  # an untrusted file can raise anything
            answer = refusal(error)
        channel.send(answer)


def _pieces(request: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    made = processor(base64.b64decode(request["content"]))
    return made, _of_pieces(made)


def _of_pieces(made: Any) -> dict[str, Any]:
    """Return the facts about a sentencepiece model that the server needs."""
    every = list(range(made.get_piece_size()))
    return {
        "pieces": made.id_to_piece(every),
        "control": [i for i in every if made.is_control(i)],
        "bos": made.bos_id(),
        "eos": made.eos_id(),
        "pad": made.pad_id(),
    }


def _library(request: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    with library() as transformers:
        made, note = open_tokenizer(transformers, Path(request["folder"]), request["size"])
    return made, {"note": note} | ({} if made is None else {"facts": _facts(made)})


def _byte_pairs(request: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    made = read_byte_pairs(Path(request["folder"]), request["names"])
    return made, {"facts": _facts(made)}


def _facts(made: Any) -> dict[str, Any]:
    """Return the facts about a tokenizer of the library that the server caches."""
    language = getattr(made, "tgt_lang", NO_LANGUAGES)
    named = {} if language == NO_LANGUAGES else {"language": language and str(language)}
    words = separate_words(made)
    return named | {
        "target": [] if words is None else list(words[1]),
        "pieces": list(words[0] if words else pieces_of(made)),
        "special": list(made.all_special_ids),
        "added": sorted(added_special_ids(made)),
        "needed": needed_size(made),
        "declares_types": getattr(made, "declares_types", True),
        "named": {role: getattr(made, f"{role}_token_id", None) for role in SPECIAL},
        "pair": int(made.num_special_tokens_to_add(pair=True)) if makes_pairs(made) else 0,
    }


def _vocabulary(request: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return a vocabulary file of any kind; ``form`` names the kind."""
    made = read_here(Path(request["file"]))
    if isinstance(made, WordTable):
        return None, {"form": "words", **_of_words(made)}
    if hasattr(made, "all_special_ids"):
        return made, {"form": "library", "facts": _facts(made)}
    return made, {"form": "pieces", **_of_pieces(made)}


def _of_words(table: WordTable) -> dict[str, Any]:
    target = None if table.target is None else _of_words(table.target)
    return {"words": list(table.words), "roles": dict(table.roles), "target": target}


def _plain_pickle(request: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return None, {"content": encode(read_plain_pickle(Path(request["file"])))}


MAKERS: dict[str, Callable[[dict[str, Any]], tuple[Any, dict[str, Any]]]] = {
    "pieces": _pieces,
    "library": _library,
    "byte_pairs": _byte_pairs,
    "plain_pickle": _plain_pickle,
    "vocabulary": _vocabulary,
}


def _used(thing: Any, request: dict[str, Any]) -> dict[str, Any]:
    if request["do"] == "decode":
        return {"text": str(thing.decode(request["ids"]))}
    if request["do"] == "pieces":
        return {"pieces": [str(word) for word in thing.encode(request["text"], out_type=str)]}
    if not hasattr(thing, "all_special_ids"):  # a sentencepiece processor
        return {"ids": thing.encode(request["text"])}
    words = ("text", "text_pair", "text_target")
    given = {word: request[word] for word in words if request[word] is not None}
    if set(given) == {"text_target"} and not request["special"]:
        return {"ids": encode_target(thing, given["text_target"])}
    made = thing(**given, add_special_tokens=request["special"])
    return {"ids": list(made["input_ids"]), "segments": made.get("token_type_ids")}
