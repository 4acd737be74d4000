"""R4: map the residual stream to logits with the model's own last steps.

The model runs again with its residual stream replaced at one site. So all later steps (a norm, a
head with layers, a factor) are the model's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...capture import torch_calls
from ...capture.torch_function_mode import InterceptCalls

#: Calls in hand-written norms whose result is the scale that is held constant.
SCALES = frozenset(("rsqrt", "rsqrt_", "sqrt", "std", "var", "norm", "vector_norm", "reciprocal"))


class Exchanged:
    """Handler of `InterceptCalls` that replaces one tensor of a run.

    The first tensor equal to ``wanted`` is replaced by ``given``. ``hold`` freezes the norms after
    it: their scale becomes a constant, recorded in ``scales``; with ``replay`` the scales are read
    from there.
    """

    def __init__(
        self,
        wanted: Tensor,
        given: Tensor,
        *,
        hold: bool = False,
        replay: list[Tensor] | None = None,
    ):
        self.wanted, self.given, self.hold = wanted, given, hold
        self.replay = None if replay is None else iter(replay)
        self.scales: list[Tensor] = []
        self.done = False

    def __call__(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if self.done:
            return self._behind(func, args, kwargs)
        with torch.no_grad():  # steps before the site need no gradient
            out = func(*args, **kwargs)
        if (
            isinstance(out, Tensor)
            and out.shape == self.wanted.shape
            and out.dtype == self.wanted.dtype
            and torch.equal(out, self.wanted)
        ):
            self.done = True
            return self.given.clone()
        return out

    def _behind(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if not self.hold:
            return func(*args, **kwargs)
        if func in torch_calls.NORMS:
            return self._norm(func, args, kwargs)
        out = func(*args, **kwargs)
        if getattr(func, "__name__", "") in SCALES and isinstance(out, Tensor):
            return self._held(out)
        return out

    def _held(self, scale: Tensor) -> Tensor:
        if self.replay is not None:
            scale = next(self.replay)
        scale = scale.detach()
        self.scales.append(scale)
        return scale

    def _norm(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Tensor:
        """Compute PyTorch's own norm with its scale held constant."""
        rms = "rms" in getattr(func, "__name__", "")
        names = ("input", "normalized_shape", "weight") + (() if rms else ("bias",)) + ("eps",)
        given = dict(zip(names, args, strict=False)) | kwargs
        x, weight, bias = given["input"], given.get("weight"), given.get("bias")
        eps = given.get("eps")
        if eps is None:
            eps = torch.finfo(x.dtype).eps if rms else 1e-5
        dims = tuple(range(-len(given["normalized_shape"]), 0))
        centred = x if rms else x - x.mean(dims, keepdim=True)
        scale = self._held(torch.rsqrt(centred.square().mean(dims, keepdim=True) + eps))
        out: Tensor = centred * scale
        if weight is not None:
            out = out * weight
        return out if bias is None else out + bias


def through_last_steps(run: Callable[[], Tensor], place: Tensor, streams: list[Tensor]) -> Any:
    """Yield the output of a run for each of several residual streams inserted at ``place``.

    Raises:
        LookupError: No tensor of the run equals ``place``.
    """
    for stream in streams:
        mode = Exchanged(place, stream)
        with torch.no_grad(), InterceptCalls(mode):
            output = run()
        if not mode.done:
            raise LookupError("The last residual sum was not met again.")
        yield output


def direction(
    run: Callable[[], Tensor], place: Tensor, logit: Callable[[Tensor], Tensor]
) -> tuple[Tensor, float]:
    """Return the dependence of a logit on the residual stream at ``place``, with norm scales held.

    Returns the slope ``[batch, token, d_model]`` and the logit of a zero stream. The logit equals
    slope times stream plus that constant if and only if the remaining steps are linear.

    Raises:
        LookupError: No tensor of the run equals ``place``.
    """
    place = place.clone()
    leaf = place.clone().requires_grad_()
    with torch.enable_grad():
        mode = Exchanged(place, leaf, hold=True)
        with InterceptCalls(mode):
            asked = logit(run())
        if not mode.done:
            raise LookupError("The last residual sum was not met again.")
        (slope,) = torch.autograd.grad(asked, leaf)
    empty = Exchanged(place, torch.zeros_like(place), hold=True, replay=mode.scales)
    with torch.no_grad(), InterceptCalls(empty):
        constant = float(logit(run()))
    return slope.detach(), constant
