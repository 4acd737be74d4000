"""The job of the process that opens a stranger's checkpoint first: read it, build it, run a sample.

What it hands over is what it opened itself, so nothing reaches the server that did not already
work once within the limits. It lives for one checkpoint.
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

#: Of the transformers library: with these, most of what any model of it imports is there.
USUAL = ("AutoConfig", "AutoTokenizer", "PreTrainedTokenizerFast", "LlamaForCausalLM", "BertModel")
LONGEST = 2_000  # characters of a refusal


def prepare() -> None:
    """Import what opening needs in any case, once for all children, and use it once."""
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
    """Import what the models of the transformers library have in common."""
    with suppress(CheckpointError, ImportError), library() as transformers:
        for name in USUAL:
            getattr(transformers, name)


def run_sample(model: Model) -> None:
    """Run a small input through a model, watched; what only says that it does not run passes.

    Raises:
        MemoryError: there is not enough of it.
    """
    try:
        trace(model, sample_source(model), sample_target(model), keep=(), check=False)
    except MemoryError:
        raise
    except Exception as error:  # the page says so when it proves the capture
        if "allocate memory" in str(error):
            raise MemoryError from error


def rehearse(channel: Channel) -> None:
    """Answer one request: ``thing``, ``overrides`` and ``vocabularies`` as of `load`.

    With ``propose``, a layout or None, names are proposed as by `propose_names`.
    """
    request = channel.receive()
    try:
        if "propose" in request:
            answer = proposed(str(request["thing"]), request["propose"])
        else:
            answer = opened(
                str(request["thing"]), request["overrides"], Path.cwd(), request.get("vocabularies")
            )
    except BaseException as error:  # a stranger's file can raise anything
        answer = refusal(error)
    channel.send(answer)


def proposed(thing: str, layout: str | None) -> dict[str, Any]:
    """Propose names, and give the words that no file states with what is assumed for them."""
    found = propose_names(thing, layout)
    return {"proposal": found.to_dict(), "assumed": assumed_words(thing, found)}


def opened(
    thing: str,
    overrides: dict[str, Any],
    folder: Path,
    vocabularies: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Open a checkpoint, run a sample through it, and give what the server needs to build it."""
    found, words = discover(thing, overrides)
    told = hand_over(*recognised(found, overrides.get("layout")), folder)
    layout, plain = taken(discover(thing, overrides)[0], told, folder)
    paths = vocabularies or {}
    given = given_vocabularies(paths.get("tokenizer"), paths.get("target_tokenizer"))
    run_sample(open_as(layout, plain, words, given, device="cpu"))
    return told


def refusal(error: BaseException) -> dict[str, Any]:
    """Why something was not done, as plain data: a sentence, or an error that nobody foresaw."""
    if isinstance(error, MemoryError):
        return {"memory": True}
    if is_disk_full(error):
        return {"refused": DISK_FULL, "missing": False, "known": True}
    if isinstance(error, ValueError | OSError) or is_panic(error):
        missing = isinstance(error, CheckpointMissing)
        known = isinstance(error, CheckpointError)
        return {"refused": str(error)[:LONGEST], "missing": missing, "known": known}
    return {"fault": f"{type(error).__name__}: {' '.join(str(error).split())}"[:LONGEST]}
