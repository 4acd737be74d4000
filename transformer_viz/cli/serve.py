"""``transformer-viz app``: the server, with the operator's settings."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from .. import reach, settings
from ..paths import ROOT
from ..permissions import permissions
from .arguments import known_checkpoint

ARENAS = "2"  # malloc arenas: one per thread would each keep the memory of an earlier long text
MOST = 64  # largest number of processes of --workers
CERTIFICATE = "STREAMLIT_SERVER_SSL_CERT_FILE"
ENFORCED = ("processor", "memory", "files", "network", "programs")  # as `confine` names them
OWN = (reach.PASSED_ON, settings.START)  # variables that a server sets for itself


@click.command()
@click.option("--model", metavar="PATH", help="The model to show first.")
@click.option(
    "--models",
    metavar="DIR",
    help="A folder of further checkpoints to offer, below which paths may be opened.",
)
@click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="A name by which browsers reach it, as behind a proxy; * is any. May be given often.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, MOST),
    default=1,
    show_default=True,
    metavar="N",
    help="Processes behind the one port; each holds its own models.",
)
@click.option("--no-paths", is_flag=True, help="Visitors open no paths on the server.")
@click.option("--no-uploads", is_flag=True, help="Visitors bring no checkpoints.")
@click.option(
    "--hub",
    type=click.Choice(settings.HUB.choices),
    help="Whether visitors may have models of the Hugging Face Hub fetched: any of them, those of "
    f"{settings.HUB_LIST.variable}, or none. Left out: any, where only this machine reaches it.",
)
@click.option("--settings", "listed", is_flag=True, help="List the settings and end.")
def app(
    model: str | None,
    models: str | None,
    port: int,
    host: str,
    names: tuple[str, ...],
    workers: int,
    no_paths: bool,
    no_uploads: bool,
    hub: str | None,
    listed: bool,
) -> None:
    """Start the app and keep it running until Ctrl-C.

    On an address that others can reach, paths below --models may be opened, and none without it.
    """
    settings.check()
    chosen: dict[str, str] = {}
    if model is not None:
        chosen[settings.MODEL.variable] = known_checkpoint(model)
    if models is not None:
        if not Path(models).is_dir():
            raise ValueError(
                f"There is no folder {models!r}; --models names a folder of checkpoints."
            )
        whole = str(Path(models).resolve())
        chosen |= {settings.MODELS.variable: whole, settings.ROOTS.variable: whole}
    if no_paths:
        chosen[settings.PATHS.variable] = settings.OFF
    if no_uploads:
        chosen[settings.UPLOADS.variable] = settings.OFF
    if hub is not None:
        chosen[settings.HUB.variable] = hub
    if names:
        chosen[settings.NAMES.variable] = ",".join((*names, settings.NAMES.text)).strip(",")
    if workers > 1 and os.environ.get(CERTIFICATE):
        raise ValueError(
            f"--workers {workers} serves no TLS of its own, and {CERTIFICATE} is set; let a proxy "
            "in front speak TLS (docs/deploy.md), or leave --workers out."
        )
    if settings.THREADS.number:
        chosen["OMP_NUM_THREADS"] = settings.THREADS.text
    surroundings = _surroundings(chosen, host, port)
    if listed:
        click.echo(settings_text(surroundings))
        return
    _require_free(host, port)
    why = reach.reason(surroundings)
    if why:
        opened = ", ".join(
            f"{name} {value}"
            for name, value in permissions(surroundings).items()
            if name in ("paths", "uploads", "Hub")
        )
        click.echo(f"Others can reach this server ({why}): {opened}.", err=True)
    words = [sys.executable, "-m", "transformer_viz.app.live.server"]
    if workers > 1:
        words = [sys.executable, "-m", "transformer_viz.app.balancer", str(workers)]
    os.chdir(ROOT)  # Streamlit reads .streamlit/config.toml from the working directory
    os.execve(sys.executable, words, surroundings)


def _surroundings(chosen: dict[str, str], host: str, port: int) -> dict[str, str]:
    """Return the environment of the server; options override existing variables."""
    given = {name: text for name, text in os.environ.items() if name not in OWN}
    found = (
        {
            "MALLOC_ARENA_MAX": ARENAS,
            # numpy only multiplies small matrices, for tiles. Its threads wait for each other where
            # model runs (torch has its own threads) keep the cores busy.
            "OPENBLAS_NUM_THREADS": "1",
        }
        | given
        | chosen
        | {
            "STREAMLIT_SERVER_ADDRESS": host,
            "STREAMLIT_SERVER_PORT": str(port),
            "STREAMLIT_SERVER_HEADLESS": "true",
            "STREAMLIT_BROWSER_GATHER_USAGE_STATS": "false",
        }
    )
    if not found.get(settings.ROOTS.variable, "").strip():
        # Set here: the app starts in another folder, so its working directory differs.
        found |= dict.fromkeys((settings.ROOTS.variable, settings.START), str(Path.cwd()))
    if not settings.open_roots(found):
        found[settings.PATHS.variable] = settings.OFF
    return found


def settings_text(around: Mapping[str, str]) -> str:
    """Return every setting as it applies in an environment, and the permissions of users."""
    from ..opening.places import describe_enforced

    why = reach.reason(around)
    said = [f"Others can reach this server: {why}." if why else "Only this machine reaches it."]
    said += [f"    {name}: {value}" for name, value in permissions(around).items()]
    said.append(describe_enforced())
    return "\n".join([*said, "", settings.listing(around)])


def _require_free(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ValueError(
                f"Cannot listen on {host}:{port} ({error.strerror}); is the app running already? "
                f"Choose another port with --port {port + 1 if port < 65535 else port - 1}."
            ) from error
