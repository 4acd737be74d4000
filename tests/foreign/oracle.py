"""One run of a style: unwatched, under the witness, or under the probe; always the same numbers."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from tests.support import device
from transformer_viz.capture.probe import probe
from transformer_viz.capture.records import Capture
from transformer_viz.core.interventions import (
    BlockEdges,
    BlockKeys,
    Edit,
    Intervention,
    ScaleHead,
    Temperature,
)

from .styles.base import Style
from .witness import Attention, Law, Other, Witness, joined

VALUE = 2.0  # of a temperature
ROW = 2  # the query that a link is cut from
Role = Attention | Other


@dataclass
class Seen:
    """What one run left behind: outputs, and all that a watched run may not change."""

    outputs: list[Tensor] = field(default_factory=list)
    again: list[Tensor] = field(default_factory=list)
    state: dict[str, Tensor] = field(default_factory=dict)
    gradients: dict[str, Tensor] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    random: Tensor = field(default_factory=lambda: torch.empty(0))
    run: Capture | None = None
    witness: Witness | None = None
    error: Exception | None = None


def edit_of(law: str, style: Style) -> Edit:
    """The probe's word for a law."""
    if law == "temperature":
        return Temperature(value=VALUE)
    if law == "head_off":
        return ScaleHead(value=0.0, head=style.head)
    if law == "cut_link":
        return BlockEdges(edges=((ROW, style.key),))
    return BlockKeys(keys=(style.key,))


def roles(truth: Sequence[Role]) -> list[Role]:
    """What each softmax is, one entry a softmax."""
    return [role for role in truth for _ in range(role.parts if isinstance(role, Attention) else 1)]


def watched(style: Style, law: str | None = None) -> Seen:
    """The style as a user of the probe runs it."""
    edits = Intervention((edit_of(law, style),) if law else ())
    return _played(style, lambda module: probe(style.probed(module), edits))


def unwatched(style: Style) -> Seen:
    return _played(style, lambda module: nullcontext())


def witnessed(style: Style, law: str | None = None, spared: Sequence[int] = ()) -> Seen:
    """The style under the witness alone; attentions with a number in ``spared`` are not edited."""
    here = list(style.truth)
    for number in spared:
        place = [i for i, role in enumerate(here) if isinstance(role, Attention)][number]
        here[place] = Other("spared")
        # a spared attention of several softmaxes stays that many
        extra = style.attentions[number].parts - 1
        here[place + 1 : place + 1] = [Other("spared")] * extra
    word = None
    if law:
        off = "weights_off" if style.project is None else "head_off"
        index = style.head if law == "head_off" else style.key
        word = Law(off if law == "head_off" else law, VALUE, index, ROW)
    witness = Witness(roles(here), word, style.taps)

    def attach(module: nn.Module) -> Witness:
        for part in module.modules():
            if hasattr(part, "tap"):
                part.tap = witness.tap  # type: ignore[assignment]
        if law == "head_off" and style.project is not None:
            silence(module, style, spared)
        return witness

    seen = _played(style, attach, plain=True)
    seen.witness = witness
    return seen


def silence(module: nn.Module, style: Style, spared: Sequence[int] = ()) -> None:
    """Zero what one head hands to the output projection, by the style's own knowledge."""
    if callable(style.project):
        with torch.no_grad():
            style.project(module, style.head)
        return
    paths = (style.project,) if isinstance(style.project, str) else style.project or ()
    heads = style.attentions[0].heads
    if len(paths) == len(style.attentions):
        paths = tuple(path for number, path in enumerate(paths) if number not in spared)
    for path in paths:
        part: Any = reduce(getattr, path.removeprefix("=").split("."), module)
        if path.startswith("="):
            width = part.weight.shape[1] // heads
            with torch.no_grad():
                part.weight[:, style.head * width : (style.head + 1) * width] = 0
        else:
            part.register_forward_pre_hook(_slice_out(style.head, heads))


