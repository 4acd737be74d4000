"""Norms, recognised by their computation and not by name, with statistics for every token."""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from ..records import NormRecord
from ..roles import Mark, Stream, SubLayer
from ..state import CaptureState
from ..torch_calls import Args, Kwargs, tensors

CLOSE = 1e-2  # relative difference under which a module is taken for a norm
DEEP = 6  # largest depth of calls of a norm's own helpers
ROWS = 32  # number of tokens used to recognise a norm


@dataclass(frozen=True)
class Form:
    """Computation of a norm: ``kind``, names of gain and bias, and the number added to the gain."""

    kind: str
    gain: str | None
    bias: str | None
    plus: float = 0.0

    def gain_of(self, module: nn.Module) -> Tensor | None:
        if self.gain is None:
            return None
        return getattr(module, self.gain).detach() + self.plus

    def bias_of(self, module: nn.Module) -> Tensor | None:
        return None if self.bias is None else getattr(module, self.bias).detach()


@dataclass
class Running:
    """Module that may be a norm, while it runs: its frame, its input, its last result."""

    path: str
    module: nn.Module
    frame: FrameType
    entered: Tensor
    made: Tensor | None = None

    def holds(self, caller: FrameType | None) -> bool:
        """Return True if a call was made from inside the module."""
        for _ in range(DEEP):
            if caller is None or caller is self.frame:
                break
            caller = caller.f_back
        return caller is self.frame

    def take(self, out: Any) -> None:
        """Record the last result in the shape of the input as the module's output."""
        if isinstance(out, Tensor) and out.shape == self.entered.shape and out.is_floating_point():
            self.made = out

    def ended(self, state: CaptureState) -> None:
        """Handle the return of the module: if it was a norm, record its statistics."""
        state.running = None
        if self.made is None:
            return
        with torch.no_grad():
            form = form_of(self.module, self.entered, self.made)
        if form is not None:
            gain, bias = form.gain_of(self.module), form.bias_of(self.module)
            note(state, self.path, form.kind, self.entered, self.made, gain, bias)
            after(state, self.entered, self.made)


def outermost(frame: FrameType, module: nn.Module) -> FrameType:
    """Return the frame in which a module got its input: its ``forward``, not a helper of it."""
    found, caller = frame, frame.f_back
    while caller is not None and caller.f_code.co_argcount:
        if caller.f_locals.get(caller.f_code.co_varnames[0]) is not module:
            break
        if caller.f_code.co_argcount > 1:
            found = caller
        caller = caller.f_back
    return found


_forms: weakref.WeakKeyDictionary[nn.Module, Form] = weakref.WeakKeyDictionary()


def form_of(module: nn.Module, x: Tensor, out: Tensor) -> Form | None:
    """Return the form of a module that is a norm, by input and output; None if none fits.

    The module is not called: it may count calls, draw random numbers, or hold no weights now.
    """
    if module not in _forms:
        rows = [t.detach().reshape(-1, t.shape[-1])[:ROWS].float().cpu() for t in (x, out)]
        found = _fitting(dict(module.named_parameters(recurse=False)), *rows)
        if found is not None:
            _forms[module] = found
    return _forms.get(module)


def normalised(kind: str, x: Tensor, eps: float = 1e-6) -> Tensor:
    """Return ``x`` normalised over its last axis, without gain and bias."""
    if kind == "rms":
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    centred = x - x.mean(-1, keepdim=True)
    unbiased = kind == "annotated"
    return centred / (x.std(-1, keepdim=True, unbiased=unbiased) + eps)


def _may_be(module: nn.Module, x: Tensor) -> bool:
    """Return True if a module has a norm's parameters: one or two vectors of its input's width."""
    own = list(module.parameters(recurse=False))
    if not 1 <= len(own) <= 2 or list(module.children()):
        return False
    return all(p.shape == x.shape[-1:] and p.numel() > 1 and p.is_floating_point() for p in own)


