"""How a sound file becomes an odd one: bits, pieces of others, values of JSON, members of a zip.

Every choice comes from the `random.Random` that is handed in. A plain one gives a case by its
number, so that it can be made again; Hypothesis hands in its own and makes a case that fails
shorter.
"""

from __future__ import annotations

import copy
import io
import json
import pickletools
import struct
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

#: What a checkpoint consists of: each file's content by its path below the folder.
Files = dict[str, bytes]
Mutate = Callable[[bytes, Random], bytes]

CANARY = "canary"  # a file that appears where the child runs if anything in a file is run
RUNS = b"cposix\nsystem\n(Vtouch " + CANARY.encode() + b"\ntR0"
NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 255, 256, 65_535, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64, -(2**31)),
    *(10**12, 10**40, 0.5, -0.5, 1e-30, 1e30, 1e300, -1e300, 2.0),
)
WORDS: tuple[Any, ...] = (
    *("", " ", "0", "a", "gelu", "bert", "\x00", "\x1b[2J", "\u202e", "ä", "𝕏", "\ud800", "../x"),
    *("/etc/passwd", "<script>", "[x](http://x.y)", "{}", "%s%n", "x" * 300, "x" * 5_000, "os"),
    *("__class__", "torch.nn.Linear", "None", "true", "(a+)+$", "(?:a|a){20}[bc]"),
)
ODD: tuple[Any, ...] = (
    *NUMBERS,
    *WORDS,
    *(None, True, False, [], {}, [[]], {"a": {}}, [1, 2, 3], ["a"], {"0": 1}, [None], [{}] * 3),
)
#: Bytes that stand where a file's own numbers do.
STAMPS = (
    b"\x00",
    b"\xff",
    b"\x80",
    b"\x7f",
    b"\x00\x00\x00\x80",
    b"\xff" * 4,
    b"\xff" * 8,
    b"\x01",
)


def bits(content: bytes, draw: Random) -> bytes:
    """One to eight bits turned over."""
    found = bytearray(content)
    for _ in range(draw.randint(1, 8) if found else 0):
        found[draw.randrange(len(found))] ^= 1 << draw.randrange(8)
    return bytes(found)


def stamped(content: bytes, draw: Random) -> bytes:
    """A few bytes that stand for large or negative numbers, over or between others."""
    stamp, place = draw.choice(STAMPS), draw.randrange(len(content) + 1)
    return content[:place] + stamp + content[place + draw.choice((0, len(stamp))) :]


def cut(content: bytes, draw: Random) -> bytes:
    """Its beginning alone."""
    return content[: draw.randrange(len(content) + 1)]


def without(content: bytes, draw: Random) -> bytes:
    """A piece taken out."""
    start = draw.randrange(len(content) + 1)
    return content[:start] + content[start + draw.choice((1, 2, 4, 8, 60)) :]


def repeated(content: bytes, draw: Random) -> bytes:
    """A piece a second time, elsewhere."""
    start, place = (draw.randrange(len(content) + 1) for _ in range(2))
    piece = content[start : start + draw.choice((1, 4, 16, 200))]
    return content[:place] + piece + content[place:]


BYTES: tuple[Mutate, ...] = (bits, stamped, cut, without, repeated)


def of_bytes(content: bytes, draw: Random) -> bytes:
    """Any change that knows nothing of what a file holds."""
    return draw.choice(BYTES)(content, draw)


def of_text(content: bytes, draw: Random) -> bytes:
    """A line taken out, said twice, or an odd word put in."""
    lines = content.split(b"\n")
    place = draw.randrange(len(lines))
    kind = draw.randrange(4)
    if kind == 0:
        del lines[place]
    elif kind == 1:
        lines.insert(place, draw.choice(lines))
    elif kind == 2:
        lines[place] = str(draw.choice(WORDS)).encode("utf-8", "surrogatepass")
    else:
        return of_bytes(content, draw)
    return b"\n".join(lines)


def of_json(content: bytes, draw: Random) -> bytes:
    """A value, a key or an entry of JSON changed; now and then its text."""
    try:
        whole = json.loads(content)
    except ValueError:
        return of_bytes(content, draw)
    if draw.randrange(8) == 0:
        return of_bytes(content, draw)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        whole = _edited(whole, draw)
    text = json.dumps(whole)
    if draw.randrange(12) == 0 and isinstance(whole, dict) and whole:
        again = json.dumps({draw.choice(sorted(whole)): draw.choice(ODD)})
        text = f"{text[:-1]}, {again[1:]}"  # a key that is there twice
    return text.encode("utf-8", "surrogatepass")