def _slice_out(head: int, heads: int) -> Any:
    def zero(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        x, width = args[0], args[0].shape[-1] // heads
        places = torch.arange(args[0].shape[-1], device=x.device) // width == head
        return (x.masked_fill(places, 0), *args[1:])

    return zero


def fresh(style: Style) -> tuple[nn.Module, tuple[Any, ...]]:
    """The module and its inputs, the same ones every time."""
    torch.manual_seed(7)
    module = device.placed(style.build().train(style.train))
    torch.manual_seed(11)
    return module, device.placed(style.inputs())


def _played(style: Style, enter: Any, plain: bool = False) -> Seen:
    with quiet():
        try:
            module, inputs = fresh(style)
        except Exception as error:
            return Seen(error=error)
        call = style.plain if plain and style.plain else style.run
        seen, run = Seen(), None
        torch.manual_seed(13)
        grad = torch.set_grad_enabled(style.grad or style.train)
        with grad, style.around(), device.making():
            try:
                with enter(module) as run:
                    given = call(module, *inputs)
                    seen.outputs = tensors(given)
                    if style.train and (plain or not style.later):
                        loss(seen.outputs).backward()
                if style.train and style.later and not plain:
                    loss(seen.outputs).backward()
            except Exception as error:
                seen.error = error
            seen.run = run if isinstance(run, Capture) else None
            seen.random = torch.get_rng_state()
            seen.state = {name: x.clone() for name, x in state(module).items()}
            seen.calls = calls(module)
            seen.gradients = gradients(module)
            if seen.error is None and not plain and not style.train:
                torch.manual_seed(13)
                seen.again = tensors(call(module, *inputs))
    return seen


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings, and with the state of the random numbers as it was."""
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        yield


def loss(outputs: list[Tensor]) -> Tensor:
    return sum((x.square().mean() for x in outputs), torch.zeros(()))


def state(module: nn.Module) -> dict[str, Tensor]:
    found = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: x.detach() for name, x in found.items() if not x.is_meta}


def gradients(module: nn.Module) -> dict[str, Tensor]:
    named = module.named_parameters()
    return {name: x.grad.clone() for name, x in named if x.grad is not None}


def calls(module: nn.Module) -> dict[str, int]:
    """How often each hand-written part that counts ran."""
    parts = ((name, getattr(part, "calls", None)) for name, part in module.named_modules())
    return {name: count for name, count in parts if isinstance(count, int)}


def tensors(given: Any) -> list[Tensor]:
    """All tensors of an output, whatever holds them; nested ones as padded."""
    if isinstance(given, Tensor):
        if given.is_nested:
            return [x.detach() if not x.requires_grad else x for x in given.unbind()]
        return [given]
    if isinstance(given, dict):
        return [x for value in given.values() for x in tensors(value)]
    if isinstance(given, list | tuple):
        return [x for value in given for x in tensors(value)]
    return []


def attentions(style: Style, seen: Seen) -> list[list[Tensor]]:
    """The true weights ``[batch, head, query, key]`` of each attention, in call order.

    Two of each where a style changes the weights between the softmax and the values.
    """
    assert seen.witness is not None
    events = list(seen.witness.events)
    found = []
    for role in style.truth:
        taken = [events.pop(0) for _ in range(role.parts if isinstance(role, Attention) else 1)]
        if isinstance(role, Attention):
            found.append([joined(taken, role), joined(taken, role, multiplied=True)])
    return found


def apart(got: dict[str, Tensor], wanted: dict[str, Tensor]) -> float:
    """The largest difference over the largest value of all: some gradients are only rounding."""
    if not wanted or got.keys() != wanted.keys():
        return float("inf") if got or wanted else 0.0
    flat = [
        torch.cat([given[name].flatten().double() for name in wanted]) for given in (got, wanted)
    ]
    return far(flat[:1], flat[1:])


def far(got: Sequence[Tensor], wanted: Sequence[Tensor]) -> float:
    """The largest difference over the largest value; infinite where shapes or finiteness differ."""
    if len(got) != len(wanted):
        return float("inf")
    worst = 0.0
    for a, b in zip(got, wanted, strict=True):
        if a.shape != b.shape:
            return float("inf")
        if not b.is_floating_point():
            worst = max(worst, 0.0 if torch.equal(a, b) else float("inf"))
            continue
        a, b = a.detach().double(), b.detach().double()
        off = (a - b).abs().nan_to_num(float("inf"))
        off = torch.where(a.isnan() & b.isnan(), 0.0, off)
        size = b.abs().nan_to_num(0.0).max().clamp(min=1e-12) if b.numel() else torch.ones(())
        worst = max(worst, float(off.max() / size) if off.numel() else 0.0)
    return worst


def in_own_words(error: Exception) -> bool:
    """Whether the probe raised this error itself, in a sentence."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    raised = "transformer_viz" in last.filename and (last.line or "").lstrip().startswith("raise")
    kinds = (ValueError, RuntimeError, TypeError, NotImplementedError)
    return raised and isinstance(error, kinds) and str(error).rstrip("”\"'").endswith(".")