def _fitting(own: dict[str, nn.Parameter], x: Tensor, got: Tensor) -> Form | None:
    """Return the candidate that explains a module's output, used parameters preferred."""
    names = list(own)
    pairs = (
        [(a, b) for a in names for b in names if a != b] if len(names) == 2 else [(names[0], None)]
    )
    values = {name: p.detach().float().cpu() for name, p in own.items()}
    best: tuple[float, Form | None] = (CLOSE, None)
    for kind in ("layer", "annotated", "rms"):
        unit = normalised(kind, x)
        for gain, bias in pairs:
            for plus in (0.0, 1.0):
                expected = unit * (values[gain] + plus) + (values[bias] if bias else 0.0)
                error = float((got - expected).norm() / got.norm().clamp(min=1e-12))
                if error < best[0]:
                    best = (error, Form(kind, gain, bias, plus))
    return best[1]


def on_norm(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle a call of PyTorch's own layer or rms norm."""
    out = func(*args, **kwargs)
    given = tensors(args, kwargs)
    x, rest = given[0], [t.detach() for t in given[1:] if t.dim() == 1]
    kind = "rms" if "rms" in getattr(func, "__name__", "") else "layer"
    gain, bias = (*rest, None, None)[:2]
    note(state, state.names.path(), kind, x, out, gain, bias)
    return after(state, x, state.lineage.propagate(out, given, carried(state, x)))


def on_norm_sign(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle a call that hand-written norms make: a running norm module is followed to its end."""
    x = args[0] if args and isinstance(args[0], Tensor) else None
    if (
        x is not None
        and state.running is None
        and state.request.norms
        and x.is_floating_point()
        and state.lineage.origin(x)
    ):
        state.running = _running(state)
    return state.call(func, args, kwargs)


def _running(state: CaptureState) -> Running | None:
    """Return the running module if it looks like a norm."""
    path, frame = state.names.frame()
    if frame is None:
        return None
    module = state.names.modules[path]
    frame = outermost(frame, module)
    names = frame.f_code.co_varnames[1 : frame.f_code.co_argcount]
    entered = frame.f_locals.get(names[0]) if names else None
    if not isinstance(entered, Tensor) or not entered.dim() or not _may_be(module, entered):
        return None
    return Running(path, module, frame, entered)


def note(
    state: CaptureState,
    path: str,
    kind: str,
    x: Tensor,
    out: Tensor,
    gain: Tensor | None,
    bias: Tensor | None,
) -> None:
    """Record per-token statistics of a norm's input and output.

    Norms inside a head have no token axis and are skipped.
    """
    if not state.request.norms or x.dim() not in (2, 3) or not state.lineage.origin(x):
        return
    statistics = statistics_of(x, out)
    role = state.lineage.role(x)
    stack = role.stack if isinstance(role, Stream) else None
    if isinstance(role, SubLayer):
        stack = role.record.stack
    serial = Mark().serial
    record = NormRecord(path, kind, statistics, gain, bias, stack, serial)
    if state.request.sums:
        record.entered, record.made = x.detach().clone(), out.detach().clone()
    state.capture.norms.append(record)


def statistics_of(x: Tensor, out: Tensor) -> dict[str, Tensor]:
    """Return statistics of a norm for each token, ``[batch, token]`` float32; see `NormRecord`.

    Args:
        x: Input ``[batch, token, d_model]``.
        out: Output of the norm.
    """
    seen, given = x.detach().float(), out.detach().float()
    length, root = torch.linalg.vector_norm, math.sqrt(x.shape[-1])
    mean = seen.mean(-1)
    std = length(seen - mean.unsqueeze(-1), dim=-1) / root  # Tensor.var is twenty times slower
    rms = torch.hypot(mean, std)
    return {
        "mean": mean,
        "std": std,
        "rms": rms,
        "input_norm": rms * root,
        "output_norm": length(given, dim=-1),
        "output_mean": given.mean(-1),  # with the length it gives the spread, at a fraction's cost
    }


def carried(state: CaptureState, x: Tensor) -> Any:
    """Return the role of a norm's output.

    A norm of the residual stream is the residual stream; a norm of a sub-layer's output is no
    longer exact.
    """
    role = state.lineage.role(x)
    if isinstance(role, SubLayer):
        return SubLayer(role.record, role.start, False)
    return role if isinstance(role, Stream) else None


def after(state: CaptureState, x: Tensor, out: Tensor) -> Tensor:
    """Replace a stack's output by that of its last norm."""
    role = state.lineage.role(x)
    stack = role.stack if isinstance(role, Stream) else None
    if state.request.hidden and stack is not None and state.capture.streams.get(stack) is x:
        state.capture.streams[stack] = out
    return out
