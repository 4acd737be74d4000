"""A translator with a vocabulary of each side, under whose ids stand other words."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

MARKS = ("<pad>", "<sos>", "<eos>", "<unk>")
SOURCE = (*MARKS, "the", "small", "dog", "sees", "a", "house", "cat")
TARGET = (*MARKS, "das", "der", "ein", "haus", "hund", "kleiner", "sieht", "kater")
WIDTH, ROWS = 16, 32


class Translator(nn.Module):
    """An nn.Transformer with learned positions, which are a table of embeddings too."""

    def __init__(self, source: int = len(SOURCE), target: int = len(TARGET), shared: bool = False):
        super().__init__()
        self.src = nn.Embedding(source, WIDTH)
        self.tgt = self.src if shared else nn.Embedding(target, WIDTH)
        self.positions = nn.Embedding(ROWS, WIDTH)
        self.core = nn.Transformer(WIDTH, 2, 1, 1, 32, batch_first=True)
        self.out = nn.Linear(WIDTH, target)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        later = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        x, y = (
            table(ids) + self.positions(torch.arange(ids.shape[1]))
            for table, ids in ((self.src, source), (self.tgt, target))
        )
        return self.out(self.core(x, y, tgt_mask=later))


def translator(seed: int = 0, **sizes: int) -> Translator:
    torch.manual_seed(seed)
    return Translator(**sizes).eval()


def tutorial_file(folder: Path, seed: int = 0, target: int = len(TARGET)) -> Path:
    """The file that PyTorch's translation tutorial writes, of such a model."""
    folder.mkdir(parents=True, exist_ok=True)
    held = translator(seed, target=target).state_dict()
    names = {
        "core.": "transformer.",
        "src.": "src_tok_emb.embedding.",
        "tgt.": "tgt_tok_emb.embedding.",
        "out.": "generator.",
    }
    weights = {}
    for key, tensor in held.items():
        ours = next((name for name in names if key.startswith(name)), "")
        if ours:
            weights[names[ours] + key.removeprefix(ours)] = tensor
    weights["positional_encoding.pos_embedding"] = torch.zeros(ROWS, 1, WIDTH)
    torch.save(weights, folder / "model.pt")
    return folder / "model.pt"
