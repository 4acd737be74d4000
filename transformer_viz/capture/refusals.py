"""Errors for modules that cannot be captured or edited, raised before results could be wrong."""

from __future__ import annotations

import sys
from types import FrameType

import torch
from torch import Tensor, nn

DYNAMO = "torch._dynamo"


def refuse_compiled(module: nn.Module) -> None:
    """Refuse modules that run below Python.

    Raises:
        ValueError: The module, or a part of it, is compiled; names it, and the module to probe
            instead.
    """
    if isinstance(module, torch.jit.ScriptModule):
        raise ValueError(
            "This module is compiled to TorchScript, so its steps cannot be seen. Probe the Python "
            "module that it was made from."
        )
    for path, part in module.named_modules():
        if "_orig_mod" in part._modules or part._compiled_call_impl is not None:
            name = f"“{path}”" if path else "this module"
            raise ValueError(
                f"{name[0].upper()}{name[1:]} is compiled by torch.compile, so its steps cannot be "
                "seen. Probe the module before it was compiled; what torch.compile(module) gave "
                "keeps it as ._orig_mod, with the same weights."
            )


def as_sentence(error: BaseException) -> ValueError | None:
    """Return the message for an error of the compiler, which cannot work under a probe."""
    if not type(error).__module__.startswith(DYNAMO):
        return None
    return ValueError(
        "A part of this model is compiled while it runs (torch.compile or flex_attention), so its "
        "steps cannot be seen. Run it eagerly: build the model without torch.compile, and with "
        "another kind of attention than flex (attn_implementation='eager' in Transformers)."
    )


def refuse_wrapped(x: Tensor) -> None:
    """Refuse tensors that stand for many.

    Raises:
        ValueError: The input is nested, or inside torch.vmap; states what to do.
    """
    if x.is_nested:
        raise ValueError(
            "The model runs on nested tensors, whose rows differ in length, so there is no one map "
            "to show. Pad them (torch.nested.to_padded_tensor) and pass a mask."
        )
    if torch._C._functorch.is_batchedtensor(x):
        raise ValueError(
            "The model runs inside torch.vmap, where one tensor stands for many. Probe one call of "
            "it, or give it a batch."
        )


def refuse_checkpointing(path: str) -> None:
    """Refuse edits if a layer is run again for its gradients.

    Raises:
        ValueError: Gradient checkpointing is on; states how to switch it off.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch.utils.checkpoint":
            raise ValueError(
                f"The attention in {path or 'this module'} runs under gradient checkpointing: once "
                "more for its gradients, where an edit would not act. Switch checkpointing off to "
                "edit (gradient_checkpointing_disable() in Transformers); watching alone works."
            )
        frame = frame.f_back
