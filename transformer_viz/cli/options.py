"""What several commands ask for, and the model that they open."""

from __future__ import annotations

from collections.abc import Callable
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


def vocabulary_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The files of the vocabularies, which `load_model` reads."""
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
    """Overrides of the checkpoint's words, and its vocabularies."""
    words = click.option(
        "--set",
        "words",
        metavar="WORD=VALUE",
        multiple=True,
        help="Override a word of the checkpoint, such as heads=8; may be repeated.",
    )
    return words(vocabulary_options(command))


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What goes through a model, one of several ways to say it, and a target."""
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
    """The checkpoint under ``WORD=VALUE`` overrides and further ones.

    What was guessed of it is marked on stderr, for every command alike.
    """
    overrides = dict(map(config_word, words))
    known = known_checkpoint(path, overrides)
    with after_a_second(f"Loading {path}"):
        from ..checkpoints import load

        model = load(known, **named_vocabularies(), **overrides, **more)
    note_guesses(model.guessed)
    if model.pair is not None:
        note_guesses(model.pair.picture.guessed)
    return model


def load_apart(path: str, words: tuple[str, ...]) -> Model:
    """The same in a process of its own, as the app opens a stranger's."""
    known, overrides = known_checkpoint(path), dict(map(config_word, words))
    with after_a_second(f"Loading {path}"):
        from ..opening import open_apart

        model = open_apart(known, **named_vocabularies(), **overrides)
    note_guesses(model.guessed)
    return model
