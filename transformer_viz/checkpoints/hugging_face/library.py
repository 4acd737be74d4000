"""Access to the transformers library, imported only for its own checkpoints, without network.

Inside `library` it uses no network, reads no stdin, draws no progress bars, and reports errors by
exceptions only.
"""

from __future__ import annotations

import contextlib
import re
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from ..files.errors import CheckpointError

_ALONE = threading.RLock()  # these switches belong to the whole process


@contextlib.contextmanager
def library() -> Iterator[Any]:
    """Yield the transformers module, offline and silent inside ``with``.

    Raises:
        CheckpointError: The library cannot be imported, as with a torchvision of another torch.
    """
    with _ALONE:
        transformers = _imported()
        from huggingface_hub import constants

        log = transformers.utils.logging
        offline, level, bars = (
            constants.HF_HUB_OFFLINE,
            log.get_verbosity(),
            log.is_progress_bar_enabled(),
        )
        constants.HF_HUB_OFFLINE = True
        log.set_verbosity(log.CRITICAL)
        log.disable_progress_bar()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield transformers
        except (ImportError, RuntimeError) as error:
            raise _torn(error) from error
        finally:
            constants.HF_HUB_OFFLINE = offline
            log.set_verbosity(level)
            if bars:
                log.enable_progress_bar()


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Keep the user's network settings inside ``with``: no thread switches the library offline."""
    with _ALONE:
        yield


def _imported() -> Any:
    try:
        import transformers
    except (ImportError, RuntimeError) as error:
        raise _torn(error) from error
    return transformers


def _torn(error: Exception) -> Exception:
    """Return the cause of a failed import as an error; other errors are returned unchanged."""
    if "torchvision" in str(error):
        return CheckpointError(
            "The torchvision that is installed does not fit this torch, and the transformers "
            "library cannot open any model beside it; remove it (pip uninstall torchvision), or "
            f"install the one made for torch {torch.__version__}."
        )
    return error


def plainly(error: BaseException) -> str:
    """Return the first line of a library error, short enough for a sentence."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    line = re.sub(r"^.*?\b\w+Error: ", "", " ".join(lines[:2]).strip())
    line = re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", line).replace("NoneType", "none")
    if "invalid literal" in line:
        return f"a number was expected instead of {line.rpartition(': ')[2][:60]}"
    return (line if len(line) <= 200 else f"{line[:197]}...").rstrip(".: ")
