"""Choice of an atlas: a folder on the server, a zip of one, or one of the bundled sentences."""

from __future__ import annotations

import re
import shutil
from functools import lru_cache
from html import escape
from pathlib import Path

import streamlit as st

from ...corpus.folder import AtlasFolder, open_atlas
from ...i18n import mark, numeral, say
from ..checkpoint import uploads
from ..engine import model_names
from ..engine.engine import Engine
from ..session.keys import private
from ..session.state import state
from ..ui import layout
from ..ui.progress import run_with_progress
from ..ui.text_format import escape_markdown, spoken
from .making import made

BOX = "box"  # name of the atlas of the bundled sentences
BYTES = 200_000_000
FILES = ("plan.json", "atlas.parquet", "examples.parquet")
COMMAND = "transformer-viz atlas en-de pairs.tsv --out atlas"
ZIPPED = mark(
    "Or drop a zip of such a folder; plan.json, atlas.parquet and examples.parquet suffice. It "
    "stays on this server until your visit ends, and nobody else can open it."
)


def choices(engine: Engine) -> None:
    """Draw the three ways to open an atlas."""
    with st.container(border=True, key="card-atlas"):
        if st.button(
            say(
                "Measure the 500 sentences in the box on {model}",
                model=escape_markdown(model_names.public_name(state.model)),
            ),
            key="atlas-make",
            on_click=_take,
            args=(BOX,),
        ):
            pass
        names = (say("“{word}”", word=root.resolve().name) for root in model_names.roots())
        st.text_input(
            say(
                "Or the folder of an atlas below the folder {folders}",
                folders=say(" or ").join(names),
            ),
            key="atlas-path",
            placeholder="atlas",
            on_change=_typed,
        )
        _trouble("path")
        _zip(engine)
        layout.quiet(
            escape(say("An atlas of any number of sentences is made on the command line:"))
        )
        st.code(COMMAND, language=None)


def _take(name: str) -> None:
    state.corpus = name
    del private.atlas_error


def _typed() -> None:
    text = st.session_state["atlas-path"].strip()
    if not text:
        return
    try:
        _take(model_names.path_name(text))
    except (ValueError, OSError) as error:
        private.atlas_error = ("path", spoken(error))


def _zip(engine: Engine) -> None:
    file = st.file_uploader(say("A zip of an atlas"), type=["zip"], key="atlas-zip")
    _trouble("zip")
    layout.quiet(escape(say(ZIPPED)))
    if file is None or file.file_id == private.atlas_came:
        return
    private.atlas_came = file.file_id
    try:
        if file.size > BYTES:
            raise ValueError(
                say(
                    "{name} has {size} MB; here up to {most} MB are read. Put the folder below "
                    "the server's own and give its path.",
                    name=file.name,
                    size=round(file.size / 1e6),
                    most=BYTES // 1_000_000,
                )
            )
        _take(_unpacked(engine, file.name, file.getvalue(), file.file_id))
    except (ValueError, OSError) as error:
        private.atlas_error = ("zip", spoken(error))
    st.rerun()


def _unpacked(engine: Engine, name: str, content: bytes, number: str) -> str:
    """Unpack a zip into the session's folder; return the name of its atlas."""
    from ...checkpoints.files.unpacking import unpack

    title = re.sub(r"[^\w.-]+", "_", Path(name).stem).strip("._")[:60] or "atlas"
    plain = re.sub(r"\W+", "", number)[-16:]
    place = uploads.room(engine).folder / "atlases" / plain
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    archive = place / f"{title}.zip"
    archive.write_bytes(content)
    into = unpack(archive, place / title)
    archive.unlink()
    if not into.is_dir() or not (into / FILES[0]).is_file():
        raise ValueError(
            say(
                "{name} is no atlas of a corpus: it has no {file}. Zip the folder that "
                "transformer-viz atlas made.",
                name=name,
                file=FILES[0],
            )
        )
    return f"{model_names.UPLOAD}{plain}/{title}"


def _trouble(where: str) -> None:
    kind, sentence = private.atlas_error
    if kind == where:
        st.error(escape_markdown(sentence))


def chosen(engine: Engine) -> AtlasFolder | None:
    """Return the open atlas, or None if none was chosen.

    Raises:
        ValueError: The atlas is missing, unfinished, incomplete, or of another kind; names the
            file.
        Stopped: The user stopped its making.
    """
    name = state.corpus
    if not name:
        return None
    if name == BOX:
        place = _made(engine)
    elif name.startswith(model_names.UPLOAD):
        place = _uploaded(engine, name)
    else:
        place = model_names.find_below(name.removeprefix(model_names.PATH))
    try:
        return opened(place)
    except ValueError as error:
        raise ValueError(model_names.veiled(str(error), place.parent)) from error


def opened(place: Path) -> AtlasFolder:
    """Return the complete atlas of a folder; its files are read again when they change.

    Raises:
        ValueError: The folder has no atlas, or an unfinished or damaged one; names the file.
    """
    files = [place / name for name in FILES]
    if files[0].is_file():
        atlas = open_atlas(place)
        lacking = [path.name for path in files[1:] if not path.is_file()]
        if lacking:
            atlas.check()  # reports a foreign part first
            done, total = atlas.progress
            raise ValueError(
                say(
                    "This atlas lacks {files}: {done} of {total} sentences are in finished parts. "
                    "The same command goes on where it stopped and puts them together.",
                    files=", ".join(lacking),
                    done=numeral(done, ","),
                    total=numeral(total, ","),
                )
            )
    return _read(place, tuple(path.stat().st_mtime_ns for path in files if path.is_file()))


@lru_cache(maxsize=4)
def _read(place: Path, changed: tuple[int, ...]) -> AtlasFolder:
    atlas = open_atlas(place)
    _ = atlas.table, atlas.card
    return atlas


def _made(engine: Engine) -> Path:
    name = state.model
    plain = re.sub(r"[^\w.-]+", "_", name).strip("._")[-60:] or "model"
    folder = str(uploads.room(engine).folder / "made" / plain)
    found: Path = run_with_progress(
        lambda task: engine.ask(name, made, folder, task=task, stepped=True),
        key="atlas-made",
        label=say("Measuring every head on 500 sentences ..."),
        about=(name, folder),
    )
    return found


def _uploaded(engine: Engine, name: str) -> Path:
    number, _, title = name.removeprefix(model_names.UPLOAD).partition("/")
    folder = uploads.room(engine).folder / "atlases"
    place = folder / number / title
    if not title or place.resolve().parent.parent != folder.resolve() or not place.is_dir():
        raise ValueError(
            say("This atlas was uploaded in another visit, and is not here; drop its zip again.")
        )
    return place
