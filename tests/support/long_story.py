"""A GPT-2 of little width with room for a book, whose heads look far back, and a story for it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import tokenizers
import torch

MOST = 32_768  # positions
HEADS = 2
SHARP = 14  # how much queries and keys are enlarged, so that heads choose
RARE = "zanzibar"  # a word that stands in a story a few times, in several pieces
SAID = (
    "the cat sat on a mat and dog did not it was tired of long river stone house garden window "
    "evening morning people walked slowly through village where old woman told story about king"
)


def story(words: int) -> str:
    """So many words, in sentences."""
    draw, known = random.Random(1), SAID.split()
    said: list[str] = []
    while len(said) < words:
        sentence = [draw.choice(known) for _ in range(draw.randint(6, 16))]
        if len(said) // 997 != (len(said) + len(sentence)) // 997:
            sentence[3] = RARE
        said += [sentence[0].capitalize(), *sentence[1:-1], sentence[-1] + "."]
    return " ".join(said[:words])


def write_storyteller(folder: Path, layers: int = 1) -> Any:
    """A language model with its tokenizer, as Hugging Face writes them; gives the tokenizer."""
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    pieces = tokenizers.Tokenizer(tokenizers.models.BPE())
    pieces.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"],
    )
    pieces.train_from_iterator([story(3000).replace(RARE, "")], trainer)
    reader = PreTrainedTokenizerFast(
        tokenizer_object=pieces, bos_token="<|endoftext|>", eos_token="<|endoftext|>"
    )
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(reader), n_positions=MOST, n_embd=32, n_layer=layers, n_head=HEADS,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for block in model.transformer.h:
            block.attn.c_attn.weight[:, : 2 * config.n_embd].mul_(SHARP)
    model.save_pretrained(folder)
    reader.save_pretrained(folder)
    return reader
