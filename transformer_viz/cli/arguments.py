"""Conversion and validation of command-line arguments, before torch is loaded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..core.interventions import Intervention
from ..core.sites import MAPS
from .terminal import note_guesses

if TYPE_CHECKING:
    import numpy as np

    from ..checkpoints.common.model import Model
    from ..core.trace import Trace

VOCABULARIES = ("tokenizer", "target_tokenizer")  # arguments of `load` that have options
KEEP = ("weights", "scores", "qkv", "hidden", "gradients", "tiles")


def known_checkpoint(path: str, overrides: dict[str, Any] | None = None) -> str:
    """Return a bundled name unchanged, anything else as an absolute path that exists.

    A model of the Hub is downloaded first, and its folder is returned. Options of the download are
    removed from ``overrides``, and the base model of an adapter is added.
    """
    from ..checkpoints.common.bundled import shelved
    from ..checkpoints.hub.door import local
    from ..checkpoints.hub.ids import hint

    words = {} if overrides is None else overrides
    if shelved(path) is not None:
        return path
    how = {word: words.pop(word) for word in ("revision", "allow_pickle") if word in words}
    found, more = local(path, words, **how)
    words.update(more)
    if not Path(found).exists():
        from ..checkpoints import available

        raise ValueError(
            f"There is no checkpoint {path!r}: no file or folder of that name, and the box holds "
            f"{', '.join(available()) or 'nothing'}.{hint(path)}"
        )
    return str(Path(found).absolute())


def flag_of(word: str) -> str:
    """Return the option for an argument of `load`."""
    return f"--{word.replace('_', '-')}"


def keep_vocabulary(context: click.Context, option: click.Parameter, path: str | None) -> None:
    """Keep the path of ``--tokenizer`` or ``--target-tokenizer`` (option callback).

    Raises:
        ValueError: There is no such file or folder.
    """
    if path is None:
        return
    if not Path(path).exists():
        flag = flag_of(str(option.name))
        raise ValueError(
            f"There is no file {path!r}; {flag} names a vocabulary file, or a folder with a "
            "tokenizer."
        )
    context.meta[f"{__name__}.{option.name}"] = str(Path(path).absolute())


def named_vocabularies() -> dict[str, Any]:
    """Return the vocabulary files of this command, by argument of `load`."""
    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    named = {word: meta.get(f"{__name__}.{word}") for word in VOCABULARIES}
    return {word: path for word, path in named.items() if path is not None}


def config_word(text: str) -> tuple[str, Any]:
    """Parse an override: numbers, true and false as such, anything else as text."""
    word, equals, value = text.partition("=")
    if word in VOCABULARIES:
        raise ValueError(f"--set takes words of a config; name the file with {flag_of(word)} FILE.")
    if not (word and equals) or word in ("thing", "device"):  # load's own arguments
        raise ValueError(f"--set takes WORD=VALUE, like --set heads=8; got {text!r}.")
    try:
        return word, json.loads(value, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return word, value  # a bare value such as norm=post


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no finite number")


def one_source(
    text: str | None,
    pair: tuple[str, str] | None,
    ids: str | None,
    image: str | None,
    audio: str | None,
    vectors: str | None,
) -> Any:
    """Return the single input, as `tv.trace` takes it; a picture may accompany a text."""
    given = {"a text": text, "--pair": pair, "--ids": ids, "--image": image, "--audio": audio}
    given["--vectors"] = vectors
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1 and names not in (["a text", "--image"], ["--ids", "--image"]):
        raise ValueError(
            f"A run takes one input, and {' and '.join(names) or 'none'} came; give a text, "
            "--pair, --ids, --image, --audio or --vectors; --image may stand beside a text."
        )
    if image is not None:
        existing_picture(image)
    if audio is not None and not Path(audio).is_file():
        raise ValueError(f"There is no sound {audio!r}; --audio names a WAV file.")
    if ids is not None:
        return token_ids("--ids", ids)
    if vectors is not None:
        return vectors_file("--vectors", Path(vectors))
    return text if text is not None else pair or image or audio


def existing_picture(image: str, named: str = "--image") -> Path:
    """Return the file of ``--image`` or of an argument."""
    if not Path(image).is_file():
        raise ValueError(f"There is no picture {image!r}; {named} names a file.")
    return Path(image)


def one_target(text: str | None, ids: str | None, vectors: bool) -> Any:
    """Return the target, if any; with vectors it is a file of them."""
    if text is not None and ids is not None:
        raise ValueError("--target and --target-ids both came; a run has one target, give one.")
    if ids is not None:
        return token_ids("--target-ids", ids)
    return vectors_file("--target", Path(text)) if vectors and text is not None else text


def one_question(target: str | None, target_ids: str | None, **given: Any) -> tuple[Any, Any]:
    """Return the input and the target of a run, from `cli.input_options`."""
    return one_source(**given), one_target(target, target_ids, given["vectors"] is not None)


def named_choice(model: Model, word: Any) -> Any:
    """Return the class, or the token index, that a classifying model is asked about.

    A number as text is converted, unless it is the name of a class.
    """
    judges = model.gives != "words" and isinstance(word, str)
    return int(word) if judges and word.isdecimal() and word not in model.labels else word


def token_ids(flag: str, text: str) -> list[int]:
    """Parse the numbers of an option such as ``--ids "2 45 3"``."""
    words = text.replace(",", " ").split()
    if not words or not all(word.isascii() and word.isdigit() for word in words):
        raise ValueError(f'{flag} takes token ids from 0, like {flag} "2 45 3"; got {text!r}.')
    return [int(word) for word in words]


def vectors_file(flag: str, path: Path) -> np.ndarray:
    """Read the floats ``[token, d_model]`` of a .npy file, without pickle."""
    import numpy as np

    if not path.is_file():
        raise ValueError(f"There is no file {str(path)!r}; {flag} names a .npy file.")
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is no .npy file of plain numbers ({error}).") from error
    if not (isinstance(array, np.ndarray) and array.ndim == 2 and array.dtype.kind == "f"):
        came = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else "an archive"
        raise ValueError(f"{flag} needs floats [token, d_model]; {path} holds {came}.")
    return array


def stored_run(path: str) -> Trace:
    """Return the trace of a file."""
    if not Path(path).is_file():
        raise ValueError(
            f"There is no file {path!r}; name one that transformer-viz trace --out wrote."
        )
    return _loaded(path)


def _loaded(path: str) -> Trace:
    """Return the trace of a file, and note guessed values of its model for stderr."""
    from ..core.trace import Trace

    found = Trace.load(path)
    note_guesses(found.guesses)
    return found


def trace_file(path: str, given: dict[str, Any], words: tuple[str, ...]) -> Trace | None:
    """Return the trace of a path; None if the path is something else.

    Raises:
        ValueError: An input, an intervention or config overrides were given as well.
    """
    from ..core.trace import Trace

    if not Path(path).is_file() or not Trace.is_file(path):
        return None
    inputs = ("text", "pair", "ids", "image", "audio", "vectors", "target", "target_ids")
    if (
        words
        or named_vocabularies()
        or any(given.get(name) is not None for name in (*inputs, "intervention"))
    ):
        raise ValueError(
            f"{path!r} is a trace file: a run that is over, with its own input. Leave the input, "
            "--intervention, --set, --names and --tokenizer out, or name a checkpoint."
        )
    return _loaded(path)


def one_place(
    trace: Trace, block: str | None, layer: int | None, head: int | None, picture: str, kind: str
) -> tuple[str, int, int]:
    """Return the named head, as far as it is needed: an atlas has all of them."""
    if block is None and len(trace.maps) > 1:
        raise ValueError(f"This run has the maps {', '.join(trace.maps)}; name one with --block.")
    if block is not None and block not in MAPS:
        raise ValueError(f"--block is one of {', '.join(MAPS)}; got {block!r}.")
    everything = picture == "atlas" and kind not in ("csv", "npz")
    if not everything and (layer is None or head is None):
        raise ValueError("Name the head with --layer and --head, both counted from 0.")
    return block or trace.maps[0], layer or 0, head or 0


HEAD = re.compile(r"(?:(\w+)[.:])?L?(\d+)[.H](\d+)")
SPAN = re.compile(r"(\d+)(?:-(\d+))?")


def head_places(text: str | None) -> list[tuple[str, int, int] | tuple[int, int]]:
    """Parse the heads of an option such as ``--heads "1.3 L0H2 cross.1.0"``."""
    found: list[tuple[str, int, int] | tuple[int, int]] = []
    for word in (text or "").replace(",", " ").split():
        parts = HEAD.fullmatch(word)
        if parts is None or parts[1] not in (None, *MAPS):
            raise ValueError(
                "--heads takes layer and head of each, counted from 0, like --heads "
                f'"1.3 L0H2 cross.1.0"; got {word!r}.'
            )
        place = int(parts[2]), int(parts[3])
        found.append(place if parts[1] is None else (parts[1], *place))
    return found


def layer_numbers(text: str | None) -> list[int]:
    """Parse the layers of an option such as ``--layers "0 4-6"``."""
    found: list[int] = []
    for word in (text or "").replace(",", " ").split():
        parts = SPAN.fullmatch(word)
        if parts is None or int(parts[2] or parts[1]) < int(parts[1]):
            raise ValueError(f'--layers takes numbers from 0, like --layers "0 4-6"; got {word!r}.')
        found += range(int(parts[1]), int(parts[2] or parts[1]) + 1)
    return found


def token_span(flag: str, text: str | None) -> slice | None:
    """Parse the tokens of an option such as ``--rows 100:300``, the end not included."""
    if text is None:
        return None
    first, colon, last = text.partition(":")
    known = all(not word or (word.isascii() and word.isdecimal()) for word in (first, last))
    if not (colon and known):
        raise ValueError(f"{flag} takes numbers of tokens, like {flag} 0:500; got {text!r}.")
    return slice(int(first) if first else None, int(last) if last else None)


def new_file(out: str, what: str) -> Path:
    """Return the file of ``--out``, after checking that its folder exists and it is no folder."""
    path = Path(out)
    if not path.resolve().parent.is_dir():
        raise ValueError(f"There is no folder {path.parent} for --out; make it first.")
    if path.is_dir():
        raise ValueError(f"--out names a file for the {what}, and {out!r} is a folder.")
    return path


def kept_parts(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """Parse the parts that a trace should keep, from options that may be repeated or hold a list.

    None without any; the default is the weights, or the tiles of a long text.
    """
    kept = tuple(part for word in words for part in word.replace(",", " ").split())
    for part in kept:
        if part not in KEEP:
            raise ValueError(f"--keep knows {', '.join(KEEP)}; got {part!r}.")
    return kept or None


def read_intervention(text: str | None) -> Intervention:
    """Return the intervention of a JSON text or file; None is the clean run."""
    if text is None:
        return Intervention()
    if text.lstrip()[:1] in ("{", "["):
        return Intervention.from_json(text)
    if not Path(text).is_file():
        raise ValueError(
            f"--intervention takes JSON or a file of it; {text!r} is neither. Write it like "
            '{"edits": [{"kind": "temperature", "value": 2.0}]}.'
        )
    return Intervention.from_json(Path(text).read_text(encoding="utf-8"))
