"""Inputs of the current model: text, two texts, a picture, a sound, or vectors."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from html import escape

import streamlit as st

from ...core.errors import TooLongError
from ...i18n import mark, say
from ...preprocessing.audio import example_sound
from ...preprocessing.wav import is_wav, wav_bytes
from ..engine.engine import Engine
from ..engine.model_kind import Kind
from ..engine.query import File
from ..engine.trace_jobs import EXAMPLE, beginning_of
from ..session import notices, query_state
from ..session.keys import private
from ..session.state import state
from ..session.url_values import BEAMS
from ..ui import layout
from ..ui.text_format import escape_markdown, spoken

EXAMPLES = {
    "translation": (
        "The animal didn't cross the street because it was too tired.",
        "I would like a cup of coffee without sugar.",
        "She gave him the book that he wanted to read.",
        "We can't go home before it stops raining.",
    ),
    "continues": (
        "I don't know what",
        "Tom went to the",
        "It's raining. We should",
        "She said that she would",
    ),
    "fills": (
        "The weather is very [cold] today.",
        "She drank a cup of [coffee] this morning.",
        "Tom [gave] me a book for my birthday.",
        "I have never [been] to Paris.",
    ),
    "sentence": (
        "I enjoyed every minute of it.",
        "The food was cold and the waiter was rude.",
        "We can't go home before it stops raining.",
    ),
}
PICTURES = ["png", "jpg", "jpeg", "webp", "gif", "bmp"]
SHOWN = {
    "image": mark(
        "Shown is your own picture. It stays in this visit: a link opens the example instead."
    ),
    "beside": mark(
        "Beside the text stands your own picture. It stays in this visit: a link opens the text "
        "without it."
    ),
    "audio": mark(
        "Heard is your own sound. It stays in this visit: a link opens the example instead."
    ),
    "file": mark(
        "Shown is your own file. It stays in this visit: a link opens the example instead."
    ),
}
#: Options for a picture beside the text, besides an uploaded one.
BESIDE = {"": mark("no picture"), EXAMPLE: mark("a house, made by code")}
MOST_SEEDS = 99_999
MOST_LETTERS = 200_000  # of a text; a chapter has some 30,000
EXAMPLE_RATE = 16_000  # samples a second of the played example
OWN = "own-file"  # key of the file upload


def box(engine: Engine, kind: Kind) -> tuple[str, ...]:
    """Draw the input for this kind of model; return the keys with a widget."""
    if kind.takes == "image":
        return _picture(engine)
    if kind.takes == "audio":
        return _sound()
    if kind.takes == "vectors":
        return _vectors(kind)
    st.text_input(
        kind.sentence,
        key="text",
        placeholder=say("Type {text}", text=_article(kind))
        if kind.spelled
        else say("such as 2 45 3"),
        max_chars=MOST_LETTERS,
        on_change=query_state.mark_text_changed,
        help=None
        if kind.spelled
        else say("No vocabulary is in use for this text: it is typed as ids."),
        label_visibility="visible" if kind.pairs or not kind.spelled else "collapsed",
    )
    if kind.eyes:
        return ("text", *_beside())
    if not kind.pairs:
        return ("text",)
    st.text_input(
        say("Second sentence"),
        key="second",
        placeholder=say("if there is one"),
        max_chars=20_000,
        on_change=query_state.mark_text_changed,
    )
    return ("text", "second")


def choices(kind: Kind) -> tuple[str, ...]:
    """Draw the target and the beam width of a model that generates text.

    Returns:
        Keys with a widget; those in a panel only while it is open.
    """
    if not kind.writes:
        return ()
    if not kind.translates:
        panel = layout.unfolding(say("Search"), "search-panel")
        if panel is None:
            return ()
        with panel:
            _beam(say("How many continuations the search keeps at once; 1 is greedy."))
        return ("beam",)
    heard = kind.takes == "audio"
    panel = layout.unfolding(say("Target"), "target-panel")
    if panel is None:
        return ()
    with panel:
        st.text_input(
            say("Hold these target words"),
            key="target",
            on_change=query_state.mark_query_changed,
            placeholder=say("leave empty: the model writes")
            if heard
            else say("leave empty: the model translates"),
            help=say("Words of your own. The model is then asked about them.")
            if heard
            else say("A translation of your own. The model is then asked about its words."),
        )
        _beam(
            say("How many texts the search keeps at once; 1 is greedy.")
            if heard
            else say("How many translations the search keeps at once; 1 is greedy.")
        )
    return ("target", "beam")


def examples(engine: Engine, kind: Kind) -> None:
    """Draw a few example sentences as buttons, if there are any."""
    own = query_state.file_of(kind)
    if kind.takes == "audio":
        _player(own)
    if own is not None:
        _own_file(kind, own)
    if kind.takes != "text" or not kind.spelled:
        return
    name = "fills" if kind.fills else "continues" if kind.continues else "sentence"
    texts = kind.examples or EXAMPLES["translation" if kind.translates else name]
    with layout.row("center", key="examples"):
        tried = say("words of the model's own list:") if kind.examples else say("try")
        layout.quiet(escape(tried), fit=True)
        for number, text in enumerate(texts):
            st.button(
                unmarked(text),
                key=f"example-{number}",
                type="tertiary",
                on_click=_take,
                args=(engine, kind, text),
            )


def offer_beginning(engine: Engine, error: TooLongError) -> None:
    """Draw a button that shortens the text to its longest allowed beginning."""
    if state.second or error.most < 1:
        return
    st.button(
        say("Keep its first {most:,} tokens", most=error.most),
        key="keep-beginning",
        on_click=_keep_beginning,
        args=(engine, state.text, error.most),
    )


def _keep_beginning(engine: Engine, text: str, most: int) -> None:
    try:
        state.text = engine.ask(state.model, beginning_of, text, most)
    except ValueError as none:
        notices.complain(spoken(none))
        return
    query_state.mark_text_changed()
    private.shortened = True


def todo(kind: Kind) -> str:
    """Return the instruction shown while there is no input."""
    if kind.takes == "image":
        return say("Choose a picture above, or give one of your own.")
    if not kind.spelled:
        return say("Type token ids above, such as 2 45 3: no vocabulary is in use for this text.")
    return say("Type {text} above, or choose one of the examples.", text=_article(kind))


def unmarked(text: str) -> str:
    """Return an example without the brackets around the word to mask."""
    return text.replace("[", "").replace("]", "")


def _article(kind: Kind) -> str:
    """Return the name of the input with its article, if it has one."""
    language = kind.language
    if kind.continues:
        return say("a text")
    if not language:
        return say("a sentence")
    if language[0] in "AEIOU":
        return say("an {language} sentence", language=say(language))
    return say("a {language} sentence", language=say(language))


def _beam(words: str) -> None:
    st.selectbox(
        say("Beam"), list(BEAMS), key="beam", on_change=query_state.mark_query_changed, help=words
    )


def _take(engine: Engine, kind: Kind, text: str) -> None:
    """Use an example as text; the word in brackets is masked if the model can fill masks."""
    st.session_state.update(text=unmarked(text), second="", target="")
    query_state.mark_text_changed()
    if kind.mask_id is not None:
        word = text.partition("[")[2].partition("]")[0]
        state.masked = engine.places_of(state.model, unmarked(text), word)


def _picture(engine: Engine) -> tuple[str, ...]:
    names = list(engine.shelf[state.model].pictures)
    if names and state.picture not in names:
        state.picture = names[0]
    if names:
        st.selectbox(
            say("Picture"),
            names,
            key="picture",
            on_change=_example,
            args=("image",),
            format_func=lambda name: name.replace("-", " ").replace("_", " "),
            width="stretch",
        )
    _upload("image", say("Your own picture"), PICTURES)
    return ("picture",) if names else ()


def _beside() -> tuple[str, ...]:
    """Draw the choice of a picture beside the text: none, the example, or an upload."""
    st.selectbox(
        say("Picture"),
        ["", EXAMPLE],
        key="picture",
        on_change=_example,
        args=("image",),
        format_func=lambda name: say(BESIDE[name]),
        help=say("It stands before the text, or where the text has the model's own mark for it."),
    )
    _upload("image", say("Your own picture"), PICTURES)
    return ("picture",)


def _sound() -> tuple[str, ...]:
    """Draw a microphone and a file upload; without either the model reads the example."""
    st.audio_input(
        say("Record a sound"),
        key=f"{OWN}-recording",
        on_change=_given,
        args=("audio", "recording"),
        help=say("It is read here and kept in memory for this visit only."),
    )
    _upload("audio", say("Your own sound"), ["wav"])
    return ()


def _player(own: File | None) -> None:
    """Draw a player for the model's input sound."""
    with layout.row("center", key="player"):
        content = _example_sound() if own is None else own.content
        if is_wav(content):  # browsers report errors for any other format
            st.audio(content, format="audio/wav", width=320)
        if own is None:
            st.caption(say("Heard are three notes made by code, nobody's voice."), width="content")


