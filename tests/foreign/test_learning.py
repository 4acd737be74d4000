"""Training under the probe: after ten updates losses and weights are the same, bit by bit."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import accelerate
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from transformer_viz import probe
from transformer_viz.core.interventions import Intervention, Temperature

STEPS = 10


class Layer(nn.Module):
    """A pre-norm layer with dropout at four places; ``fused`` attention, or written out."""

    def __init__(self, fused: bool):
        super().__init__()
        self.fused, self.heads = fused, 4
        self.norm, self.second = nn.LayerNorm(32), nn.RMSNorm(32)
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.inner, self.outer = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).view(*x.shape[:2], 3, self.heads, 8).permute(2, 0, 3, 1, 4)
        p = 0.1 if self.training else 0.0
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        else:
            later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            scores = (q @ k.transpose(-2, -1) / 8**0.5).masked_fill(later, -torch.inf)
            mixed = F.dropout(scores.softmax(-1), p) @ v
        x = x + F.dropout(self.out(mixed.transpose(1, 2).flatten(2)), p)
        return x + F.dropout(self.outer(F.gelu(self.inner(self.second(x)))), p)


class Model(nn.Module):
    """Two layers between an embedding and an output layer; ``how`` its layers are run."""

    def __init__(self, fused: bool, how: str = "plain"):
        super().__init__()
        self.how = how
        self.embedding, self.output = nn.Embedding(40, 32), nn.Linear(32, 40)
        self.layers = nn.ModuleList(Layer(fused) for _ in range(2))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            if self.how == "plain":
                x = layer(x)
            else:
                x = checkpoint(layer, x, use_reentrant=self.how == "reentrant")
        return self.output(x)


def learned(
    model: nn.Module,
    watch: bool,
    around: Callable[[], AbstractContextManager[Any]] = nullcontext,
    wrap: Callable[[nn.Module], nn.Module] = lambda module: module,
) -> tuple[list[float], dict[str, Tensor], Tensor]:
    """Losses, weights and the state of chance after `STEPS` updates of the same batches."""
    model = wrap(copy.deepcopy(model).train())
    optimiser = torch.optim.AdamW(model.parameters(), 1e-2)
    torch.manual_seed(3)
    losses = []
    for step in range(STEPS):
        ids = torch.randint(40, (3, 9), generator=torch.Generator().manual_seed(step))
        with probe(model) if watch else nullcontext() as run, around():
            loss = F.cross_entropy(model(ids[:, :-1]).float().flatten(0, 1), ids[:, 1:].flatten())
        if watch:
            assert len(run.attentions) == 2
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    return losses, {n: x.clone() for n, x in model.state_dict().items()}, torch.get_rng_state()


@pytest.fixture(autouse=True)
def one_seed() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        yield


def bfloat() -> AbstractContextManager[Any]:
    return torch.autocast("cpu", torch.bfloat16)


def same(plain: tuple[Any, ...], watched: tuple[Any, ...]) -> None:
    assert plain[0] == watched[0]
    assert len(set(plain[0])) > STEPS // 2
    assert all(torch.equal(value, watched[1][name]) for name, value in plain[1].items())
    assert torch.equal(plain[2], watched[2])


@pytest.mark.slow
def test_ten_updates_are_the_same() -> None:
    for fused, how, around in product(
        (False, True), ("plain", "reentrant", "not reentrant"), (nullcontext, bfloat)
    ):
        model = Model(fused, how)
        same(learned(model, False, around), learned(model, True, around))
    model, wrap = Model(True), nn.DataParallel
    same(learned(model, False, wrap=wrap), learned(model, True, wrap=wrap))


def test_an_edit_under_checkpointing_is_refused_before_it_comes_out_wrong() -> None:
    model = Model(False, "not reentrant").train()
    edit = Intervention((Temperature(value=2.0),))
    with pytest.raises(ValueError, match="gradient checkpointing"), probe(model, edit):
        model(torch.randint(40, (2, 5)))


def test_an_edit_trains_as_its_law_does() -> None:
    """Temperature 2 at all places equals queries divided by 2: ten updates of both."""
    model, current = Model(False), []

    @contextmanager
    def warm() -> Iterator[None]:
        with probe(current[0], Intervention((Temperature(value=2.0),))):
            yield

    def wrap(module: nn.Module) -> nn.Module:
        current.append(module)
        return module

    by_probe = learned(model, False, warm, wrap)
    softmax = Tensor.softmax

    def divided(x: Tensor, dim: int) -> Tensor:
        return softmax(x / 2, dim)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tensor, "softmax", divided)
        by_law = learned(model, False)
    torch.testing.assert_close(torch.tensor(by_probe[0]), torch.tensor(by_law[0]))


@torch.no_grad()
def test_offloaded_weights_are_watched_and_nothing_changes(tmp_path: Path) -> None:
    model = Model(True).eval()
    ids = torch.randint(40, (2, 7))
    with probe(model) as before:
        plain = model(ids)
    for offload, folder in ((accelerate.cpu_offload, ()), (accelerate.disk_offload, (tmp_path,))):
        module = offload(copy.deepcopy(model), *map(str, folder), execution_device="cpu")
        without = module(ids)
        with probe(module) as run:
            out = module(ids)
        assert torch.equal(out, without), offload
        assert torch.equal(out, plain), offload
        for one, other in zip(before.attentions, run.attentions, strict=True):
            assert torch.equal(one.weights, other.weights), offload


def sharded(module: nn.Module) -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    for layer in module.layers:
        fully_shard(layer)
    return fully_shard(module)


def shard(rank: int, port: int, folder: str) -> None:
    """One of two processes that share the weights (FSDP); stores what came out."""
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.manual_seed(1)
    model, results = Model(True), {}
    for watch in (False, True):
        losses, weights, chance = learned(model, watch, wrap=sharded)
        results[watch] = (losses, {n: w.to_local() for n, w in weights.items()}, chance)
    torch.save(results, os.path.join(folder, f"{rank}.pt"))
    dist.destroy_process_group()


@pytest.mark.slow
def test_weights_shared_by_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    # Streamlit's tests leave their script as the main module, which a spawned process runs.
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(shard, (port, str(tmp_path)), nprocs=2)
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        same(found[False], found[True])