def _size(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0


def _edited(whole: Any, draw: Random) -> Any:
    """JSON with one thing changed, at a place of any depth."""
    places = [((), whole)]
    for path, value in places:
        keys = sorted(value) if isinstance(value, dict) else range(40)[: _size(value)]
        if isinstance(value, dict | list):
            places += [((*path, key), value[key]) for key in keys]
        if len(places) > 4_000:
            break
    path, value = draw.choice(places[1:] or places)
    if not path:
        return _odd(draw)
    holder = whole
    for key in path[:-1]:
        holder = holder[key]
    kind = draw.randrange(6)
    if kind == 0:
        del holder[path[-1]]
    elif kind == 1 and isinstance(holder, dict):
        del holder[path[-1]]
        holder[str(draw.choice(WORDS))] = value
    elif kind == 2:
        holder[path[-1]] = draw.choice(places)[1]  # something from elsewhere in the file
    elif kind == 3 and isinstance(value, int) and not isinstance(value, bool):
        holder[path[-1]] = value + draw.choice((-1, 1, value, -2 * value))
    else:
        holder[path[-1]] = _odd(draw)
    try:
        return json.loads(json.dumps(whole))  # nothing holds itself, and no part is held twice
    except (ValueError, RecursionError):
        return _odd(draw)


def _odd(draw: Random) -> Any:
    """An odd value, which may be filled without changing the list."""
    return copy.deepcopy(draw.choice(ODD))


def of_safetensors(content: bytes, draw: Random) -> bytes:
    """Its header edited as JSON, or any byte."""
    if len(content) < 8 or draw.randrange(3) == 0:
        return of_bytes(content, draw)
    (length,) = struct.unpack("<Q", content[:8])
    if length > len(content):
        return of_bytes(content, draw)
    header = of_json(content[8 : 8 + length], draw)
    said = draw.choice((len(header),) * 9 + (len(header) + 1,))
    return struct.pack("<Q", said) + header + content[8 + length :]


def of_pickle(content: bytes, draw: Random) -> bytes:
    """An instruction taken out, repeated or changed, or a command put between two."""
    try:
        places = [place for _, _, place in pickletools.genops(content) if place is not None]
    except Exception:  # one that was changed before
        return of_bytes(content, draw)
    start = draw.randrange(len(places))
    here, after = places[start], [*places, len(content)][start + 1]
    kind = draw.randrange(6)
    if kind == 0:
        return content[:here] + content[after:]
    if kind == 1:
        return content[:after] + content[here:]
    if kind == 2:
        return content[:here] + RUNS + content[here:]
    if kind == 3:
        other = draw.randrange(len(places))
        piece = content[places[other] : [*places, len(content)][other + 1]]
        return content[:here] + piece + content[after:]
    if kind == 4:
        return content[:here] + bits(content[here:after], draw) + content[after:]
    return of_bytes(content, draw)


def of_zip(content: bytes, draw: Random) -> bytes:
    """One member changed and the zip written anew around it, so that its sums are right again."""
    if draw.randrange(4) == 0:
        return of_bytes(content, draw)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(info, archive.read(info)) for info in archive.infolist()]
    except Exception:  # one that was changed before
        return of_bytes(content, draw)
    if not members:
        return of_bytes(content, draw)
    pickles = [n for n, (info, _) in enumerate(members) if info.filename.endswith(".pkl")]
    number = draw.choice(pickles) if pickles and draw.randrange(3) else draw.randrange(len(members))
    info, held = members[number]
    kind = draw.randrange(12)
    if kind == 0:
        del members[number]
    elif kind == 1:
        members.append(draw.choice(members))
    elif kind == 2:
        info.filename = draw.choice((f"../{info.filename}", f"/{info.filename}", "", "a\\b", "a"))
    else:
        members[number] = (info, kind_of(info.filename)(held, draw))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for info, held in members:
            entry = zipfile.ZipInfo(info.filename)
            entry.compress_type = info.compress_type
            archive.writestr(entry, held)
    return out.getvalue()


KINDS: dict[str, Mutate] = {
    ".json": of_json,
    ".safetensors": of_safetensors,
    ".pkl": of_pickle,
    ".txt": of_text,
    ".tsv": of_text,
    ".pt": of_zip,
    ".pth": of_zip,
    ".tar": of_zip,
    ".bin": of_zip,
    ".chkpt": of_zip,
    ".zip": of_zip,
}


def kind_of(name: str) -> Mutate:
    """What changes a file of this name."""
    return KINDS.get(f".{name.rpartition('.')[2]}", of_bytes)


def changed(files: Files, others: list[Files], draw: Random) -> Files:
    """Files of which one to four are changed, left out, or taken from another folder."""
    found = dict(files)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 4))):
        if not found:
            break
        name = draw.choice(sorted(found))
        kind = draw.randrange(20)
        if kind == 0 and len(found) > 1:
            del found[name]
        elif kind == 1:
            other = draw.choice(others)
            theirs = draw.choice(sorted(other))
            found[theirs if draw.randrange(2) else name] = other[theirs]
        elif kind == 2:
            found[name] = _spliced(found[name], draw.choice(others), name, draw)
        else:
            found[name] = kind_of(name)(found[name], draw)
    return found


def _spliced(content: bytes, other: Files, name: str, draw: Random) -> bytes:
    """The beginning of a file and the end of another, of the same kind where there is one."""
    suffix = name.rpartition(".")[2]
    theirs = [held for path, held in sorted(other.items()) if path.endswith(suffix)]
    end = draw.choice(theirs or list(other.values()))
    return content[: draw.randrange(len(content) + 1)] + end[draw.randrange(len(end) + 1) :]
