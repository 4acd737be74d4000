"""Names of weights go both ways through a table; fused rows are cut; biases left out stay out."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from transformer_viz.checkpoints import CheckpointError
from transformer_viz.checkpoints.common.fill_weights import build
from transformer_viz.checkpoints.common.rename_keys import (
    count,
    file_name,
    nearest,
    pattern,
    patterns,
    size,
    split,
    without,
)
from transformer_viz.checkpoints.files.reading import Weights

TABLE = (
    ("{stack}.h.{n}.q.{part}", "{stack}.layers.{n}.query.{part}"),
    ("old.{part}", "norm.{part}"),
    ("new.{part}", "norm.{part}"),
)


def weights(**tensors: torch.Tensor) -> Weights:
    named = {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    return Weights(Path("w.pt"), named, {})


def test_a_template_fits_whole_names_and_numbers_are_numbers():
    assert pattern("{stack}.h.{n}.q.{part}").fullmatch("encoder.h.12.q.weight")
    for name in ("encoder.h.x.q.weight", "a.b.h.1.q.weight", "encoder.h.1.q.weight.more", "h.1.q"):
        assert not pattern("{stack}.h.{n}.q.{part}").fullmatch(name)
    assert not pattern("a.b").fullmatch("axb")
    assert len(patterns(TABLE)) == 3
    # A module's name gives the file's name.
    assert file_name("decoder.layers.3.query.bias", TABLE) == "decoder.h.3.q.bias"
    assert file_name("norm.weight", TABLE) == "old.weight"
    assert file_name("norm.weight", TABLE, {"new.weight"}) == "new.weight"
    assert file_name("strange", TABLE) == "strange"


def test_weights_are_counted_measured_and_left_out():
    held = weights(h__0__q=torch.zeros(2, 3), h__1__q=torch.zeros(2, 3), mask=torch.zeros(1))
    assert count(held, "h.{n}.q") == 2
    assert size(held, "h.0.q") == (2, 3)
    assert list(without(held, "h.{n}.q").tensors) == ["mask"]
    with pytest.raises(CheckpointError, match=r"lacks the weight h\.2\.q \(the nearest name is h"):
        size(held, "h.2.q")
    with pytest.raises(CheckpointError, match=r"mask is \[1\] in w\.pt; this layout has 2 axes"):
        size(held, "mask")
    assert nearest("attention", {"x"}) == ""


def test_fused_rows_are_cut_into_equal_pieces():
    fused = torch.arange(12.0).reshape(6, 2)
    held = split(weights(h__0__qkv=fused, other=torch.zeros(4)), "h.{n}.qkv").tensors
    assert list(held) == ["h.0.qkv[query]", "h.0.qkv[key]", "h.0.qkv[value]", "other"]
    assert torch.equal(held["h.0.qkv[key]"], fused[2:4])
    for odd in (torch.zeros(5, 2), torch.tensor(1.0)):
        with pytest.raises(CheckpointError, match=r"h\.0\.qkv in w\.pt .* query, key, value, one"):
            split(weights(h__0__qkv=odd), "h.{n}.qkv")


def pair() -> nn.Module:
    return nn.ModuleDict({"a": nn.Linear(2, 3), "b": nn.Linear(3, 2)})


NAMES = (("first.{part}", "a.{part}"), ("second.{part}", "b.{part}"))


def test_a_module_is_filled_through_a_table():
    tensors = {
        "first__weight": torch.ones(3, 2),
        "first__bias": torch.full((3,), 2.0),
        "second__weight": torch.full((2, 3), 3.0),
        "second__bias": torch.full((2,), 4.0),
    }
    module = build(pair, weights(**tensors), NAMES)
    assert [float(p.detach().flatten()[0]) for p in module.parameters()] == [1, 2, 3, 4]
    assert not module.training
    less = {name: tensor for name, tensor in tensors.items() if not name.endswith("bias")}
    bare = build(pair, weights(**less), NAMES, ("{which}.bias",))
    assert bare["a"].bias is None and bare["b"].bias is None
    half = less | {"first__bias": torch.zeros(3)}
    with pytest.raises(CheckpointError, match=r"lacks the weight second\.bias"):
        build(pair, weights(**half), NAMES, ("{which}.bias",))
    one = build(pair, weights(**half), NAMES, ("a.bias", "b.bias"))
    assert one["a"].bias is not None and one["b"].bias is None
    odd = tensors | {"second__bais": torch.zeros(2)}
    del odd["second__bias"]
    with pytest.raises(CheckpointError, match=r"second\.bias \(the nearest name is second\.bais\)"):
        build(pair, weights(**odd), NAMES)
    bad = {"weight": torch.full((3, 2), torch.nan), "bias": torch.zeros(3)}
    with pytest.raises(CheckpointError, match=r"weight in w\.pt has 6 values"):
        build(lambda: nn.Linear(2, 3), weights(**bad))
    held = Weights(Path("w.pt"), bad, {}, allow_nonfinite=True)
    assert build(lambda: nn.Linear(2, 3), held).weight.isnan().all()
