"""Options shared by several commands, and model loading."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .arguments import config_word, keep_vocabulary, known_checkpoint, named_vocabularies
from .terminal import after_a_second, note_guesses

if TYPE_CHECKING:
    from ..checkpoints.common.model import Model

model_path = click.argument("path", metavar="PATH")
intervention_option = click.option(
    "--intervention",
    metavar="FILE|JSON",
    help="What to change in the run, as JSON or a file of it.",
)
NAMES = "names"  # key of an override; in a context, the file of --names

_words_option = click.option(
    "--set",
    "words",
    metavar="WORD=VALUE",
    multiple=True,
    callback=lambda context, option, words: (*words, *context.meta.get(NAMES, ())),
    help="Override a word of the checkpoint, such as heads=8; may be repeated.",
)
_names_option = click.option(
    "--names",
    metavar="F.json",
    is_eager=True,  # so that its file is among the values of --set
    expose_value=False,
    callback=lambda context, option, file: _note_names(context, file),
    help="Which weight of one's own file is which, as `transformer-viz names` writes it.",
)


def vocabulary_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the vocabulary files, which `load_model` reads."""
    of_source = "The vocabulary: a file or a folder; of the source, if the target has its own."
    for option in (
        click.option(
            "--target-tokenizer",
            metavar="F",
            expose_value=False,
            callback=keep_vocabulary,
            help="The vocabulary of the target.",
        ),
        click.option(
            "--tokenizer",
            metavar="F",
            expose_value=False,
            callback=keep_vocabulary,
            help=of_source,
        ),
    ):
        command = option(command)
    return command


def set_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--set``, ``--names`` and the vocabularies.

    The first two reach the command as ``words``, ``WORD=VALUE``.
    """
    return _words_option(_names_option(vocabulary_options(command)))


def _note_names(context: click.Context, file: str | None) -> None:
    if file is not None:
        context.meta[NAMES] = (f"names={json.dumps(file)}",)


def _overrides(words: tuple[str, ...]) -> dict[str, Any]:
    """Return the overrides of ``WORD=VALUE``; a file of names must exist."""
    overrides = dict(map(config_word, words))
    file = overrides.get(NAMES)
    if isinstance(file, str) and not Path(file).is_file():
        raise ValueError(
            f"There is no file {file!r}; --names takes a JSON file, which `transformer-viz names "
            "PATH --out F.json` writes."
        )
    return overrides


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the input of a model, in one of several forms, and for a target."""
    aim = "The target text; left out, it is decoded. With --vectors a .npy."
    fed = "The decoder's input ids, start included."
    for option in (
        click.option("--target-ids", metavar='"2 11"', help=fed),
        click.option("--target", metavar="T", help=aim),
        click.option("--vectors", metavar="F.npy", help="Floats [token, d_model], for bare cores."),
        click.option("--image", metavar="F", help="A picture, alone or beside a text."),
        click.option("--audio", metavar="F.wav", help="A sound, for models that take sounds."),
        click.option("--ids", metavar='"2 45 3"', help="Token ids, start and end as given."),
        click.option("--pair", nargs=2, metavar="A B", help="Two texts, for pair models."),
        click.argument("text", required=False),
    ):
        command = option(command)
    return command


def load_model(path: str, words: tuple[str, ...] = (), **more: Any) -> Model:
    """Load the checkpoint with ``WORD=VALUE`` overrides and further ones.

    Guessed values are noted on stderr, for every command.
    """
    overrides = _overrides(words)
    known = known_checkpoint(path, overrides)
    with after_a_second(f"Loading {path}"):
        from ..checkpoints import load

        model = load(known, **named_vocabularies(), **overrides, **more)
    note_guesses(model.guessed)
    if model.pair is not None:
        note_guesses(model.pair.picture.guessed)
    return model


def load_apart(path: str, words: tuple[str, ...]) -> Model:
    """Load the checkpoint in a separate process, as the app opens uploaded files."""
    known, overrides = known_checkpoint(path), _overrides(words)
    with after_a_second(f"Loading {path}"):
        from ..opening import open_apart

        model = open_apart(known, **named_vocabularies(), **overrides)
    note_guesses(model.guessed)
    return model