@cache
def _example_sound() -> bytes:
    return wav_bytes(example_sound(EXAMPLE_RATE), EXAMPLE_RATE)


def _vectors(kind: Kind) -> tuple[str, ...]:
    st.number_input(
        say("Random vectors, drawn with seed"),
        key="seed",
        min_value=0,
        max_value=MOST_SEEDS,
        on_change=_example,
        args=("vectors",),
        help=say(
            "This model has no embeddings: it reads vectors. These are drawn at random, the same "
            "ones for the same seed."
        ),
    )
    _upload("vectors", say("Your own vectors"), ["npy"])
    return ("seed",)


def _example(takes: str) -> None:
    """Remove the uploaded file after an example was chosen."""
    query_state.set_own_file(takes, None)


def _upload(takes: str, label: str, types: list[str]) -> None:
    """Draw a file upload. The file stays in this session and is not in the link."""
    with st.popover(label):
        st.file_uploader(
            label,
            type=types,
            key=f"{OWN}-{takes}",
            on_change=_given,
            args=(takes,),
            label_visibility="collapsed",
            help=say("It is read here and kept in memory for this visit only."),
        )


def _given(takes: str, box: str = "") -> None:
    given = st.session_state[f"{OWN}-{box or takes}"]
    if given is None:
        query_state.set_own_file(takes, None)
        return
    content = given.getvalue()
    query_state.set_own_file(takes, File(sha256(content).hexdigest(), given.name, content))


def _own_file(kind: Kind, own: File) -> None:
    """Draw a caption for the uploaded file, and a button that removes it."""
    with layout.row("center", key="own-file"):
        shown = "beside" if kind.eyes else kind.takes
        st.caption(say(SHOWN.get(shown, SHOWN["file"])), width="content")
        st.button(
            f"{escape_markdown(own.name)} ✕", key="own-back", on_click=_example, args=(kind.own,)
        )
