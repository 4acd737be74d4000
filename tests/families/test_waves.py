"""Rotary angles read back from the tables of sines and cosines that a model stores."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from transformer_viz.capture.handlers.sinusoids import drawn, stored
from transformer_viz.capture.module_names import Names

pytestmark = pytest.mark.families
ROWS, STEPS = 61, torch.tensor([1.0, 0.31, 0.01, 0.0004])
ANGLES = torch.arange(ROWS)[:, None] * STEPS


def holding(*tables: Tensor) -> nn.Module:
    """A module with some tables for buffers."""
    module = nn.Module()
    for number, table in enumerate(tables):
        module.register_buffer(f"table_{number}", table)
    return module


@pytest.mark.parametrize(
    "tables",
    [
        (ANGLES.sin(), ANGLES.cos()),
        (torch.cat((ANGLES.sin(), ANGLES.cos()), 1)[None],),
        (torch.cat((ANGLES, ANGLES), 1).cos()[None, None], torch.cat((ANGLES, ANGLES), 1).sin()),
        (torch.polar(torch.ones_like(ANGLES), ANGLES),),
    ],
    ids=["two", "halves", "repeated", "complex"],
)
def test_angles_are_read_back(tables: tuple[Tensor, ...]) -> None:
    module = holding(*tables)
    waves = stored(Names(module).tensors)
    assert set(waves) == {id(x) for x in module.buffers()}
    for table in module.buffers():
        wave = waves[id(table)]
        assert wave.shape == table.shape
        angle = wave.real.reshape(ROWS, -1)
        assert (angle - ANGLES.repeat(1, angle.shape[1] // 4)).abs().max() < 1e-4
        assert (drawn(wave.imag.long(), wave.real) - table).abs().max() < 1e-4


@pytest.mark.parametrize("rows", [1024, 8192])
@pytest.mark.parametrize("width", [64, 128])
def test_long_tables_of_wide_heads_are_read_back(rows: int, width: int) -> None:
    """The small frequencies of cosines cannot be told from their first rows in float32."""
    steps = 1 / 10000 ** (torch.arange(0, width, 2).double() / width)
    angles = torch.arange(rows)[:, None] * steps
    angles = torch.cat((angles, angles), 1)
    module = holding(angles.cos().float(), angles.sin().float(), angles.sin().float())
    waves = stored(Names(module).tensors)
    assert len(waves) == 3
    for table in module.buffers():
        far = (waves[id(table)].real - angles).abs().max()
        assert far < 1e-2, far  # of up to 8,191 radians


@pytest.mark.parametrize(
    "table",
    [torch.ones(9, 4), torch.eye(9), torch.tril(torch.ones(9, 9)), torch.randn(9, 4), ANGLES],
    ids=["ones", "identity", "mask", "noise", "angles"],
)
def test_other_tables_are_no_waves(table: Tensor) -> None:
    assert stored(Names(holding(table)).tensors) == {}


def test_a_table_changed_in_place_is_read_anew() -> None:
    module = holding(ANGLES.sin(), ANGLES.cos())
    first = stored(Names(module).tensors)
    again = stored(Names(module).tensors)
    assert first and all(torch.equal(first[n], again[n]) for n in first)
    with torch.inference_mode():
        of_a_run = stored(Names(module).tensors)
    assert not any(wave.is_inference() for wave in of_a_run.values())
    slower = ANGLES / 2
    with torch.no_grad():
        for table, values in zip(module.buffers(), (slower.sin(), slower.cos()), strict=True):
            table.copy_(values)
    for wave in stored(Names(module).tensors).values():
        assert (wave.real - slower).abs().max() < 1e-4
    module.table_0[7] += 0.5
    assert id(module.table_0) not in stored(Names(module).tensors)
