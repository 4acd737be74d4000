"""Job of the process that first opens an untrusted checkpoint: read, build, run a sample.

It returns only data that it opened itself. So the server receives only checkpoints that worked once
within the limits. The process serves one checkpoint.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from ..checkpoints.common.model import Model
from ..checkpoints.files.errors import DISK_FULL, CheckpointError, CheckpointMissing
from ..checkpoints.given_vocabularies import given_vocabularies
from ..checkpoints.hugging_face.library import library
from ..checkpoints.loader import discover, load, open_as, recognised
from ..checkpoints.proposing import assumed_words, propose_names
from ..confinement.channel import Channel
from ..core.errors import is_disk_full, is_panic
from ..inference.inspection import sample_source, sample_target
from ..inference.tracing import trace
from ..model import ModelConfig, Transformer
from .handover import hand_over, taken

#: Names of the transformers library that import most of what its models need.
USUAL = ("AutoConfig", "AutoTokenizer", "PreTrainedTokenizerFast", "LlamaForCausalLM", "BertModel")
LONGEST = 2_000  # maximum characters of an error


def prepare() -> None:
    """Import and use once the modules that every job needs, before children are forked."""
    tiny = ModelConfig(
        d_model=4,
        heads=2,
        d_k=2,
        d_v=2,
        d_ff=4,
        encoder_layers=1,
        decoder_layers=1,
        source_vocab=5,
        target_vocab=5,
        max_positions=8,
    )
    run_sample(load(Transformer(tiny), device="cpu"))


def prepare_library() -> None:
    """Import the modules that models of the transformers library have in common."""
    with suppress(CheckpointError, ImportError), library() as transformers:
        for name in USUAL:
            getattr(transformers, name)


def run_sample(model: Model) -> None:
    """Run a small input through a model, with capture; other errors than memory are ignored.

    Raises:
        MemoryError: The memory is not sufficient.
    """
    try:
        trace(model, sample_source(model), sample_target(model), keep=(), check=False)
    except MemoryError:
        raise
    except Exception as error:  # the page reports it when it verifies the capture
        if "allocate memory" in str(error):
            raise MemoryError from error


def rehearse(channel: Channel) -> None:
    """Serve one request: ``thing``, ``overrides`` and ``vocabularies`` as in `load`.

    With ``propose``, a layout or None, names are proposed by `propose_names`.
    """
    request = channel.receive()
    try:
        if "propose" in request:
            answer = proposed(str(request["thing"]), request["propose"])
        else:
            answer = opened(
                str(request["thing"]), request["overrides"], Path.cwd(), request.get("vocabularies")
            )
    except BaseException as error:  # an untrusted file can raise anything
        answer = refusal(error)
    channel.send(answer)


def proposed(thing: str, layout: str | None) -> dict[str, Any]:
    """Return proposed names, and the assumed config values that no file states."""
    found = propose_names(thing, layout)
    return {"proposal": found.to_dict(), "assumed": assumed_words(thing, found)}


def opened(
    thing: str,
    overrides: dict[str, Any],
    folder: Path,
    vocabularies: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Open a checkpoint, run a sample through it, and return the data that the server needs."""
    found, words = discover(thing, overrides)
    told = hand_over(*recognised(found, overrides.get("layout")), folder)
    layout, plain = taken(discover(thing, overrides)[0], told, folder)
    paths = vocabularies or {}
    given = given_vocabularies(paths.get("tokenizer"), paths.get("target_tokenizer"))
    run_sample(open_as(layout, plain, words, given, device="cpu"))
    return told


def refusal(error: BaseException) -> dict[str, Any]:
    """Return an error as plain data: a message, or an unexpected fault."""
    if isinstance(error, MemoryError):
        return {"memory": True}
    if is_disk_full(error):
        return {"refused": DISK_FULL, "missing": False, "known": True}
    if isinstance(error, ValueError | OSError) or is_panic(error):
        missing = isinstance(error, CheckpointMissing)
        known = isinstance(error, CheckpointError)
        return {"refused": str(error)[:LONGEST], "missing": missing, "known": known}
    return {"fault": f"{type(error).__name__}: {' '.join(str(error).split())}"[:LONGEST]}
