"""Every reader of what strangers bring: its sound inputs, how they are changed, and the reading.

A reader gets changed files in a folder of their own and either returns or raises. What it says
is judged by `judge.py`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import pickle
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qsl, urlencode

import torch

import transformer_viz as tv
from tests.conftest import make_model
from transformer_viz.app.session import url_state
from transformer_viz.checkpoints import load
from transformer_viz.checkpoints.files import reading, unpacking
from transformer_viz.checkpoints.files.plain_pickle import read_plain_pickle
from transformer_viz.core.interventions import Intervention
from transformer_viz.core.trace import Trace
from transformer_viz.corpus.engines import run
from transformer_viz.corpus.folder import open_atlas
from transformer_viz.corpus.plan import make_plan, settle_plan
from transformer_viz.corpus.sentence_file import sentences
from transformer_viz.inference.inspection import inspect
from transformer_viz.opening.apart import open_apart
from transformer_viz.preprocessing.tokenizers import SentencePieceText
from transformer_viz.views.export.html_report import report

from . import seeds, texts
from .mutators import changed, of_json

TEXTS = ("the cat ab .", "", "a" * 200, "x 12345 é 你", "\u202e[MASK]\x00")
FETCHING = {"iframe", "object", "embed", "base", "link", "form", "foreignobject", "img"}
TAGS = re.compile(r"<(\w+)", re.ASCII)


@dataclass(frozen=True)
class Reader:
    """One reader. ``seeds`` are sound inputs by number; ``change`` makes one odd; ``read`` reads.

    ``heavy``: opens whole models, so a test tries fewer of its inputs.
    """

    name: str
    seeds: Callable[[], list[seeds.Seed]]
    read: Callable[[seeds.Seed, Path], Any]
    change: Callable[[list[seeds.Seed], Random], seeds.Seed]
    heavy: bool = False

    def case(self, draw: Random) -> seeds.Seed:
        """An odd input."""
        return self.change(self.seeds(), draw)

    def run(self, odd: seeds.Seed) -> Any:
        """Read it, in a folder of its own."""
        with TemporaryDirectory() as place:
            folder = Path(place) / "in"
            folder.mkdir()
            for name, content in odd.files.items():
                path = folder / name
                if "/" in name:
                    path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            return self.read(odd, folder)


def _changed(known: list[seeds.Seed], draw: Random) -> seeds.Seed:
    seed = draw.choice(known)
    return replace(seed, files=changed(seed.files, [one.files for one in known], draw))


def _alone(name: str, content: bytes) -> seeds.Seed:
    return seeds.Seed(name, {name: content}, name)


# ---- checkpoints and their parts ----------------------------------------------------------------


@cache
def _checkpoints() -> list[seeds.Seed]:
    return seeds.checkpoints()


def _open(odd: seeds.Seed, folder: Path) -> None:
    path = folder / odd.opened if odd.opened in odd.files else folder
    inspect(load(path, device="cpu", **odd.words))


def _open_apart(odd: seeds.Seed, folder: Path) -> None:
    """As the server opens it: a process of its own first, then what that one handed over."""
    path = folder / odd.opened if odd.opened in odd.files else folder
    inspect(open_apart(path, device="cpu", **odd.words))
    gc.collect()  # lets go of the model's tokenizers, and with them of their process


@cache
def _tokenizers() -> list[seeds.Seed]:
    bert = next(one for one in _checkpoints() if one.name == "bert")
    kinds = ("pieces", "bytes", "unigram", "words")
    return [seeds.Seed(kind, bert.files | seeds.tokenizer_files(kind)) for kind in kinds]


def _odd_tokenizer(known: list[seeds.Seed], draw: Random) -> seeds.Seed:
    seed = draw.choice(known)
    beside = {n: c for n, c in seed.files.items() if "token" in n}
    others = [{n: c for n, c in one.files.items() if "token" in n} for one in known]
    kept = {n: c for n, c in seed.files.items() if n not in beside}
    return replace(seed, files=kept | changed(beside, others, draw))


def _speak(odd: seeds.Seed, folder: Path) -> None:
    tokenizer = load(folder, device="cpu").tokenizer
    for text in TEXTS:
        ids = tokenizer.source_ids(text)
        tokenizer.tokens(ids)
        tokenizer.decode(ids)
        tokenizer.lost(text)


@cache
def _pieces() -> list[seeds.Seed]:
    kinds: tuple[dict[str, Any], ...] = ({}, {"model_type": "unigram", "vocab_size": 295})
    return [_alone("vocabulary.model", seeds.vocabulary(**words)) for words in kinds]


def _piece_by_piece(odd: seeds.Seed, folder: Path) -> None:
    tokenizer = SentencePieceText(odd.files.get("vocabulary.model", b""))
    for text in TEXTS:
        ids = tokenizer.source_ids(text)
        tokenizer.tokens(ids)
        tokenizer.decode(ids)


@cache
def _pickles() -> list[seeds.Seed]:
    plain = {"vocab_size": 5, "stoi": {"a": 0, "b": 1}, "itos": {0: "a", 1: "b"}, "x": [None, True]}
    every = range(pickle.HIGHEST_PROTOCOL + 1)
    return [_alone("meta.pkl", pickle.dumps(plain, protocol)) for protocol in every]


def _weights() -> list[seeds.Seed]:
    """Whatever holds tensors, each file alone."""
    ends = (".pt", ".pth", ".bin", ".safetensors", ".chkpt", ".tar")
    found = [(n, c) for one in _checkpoints() for n, c in one.files.items() if n.endswith(ends)]
    return [_alone(name, content) for name, content in found]


def _words() -> list[seeds.Seed]:
    every = [c for one in _checkpoints() for n, c in one.files.items() if n == "config.json"]
    return [_alone("config.json", content) for content in every]


def _zips() -> list[seeds.Seed]:
    made = []
    for one in _checkpoints()[:3]:
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            out = BytesIO()
            with zipfile.ZipFile(out, "w", method) as archive:
                for name, content in one.files.items():
                    archive.writestr(f"model/{name}", content[:20_000])
            made.append(_alone("in.zip", out.getvalue()))
    return made


def _only(name: str, read: Callable[[Path], Any]) -> Callable[[seeds.Seed, Path], Any]:
    """Reads the one file of an input, under whatever name it came."""

    def reads(odd: seeds.Seed, folder: Path) -> Any:
        return read(next(iter(sorted(folder.rglob(name))), folder / name))

    return reads


def _same_name(known: list[seeds.Seed], draw: Random) -> seeds.Seed:
    """A change that leaves the one file under its name."""
    odd = _changed(known, draw)
    return replace(odd, files={odd.opened: next(iter(odd.files.values()), b"")})


def _tensors(odd: seeds.Seed, folder: Path) -> None:
    path = folder / odd.opened
    if odd.opened.endswith(".safetensors"):
        reading.shapes_of(path)
    reading.read_weights(path)


# ---- what a visitor asks ------------------------------------------------------------------------

EDITS = [
    '{"edits":[{"kind":"temperature","value":2.0,"stack":"decoder","block":"cross","layer":1}]}',
    '{"edits":[{"kind":"block_keys","keys":[0,2]},{"kind":"window","radius":3}]}',
    '{"edits":[{"kind":"pad","count":3,"masked":false},{"kind":"causal","on":false}]}',
    '{"edits":[{"kind":"scale_head","value":0.5,"head":1},{"kind":"scale_positions","value":2}]}',
    '{"edits":[{"kind":"swap_head","source":"2 4","layer":0,"head":0,"stack":"encoder"}]}',
    '{"edits":[{"kind":"block_edges","edges":[[0,1],[2,2]]},{"kind":"uniform_head","on":true}]}',
]
LINKS = [
    {"text": "The cat sat.", "edits": EDITS[0], "beam": "2", "layer": "1", "zoom": "0-3,1-2"},
    {"model": "en-de", "set": '{"heads":8}', "overlay": "0.1,2.3", "masked": "1,2", "gamma": "0.5"},
    {"tried": "layers=2;seed=3", "branch": "2.1", "moments": "1,2", "seen": "cross.1.0"},
    {name.name: name.write(name.default) for name in url_state.KEYS if name.default is not None},
]


def _odd_link(known: list[seeds.Seed], draw: Random) -> seeds.Seed:
    return _alone("link", texts.packed(texts.query(draw.choice(known).files["link"], draw)))


def _links() -> list[seeds.Seed]:
    return [_alone("link", urlencode(words).encode()) for words in LINKS]


def _follow(odd: seeds.Seed, folder: Path) -> None:
    """A link is read whatever it says; what it names is judged by its complaints."""
    words = dict(parse_qsl(odd.files["link"].decode(), keep_blank_values=True))
    values, complaints = url_state.read(words, url_state.DEFAULTS)
    again = url_state.read(url_state.write(values, url_state.DEFAULTS), url_state.DEFAULTS)
    assert again == (values, []), f"{values} became {again}"
    if complaints:
        raise ValueError(max(complaints, key=len))


def _edits() -> list[seeds.Seed]:
    return [_alone("edits.json", text.encode()) for text in EDITS]


def _odd_edits(known: list[seeds.Seed], draw: Random) -> seeds.Seed:
    return _alone("edits.json", of_json(draw.choice(known).files["edits.json"], draw))


@cache
def _tiny() -> Any:
    return make_model()


def _edit(odd: seeds.Seed, folder: Path) -> None:
    text = odd.files["edits.json"].decode("utf-8", "replace")
    found = Intervention.from_json(text)
    assert Intervention.from_json(found.to_json()) == found
    found.describe()
    tv.trace(_tiny(), [5, 7, 11], [2, 4, 6], intervention=found)


@cache
def _server() -> tuple[Any, Any]:
    """The routes of the live frames, and one visit that they know."""
    from starlette.applications import Starlette

    from transformer_viz.app.engine.engine import Engine
    from transformer_viz.app.engine.model_kind import of_model
    from transformer_viz.app.engine.query import Question
    from transformer_viz.app.live import server
    from transformer_viz.app.live.registry import EXCHANGE, LiveSession, ViewState
    from transformer_viz.app.session.view_options import Look
    from transformer_viz.core.editing.edit_controls import Place

    seed = _checkpoints()[0]
    place = TemporaryDirectory()
    folder = Path(place.name) / "tiny"
    folder.mkdir()
    for name, content in seed.files.items():
        (folder / name).write_bytes(content)
    engine = Engine(str(folder))
    kind = of_model(engine.model("tiny"))
    question = Question("tiny", "The cat sat.", beam=1)
    view = ViewState(engine, question, kind, Place("cross", 1, 0), Intervention(), Look())
    visit = LiveSession(view)
    EXCHANGE.add(visit)
    return Starlette(routes=server.routes()), (visit, place)


LIVE = [
    {"path": "/live/TOKEN", "temperature": "2.5", "seq": "3"},
    {"path": "/live/TOKEN", "window": "3", "seq": "4"},
    {"path": "/live/TOKEN/tile", "of": "0" * 24, "level": "0", "row": "0", "column": "0"},
    {"path": "/some/base/live/TOKEN", "window": "off", "seq": "9"},
]


def _lives() -> list[seeds.Seed]:
    return [_alone("link", urlencode(words).encode()) for words in LIVE]


def _ask(odd: seeds.Seed, folder: Path) -> None:
    app, (visit, _) = _server()
    words = dict(parse_qsl(odd.files["link"].decode(), keep_blank_values=True))
    path = words.pop("path", "/live/TOKEN").replace("TOKEN", visit.token)
    sent: list[Any] = []
    scope = {
        "type": "http", "method": "GET", "path": path or "/", "headers": [],
        "query_string": urlencode(words, errors="replace").encode(), "scheme": "http",
        "http_version": "1.1", "server": ("127.0.0.1", 1), "client": ("127.0.0.1", 2),
        "root_path": "",
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    status, body = sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:])
    assert status in (200, 204, 400, 404, 409, 429), (status, body[:200])
    if status not in (200, 204) and body != b"Not Found":
        raise ValueError(body.decode())


def _sentences() -> list[seeds.Seed]:
    return [_alone("text", b"")]


def _odd_sentence(known: list[seeds.Seed], draw: Random) -> seeds.Seed:
    return _alone("text", texts.sentence(draw).encode("utf-8", "surrogatepass"))


def _type(odd: seeds.Seed, folder: Path) -> None:
    """A typed text, as Explore runs it: the labels say what was read, and rows sum to 1."""
    from transformer_viz.app.engine.query import DetailRequest, Question

    _, (visit, _) = _server()
    text = odd.files["text"].decode("utf-8", "surrogatepass")
    request = DetailRequest((visit.view.place.site,))
    answer = visit.view.engine.clean(Question("tiny", text, beam=1), request)
    found = answer.trace.source
    assert len(found.labels) == len(set(found.labels)) == len(found.ids)
    rows = answer.trace.block("cross", 1).weights.sum(-1)
    assert abs(rows - 1).max() < 1e-4


# ---- files of ours ------------------------------------------------------------------------------


@cache
def _traces() -> list[seeds.Seed]:
    made = []
    for keep in (("weights",), ("weights", "scores", "qkv", "hidden"), ("tiles",)):
        trace = tv.trace(_tiny(), [5, 7, 11], [2, 4, 6], keep=keep)
        with TemporaryDirectory() as place:
            trace.save(Path(place) / "run.safetensors")
            made.append(_alone("run.safetensors", (Path(place) / "run.safetensors").read_bytes()))
    return made


def _odd_trace(known: list[seeds.Seed], draw: Random) -> seeds.Seed:
    """Its header changed, or the JSON within the header."""
    if draw.randrange(2):
        return _same_name(known, draw)
    content = draw.choice(known).files["run.safetensors"]
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    words = of_json(header["__metadata__"]["trace"].encode(), draw)
    header["__metadata__"]["trace"] = words.decode("utf-8", "replace")
    text = json.dumps(header).encode()
    return _alone("run.safetensors", len(text).to_bytes(8, "little") + text + content[8 + length :])


def _look_back(odd: seeds.Seed, folder: Path) -> None:
    trace = Trace.load(folder / "run.safetensors")
    trace.save(folder / "again.safetensors")
    if trace.attentions and trace.attentions[0].weights is not None:
        _sound_page(report(trace))


def _sound_page(page: str) -> None:
    """No scripts but its own two, and no element that fetches."""
    tags = [tag.lower() for tag in TAGS.findall(re.sub(r"(?s)<script.*?</script>", "", page))]
    strange = FETCHING & {*tags}
    assert page.count("<script") == 2 and not strange, strange


def _reports() -> list[seeds.Seed]:
    return [_alone("text", b"")]


def _print(odd: seeds.Seed, folder: Path) -> None:
    """A report whose words and title are whatever was typed."""
    text = odd.files["text"].decode("utf-8", "replace")
    trace = tv.trace(_tiny(), [5, 7, 11], [2, 4, 6])
    labels = tuple(f"{text[:40]} ({n})" for n in range(len(trace.source)))
    words = replace(trace.source, labels=labels, pieces=labels)
    _sound_page(report(replace(trace, source=words), title=text))


@cache
def _atlases() -> list[seeds.Seed]:
    with TemporaryDirectory() as place:
        here = Path(place)
        (here / "m").mkdir()
        for name, content in _checkpoints()[0].files.items():
            (here / "m" / name).write_bytes(content)
        model = load(here / "m", device="cpu")
        (here / "pairs.tsv").write_text("The cat sat.\tA dog.\nThe mat.\tWhy?\n" * 3, "utf-8")
        plan = make_plan(model, here / "pairs.tsv", size=3)
        settle_plan(plan, here / "out")
        run(plan, here / "pairs.tsv", here / "out", model, path=str(here / "m"), workers=1)
        return [seeds.Seed("atlas", seeds.files_in(here / "out"))]


def _odd_atlas(known: list[seeds.Seed], draw: Random) -> seeds.Seed:
    """A part changed; now and then with the plan that it names."""
    return _changed(known, draw)


def _leaf_through(odd: seeds.Seed, folder: Path) -> None:
    atlas = open_atlas(folder)
    atlas.check()
    _ = atlas.table, atlas.card, atlas.progress
    if atlas.heads:
        atlas.histogram(atlas.heads[0], "previous")
        atlas.examples(atlas.heads[0], "previous")


def _lists() -> list[seeds.Seed]:
    return [_alone("pairs.tsv", b"The cat sat.\tA dog.\nThe mat.\tWhy?\n"),
            _alone("pairs.tsv", "The cat sat.\nÜ 🙂\n".encode())]  # fmt: skip


READERS = (
    Reader("checkpoint", _checkpoints, _open, _changed, heavy=True),
    Reader("server", _checkpoints, _open_apart, _changed, heavy=True),
    Reader("tokenizer", _tokenizers, _speak, _odd_tokenizer, heavy=True),
    Reader("sentencepiece", _pieces, _piece_by_piece, _same_name),
    Reader("pickle", _pickles, _only("meta.pkl", read_plain_pickle), _same_name),
    Reader("weights", _weights, _tensors, _same_name),
    Reader("config", _words, _only("config.json", reading.read_config), _same_name),
    Reader(
        "zip", _zips, lambda odd, place: unpacking.unpack(place / "in.zip", place / "out"),
        _same_name,
    ),
    Reader("link", _links, _follow, _odd_link),
    Reader("edits", _edits, _edit, _odd_edits),
    Reader("live", _lives, _ask, _odd_link),
    Reader("sentence", _sentences, _type, _odd_sentence),
    Reader("trace", _traces, _look_back, _odd_trace),
    Reader("report", _reports, _print, _odd_sentence),
    Reader("corpus", _atlases, _leaf_through, _odd_atlas),
    Reader("sentences", _lists, _only("pairs.tsv", sentences), _same_name),
)  # fmt: skip
NAMED = {reader.name: reader for reader in READERS}


@contextmanager
def quiet() -> Iterator[None]:
    """One thread of torch, and no remarks of libraries about odd files."""
    import logging
    import warnings

    import transformers

    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity(logging.CRITICAL)
    transformers.utils.logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
