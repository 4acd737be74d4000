"""A pretended graphics card: ``card:0``, a device of its own whose numbers lie in ordinary memory.

Importing this module makes it. It computes what the processor computes and refuses what a card
refuses: an operation on tensors of two devices, and tensors given to numpy. So where code forgets a
device is seen on machines without a card.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from transformer_viz.capture import torch_calls

NAME = "card"
aten = torch.ops.aten
#: Operations that bring numbers from one device to another, or may be told of places elsewhere.
MOVES = {
    *(aten._to_copy.default, aten.copy_.default, aten._copy_from.default),
    *(aten.index.Tensor, aten.index_put.default, aten.index_put_.default),
    aten._index_put_impl_.default,
}
TO_OTHERS = {aten.copy_.default, aten._copy_from.default}
SAME_KIND = aten._has_compatible_shallow_copy_type.default


class OnCard(Tensor):
    """A tensor of the card: its numbers are ``raw``, a tensor of the processor."""

    raw: Tensor

    @staticmethod
    def __new__(cls, raw: Tensor) -> OnCard:
        like: dict[str, Any] = {"strides": raw.stride(), "storage_offset": raw.storage_offset()}
        # a view made in inference mode of what is older is no tensor of inference
        with torch.inference_mode(raw.is_inference()):
            made: OnCard = Tensor._make_wrapper_subclass(
                cls, raw.shape, **like, dtype=raw.dtype, device=f"{NAME}:0"
            )
        made.raw = raw
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return _run(func, *args, **(kwargs or {}))

    def __repr__(self) -> str:  # type: ignore[override]
        return f"OnCard({self.raw!r})"

    def numpy(self, *args: Any, **words: Any) -> NoReturn:
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy "
            "the tensor to host memory first."
        )

    def __array__(self, *args: Any, **words: Any) -> NoReturn:
        self.numpy()

    # What PyTorch does not hand down to the class of a tensor.

    def __getitem__(self, place: Any) -> Any:
        return super().__getitem__(_as_tensors(place))

    def __setitem__(self, place: Any, value: Any) -> None:
        super().__setitem__(_as_tensors(place), value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        made: Tensor = OnCard(self.detach().raw.clone())  # type: ignore[attr-defined]
        if isinstance(self, nn.Parameter):
            made = nn.Parameter(made, self.requires_grad)
        memo[id(self)] = made
        return made

    def tolist(self) -> Any:
        return self.detach().raw.tolist()  # type: ignore[attr-defined]

    def data_ptr(self) -> int:
        return self.raw.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.raw.untyped_storage()


def _as_tensors(place: Any) -> Any:
    """An index whose lists are tensors."""
    if isinstance(place, tuple):
        return tuple(_as_tensors(one) for one in place)
    return torch.tensor(place) if isinstance(place, list) else place


def _is_card(device: torch.device) -> bool:
    return device.type == NAME


def _run(func: Any, *args: Any, **words: Any) -> Any:
    """One operation on the card's numbers."""
    if func is SAME_KIND:
        return False
    flat, layout = pytree.tree_flatten((args, words))
    tensors = [x for x in flat if isinstance(x, Tensor)]
    there = [x for x in tensors if isinstance(x, OnCard)]
    here = [x for x in tensors if not isinstance(x, OnCard) and x.dim()]
    if here and there and not (func in MOVES and (tensors[0] is there[0] or func in TO_OTHERS)):
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{NAME}:0 and {here[0].device}! ({func})"
        )
    owners = {id(x.raw): x for x in there}
    raw = [_raw(x) for x in flat]
    given, named = pytree.tree_unflatten(raw, layout)
    if func is aten.histc.default:  # of whole numbers a card alone counts it
        given = (given[0].float(), *given[1:])
    if func is aten._copy_from.default:
        given[1].copy_(given[0])
        return args[1]
    out = func(*given, **named)
    if any(isinstance(x, torch.device) and not _is_card(x) for x in flat):
        return out  # it was moved away
    if func is aten.copy_.default and not isinstance(args[0], OnCard):
        return args[0]

    def owned(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        known = owners.get(id(x))
        if known is not None and known.shape != x.shape:
            raise NotImplementedError(f"The pretended card cannot grow a tensor in place: {func}.")
        return OnCard(x) if known is None else known

    return pytree.tree_map(owned, out)


def _raw(x: Any) -> Any:
    if isinstance(x, OnCard):
        return x.raw
    return torch.device("cpu") if isinstance(x, torch.device) and _is_card(x) else x


def _moved_there(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`torch.tensor` and the like, which do not reach devices that Python makes."""

    def made(*args: Any, device: Any = None, **words: Any) -> Tensor:
        place = torch.zeros(0).device if device is None else torch.device(device)
        if not _is_card(place):
            return make(*args, device=device, **words)
        return make(*args, device="cpu", **words).to(place)

    return made


_setup_privateuseone_for_python_backend(NAME)
torch_calls.PLAIN += (OnCard,)  # a tensor of a real card is of no class of its own
_library = torch.library.Library("_", "IMPL")
_library.fallback(_run, dispatch_key="PrivateUse1")
# PyTorch makes these by growing an empty tensor.
_counts = torch.library.Library("aten", "IMPL")
for _name in (
    "arange",
    "arange.start",
    "arange.start_step",
    "eye",
    "eye.m",
    "linspace",
    "logspace",
):
    _made = getattr(getattr(aten, _name.split(".")[0]), _name.partition(".")[2] or "default")
    _counts.impl(_name, partial(_run, _made), "PrivateUse1")
torch.tensor = _moved_there(torch.tensor)
torch.as_tensor = _moved_there(torch.as_tensor)
