"""Layers of torch_geometric on two small graphs; the kernels are the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..verdict import Configuration

NODES, WIDTH = 6, 32
DENSE = ("SGFormerAttention", "PolynormerAttention")


def edges() -> Tensor:
    """Two rings of nodes ``[2, edge]``, one graph after the other."""
    first = torch.arange(2 * NODES)
    graph = first // NODES * NODES
    return torch.stack((first, graph + (first + 1) % NODES))


class Graphs(nn.Module):
    """Layers on the nodes of graphs ``[graph, node, feature]``."""

    def __init__(self, layers: list[nn.Module], reads_out: bool):
        super().__init__()
        self.layers, self.reads_out = nn.ModuleList(layers), reads_out

    def forward(self, x: Tensor) -> Tensor:
        count, nodes = x.shape[:2]
        numbers = torch.arange(count).repeat_interleave(nodes)
        links = edges()[:, : count * nodes]
        made = x.flatten(0, 1)
        for layer in self.layers:
            if self.reads_out:
                made = layer(made, numbers)
            elif type(layer).__name__ == "GPSConv":
                made = layer(made, links, numbers)
            elif type(layer).__name__ in DENSE:
                made = layer(x)
            else:
                made = layer(made, links)
        return made


def gps(messages: bool = False, **given: Any) -> list[nn.Module]:
    """Two layers that attend among all nodes of a graph, beside messages along its edges or not."""
    from torch_geometric.nn import GINConv, GPSConv

    def layer() -> nn.Module:
        conv = GINConv(nn.Linear(WIDTH, WIDTH)) if messages else None
        made: nn.Module = GPSConv(WIDTH, conv, heads=4, norm="layer_norm", **given)
        return made

    return [layer(), layer()]


def along_edges(kind: str) -> list[nn.Module]:
    """A layer that attends along edges."""
    from torch_geometric import nn as layers

    return [getattr(layers, kind)(WIDTH, 8, heads=4)]


def readout(kind: str, **given: Any) -> list[nn.Module]:
    """A readout of a graph's nodes."""
    from torch_geometric.nn import aggr

    return [getattr(aggr, kind)(WIDTH, heads=4, **given)]


def linear(kind: str) -> list[nn.Module]:
    """A layer of linear attention."""
    from torch_geometric.nn import attention

    return [getattr(attention, kind)(WIDTH, heads=4, head_channels=8)]


SEEDS: dict[str, Any] = {"num_seed_points": 2, "num_encoder_blocks": 2}
#: By name: layers, whether they read a graph out, attentions.
MODELS: dict[str, tuple[Callable[[], list[nn.Module]], bool, int]] = {
    "GPS": (gps, False, 2),
    "GPS, beside messages": (lambda: gps(messages=True), False, 2),
    "GPS, Performer": (lambda: gps(attn_type="performer"), False, 2),
    "set transformer": (lambda: readout("SetTransformerAggregation", **SEEDS), True, 4),
    "multiset transformer": (lambda: readout("GraphMultisetTransformer", k=4), True, 3),
    "GAT": (lambda: along_edges("GATConv"), False, 1),
    "GATv2": (lambda: along_edges("GATv2Conv"), False, 1),
    "transformer along edges": (lambda: along_edges("TransformerConv"), False, 1),
    "SGFormer": (lambda: linear("SGFormerAttention"), False, 1),
    "Polynormer": (lambda: linear("PolynormerAttention"), False, 1),
}


def model(
    layers: Callable[[], list[nn.Module]], reads_out: bool
) -> tuple[nn.Module, tuple[Tensor]]:
    """Layers and the nodes of two graphs."""
    return Graphs(layers(), reads_out), (torch.randn(2, NODES, WIDTH),)


def configurations() -> list[Configuration]:
    """All of them."""
    return [
        Configuration(name, lambda m=made, r=reads: model(m, r), count)  # type: ignore[misc]
        for name, (made, reads, count) in MODELS.items()
    ]
