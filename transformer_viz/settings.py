"""Settings of the app: environment variables, each with a default and a description.

``transformer-viz app --settings`` lists them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from . import reach
from .reach import is_loopback

__all__ = ["is_loopback"]  # re-exported for callers that check a peer

PREFIX = "TRANSFORMER_VIZ_"
ON, OFF, LOCAL = "on", "off", "local"
LISTED, ANY = "listed", "any"


@dataclass(frozen=True)
class Setting:
    """A setting.

    Attributes:
        name: Name without the prefix.
        default: Default value.
        about: Description.
        least: Smallest number allowed; None for a text.
        choices: The only values allowed, if any.
        alone: Default for a server that only its own machine can reach (:func:`.reach.reason`).
        sites: True if the value is a list of web site addresses.
    """

    name: str
    default: str
    about: str
    least: int | None = None
    choices: tuple[str, ...] = ()
    alone: str | None = None
    sites: bool = False

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        return PREFIX + self.name

    @property
    def text(self) -> str:
        """Value in the environment, or the default.

        Raises:
            ValueError: An invalid value. The message names the valid ones.
        """
        return self.read()

    def read(self, around: Mapping[str, str] | None = None) -> str:
        """Return the value in an environment; by default that of this process.

        Raises:
            ValueError: An invalid value. The message names the valid ones.
        """
        found = (os.environ if around is None else around).get(self.variable, "").strip()
        if not found:
            is_alone = self.alone is not None and not reach.reason(around)
            found = str(self.alone) if is_alone else self.default
        if self.choices and found not in self.choices:
            raise ValueError(
                f"{self.variable} is {found[:80]!r}; it must be {' or '.join(self.choices)}."
            )
        if self.sites and not all(map(_is_site, found.replace(",", " ").split())):
            raise ValueError(
                f"{self.variable} is {found[:80]!r}; it must hold addresses of sites, such as "
                "https://moodle.example.org, or *."
            )
        if self.least is not None and not _is_number(found, self.least):
            raise ValueError(
                f"{self.variable} is {found[:80]!r}; it must be a whole number, {self.least} or "
                "more."
            )
        return found

    @property
    def number(self) -> int:
        """Value as a number.

        Raises:
            ValueError: No number, or a number that is too small.
        """
        return int(self.text)

    @property
    def on(self) -> bool:
        """True if an on/off setting is on."""
        return self.text == ON


#: Folder where the app was started, set by `transformer-viz app`.
START = f"{PREFIX}STARTED_IN"
MODEL = Setting("MODEL", "en-de", "the model to show first: a name in the box, a folder or a file")
MODELS = Setting("MODELS", "", "a folder of further checkpoints to offer")
ROOTS = Setting(
    "ROOTS",
    "",
    f"folders below which visitors may open paths, with {os.pathsep!r} between them; left out, the "
    "folder where the app was started, and none where others can reach the app",
)
PATHS = Setting("PATHS", ON, "whether visitors may open paths on the server", choices=(ON, OFF))
UPLOADS = Setting("UPLOADS", ON, "whether visitors may bring checkpoints", choices=(ON, OFF))
HUB = Setting(
    "HUB",
    OFF,
    "whether visitors may have models of the Hugging Face Hub fetched: none, those of HUB_LIST, or "
    "any; left out, any where only this machine reaches the app",
    choices=(OFF, LISTED, ANY),
    alone=ANY,
)
HUB_LIST = Setting("HUB_LIST", "", "ids (owner/name) that HUB=listed allows, with commas")
VISIT_MB = Setting("VISIT_MB", "1000", "megabytes that the uploads of one visit may hold", 1)
UPLOADS_MB = Setting("UPLOADS_MB", "8000", "megabytes that the uploads of all visits may hold", 1)
UPLOADS_A_MINUTE = Setting(
    "UPLOADS_A_MINUTE",
    "60",
    "files that a visit may bring in a minute, and in ten of them VISIT_MB megabytes; 0 is any",
    0,
    alone="0",
)
REQUESTS = Setting(
    "REQUESTS",
    "30",
    "frames and tiles that a visit may ask for in a second; 0 is any",
    0,
    alone="0",
)
MESSAGES = Setting(
    "MESSAGES",
    "8",
    "messages that a page may send in a second, and five seconds' worth at once; 0 is any",
    0,
)
CONNECTIONS = Setting(
    "CONNECTIONS", "600", "pages that may be open at once, of all visitors; 0 is any", 0, alone="0"
)
ADDRESS_VISITORS = Setting(
    "ADDRESS_VISITORS",
    "60",
    "visitors that may stand behind one address, as a class does: it may have twice as many pages "
    "open, and so many times the requests and uploads of one visit",
    1,
)
MODELS_A_VISIT = Setting(
    "MODELS_A_VISIT",
    "10",
    "models of its own, or with other words, that a visit may load in ten minutes; 0 is any",
    0,
    alone="0",
)
RUN_SECONDS = Setting(
    "RUN_SECONDS",
    "1800",
    "seconds that one run may compute, waiting left out; 0 is any",
    0,
    alone="0",
)
OPEN_SECONDS = Setting(
    "OPEN_SECONDS",
    "30",
    "seconds of processor that opening one checkpoint from outside the box may take, and one more "
    "for each 20 MB of it; twice as many by the clock",
    1,
)
OPEN_MB = Setting(
    "OPEN_MB",
    "2000",
    "megabytes of memory that opening one may take, besides five times the size of its weights",
    1,
)
TOKENIZER_SECONDS = Setting(
    "TOKENIZER_SECONDS", "5", "seconds that its tokenizer may take for one text", 1
)
APART = Setting(
    "APART",
    ON,
    "whether checkpoints from outside the box are opened, and their tokenizers run, in processes "
    "of their own",
    choices=(ON, OFF),
)
NAMES = Setting(
    "NAMES",
    "",
    "names besides this machine's own by which browsers reach the app, with commas; * is any name",
)
FRAMES = Setting(
    "FRAMES",
    "",
    "sites besides this server and this machine whose pages may show the app in a frame, such as "
    "https://moodle.example.org, with commas; * is any",
    sites=True,
)
REACH = Setting(
    "REACH",
    reach.AUTO,
    "who can reach the app, which decides what is open by default: this machine only, others too, "
    "or what the address, names, proxies and the host tell",
    choices=(reach.AUTO, reach.MACHINE, reach.OTHERS),
)
FORWARDS = Setting("FORWARDS", "2", "runs that may compute at once", 1)
MODELS_KEPT = Setting(
    "MODELS_KEPT",
    "24",
    "models that stay loaded at most: a class looks at tiny ones and at snapshots side by side",
    1,
)
THREADS = Setting(
    "THREADS",
    "0",
    "threads of torch in one run; 0 is one thread, and with --workers each process's share of the "
    "cores",
    0,
)
METRICS = Setting(
    "METRICS",
    LOCAL,
    "who may read /metrics: this machine only, everybody who reaches the port, or nobody",
    choices=(LOCAL, ON, OFF),
)
RUN_LOG = Setting(
    "RUN_LOG", OFF, "whether each run leaves a line of JSON on stderr", choices=(ON, OFF)
)

SETTINGS = (
    *(MODEL, MODELS, ROOTS, PATHS, UPLOADS, HUB, HUB_LIST, VISIT_MB, UPLOADS_MB),
    *(UPLOADS_A_MINUTE, REQUESTS, MESSAGES, CONNECTIONS, ADDRESS_VISITORS),
    *(MODELS_A_VISIT, RUN_SECONDS),
    *(APART, OPEN_SECONDS, OPEN_MB, TOKENIZER_SECONDS),
    *(NAMES, FRAMES, REACH, FORWARDS, MODELS_KEPT, THREADS, METRICS, RUN_LOG),
)
#: Limits per user; by default unlimited if only this machine can reach the app.
SHARES = (UPLOADS_A_MINUTE, REQUESTS, CONNECTIONS, MODELS_A_VISIT, RUN_SECONDS)


def check() -> None:
    """Read every setting once.

    Raises:
        ValueError: The first invalid value. The message names the valid ones.
    """
    for setting in SETTINGS:
        _ = setting.text


def listing(around: Mapping[str, str] | None = None) -> str:
    """Return every setting with its value in an environment and its description, as text."""
    return "\n".join(
        f"{setting.variable}={setting.read(around)}\n    {setting.about}" for setting in SETTINGS
    )


def open_roots(around: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the folders below which users may open paths; empty if they may open none.

    If others can reach the server, the folder where it was started is excluded: the owner has to
    name a folder.
    """
    given = os.environ if around is None else around
    named = tuple(filter(None, ROOTS.read(around).split(os.pathsep)))
    start = given.get(START, "")
    if PATHS.read(around) == OFF:
        return ()
    if named and named != (start,):
        return named
    return () if reach.reason(around) else (start or os.getcwd(),)


def _is_site(text: str) -> bool:
    """Return True if a text is a valid site of a Content-Security-Policy, without separators."""
    return text == "*" or re.fullmatch(r"https?://(\*\.)?[\w.\[\]-]+(:(\d+|\*))?", text) is not None


def _is_number(text: str, least: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 16 and int(text) >= least
