"""Errors for modules whose forward cannot be called as it is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ...files.reading import CheckpointError
from .names import Signature

WRAP = "see “Your own module” in docs/open-your-own.md"


class Asked:
    """Stand-in for a batch that records the names under which its parts are read."""

    def __init__(self, ids: Tensor) -> None:
        self.ids = ids
        self.keys_asked: list[str] = []
        self.fields_asked: list[str] = []

    def __getitem__(self, key: Any) -> Tensor:
        if not isinstance(key, str):
            raise TypeError("no item")
        self.keys_asked.append(key)
        return self.ids

    def get(self, key: str, default: Any = None) -> Tensor:
        """Return the ids under any name."""
        return self[key]

    def __getattr__(self, name: str) -> Tensor:
        if name.startswith("__") or hasattr(Tensor, name) or name in ("keys", "items", "values"):
            raise AttributeError(name)
        self.fields_asked.append(name)
        return self.ids


def refuse_batch(module: nn.Module, signature: Signature) -> CheckpointError | None:
    """Return the error for a forward that reads a dict or an object; None if it reads none."""
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    asked = Asked(torch.ones(2, 3, dtype=torch.long, device=device))
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            module(asked)
    except Exception:  # a foreign forward pass may raise anything
        pass
    keys = list(dict.fromkeys(asked.keys_asked))
    fields = list(dict.fromkeys(asked.fields_asked))
    if not keys and not fields:
        return None
    name, batch = type(module).__name__, signature.source.name
    wanted = keys or fields
    shown = ", ".join(f'{batch}["{key}"]' if keys else f"{batch}.{key}" for key in wanted)
    what = "a dict" if keys else "an object"
    made = (
        "{" + ", ".join(f'"{key}": {key}' for key in keys) + "}"
        if keys
        else f"SimpleNamespace({', '.join(f'{key}={key}' for key in fields)})"
    )
    return CheckpointError(
        f"{name}.{signature} reads {shown} of {what}, and ids [batch, token] are what it would be "
        f"called with. Give a module whose forward({', '.join(wanted)}) returns inner({made}); "
        f"{WRAP}."
    )


def refuse_signature(module: nn.Module, signature: Signature, error: str) -> CheckpointError:
    """Return the error for a forward that fails with all inputs tried."""
    return CheckpointError(
        f"{type(module).__name__}.{signature} ran with no texts and masks that were tried; the "
        f"last try gave {error or 'no output'}. Give a module whose forward(source), or "
        f"forward(source, target), calls it with the rest; {WRAP}."
    )


def refuse_unclear(module: nn.Module, signature: Signature, unclear: list[str]) -> CheckpointError:
    """Return the error for a forward with an input whose role no trial shows."""
    return CheckpointError(
        f"{type(module).__name__}.{signature} needs {', '.join(unclear)}, and no trial shows "
        "whether that is a mask, a target text or else. Give kind= encoder-only, decoder-only or "
        "encoder-decoder: the last gives it the target text."
    )


def refuse_twofold(module: nn.Module, signature: Signature) -> CheckpointError:
    """Return the error for an encoder-decoder whose forward takes one text."""
    return CheckpointError(
        f"An encoder-decoder needs a forward that takes a source and a target; "
        f"{type(module).__name__} has {signature}. Leave kind out, or give encoder-only or "
        "decoder-only."
    )
