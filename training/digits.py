"""Handwritten digits: a task of the training loop for a small Vision Transformer.

The images come with scikit-learn: 1,797 of 8x8 pixels, the test part of the UCI "Optical
Recognition of Handwritten Digits" (Alpaydin and Kaynak 1998). They are 14 sheets of about 130
digits in the same order, one after another, by 13 people. The last three sheets are held out, so
the accuracy is about other writers than those of the training data, except for at most one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

from transformer_viz.checkpoints.layouts.vision_transformer import VisionConfig, VisionTransformer

from .batches import Batch
from .recipe import Recipe

HELD_OUT = 1415  # index where the last three sheets begin: 382 images
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
MOST_INK = 16  # the largest value of a pixel in the data
NOISE = 0.05  # of the whole range, added to the training pixels


def read_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return all images, uint8 ``[image, row, column]`` (0 paper, 255 ink), and their digits.

    Raises:
        ValueError: scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ValueError(
            "The digits come with scikit-learn; install it with: pip install scikit-learn"
        ) from error
    found = load_digits()
    return np.round(found.images * (255 / MOST_INK)).astype(np.uint8), found.target


def vision_config(settings: dict[str, Any]) -> VisionConfig:
    """Return the config of a recipe's model; image size and classes follow from the data."""
    size = {"image_size": (8, 8), "channels": 1, "classes": len(NAMES)}
    return VisionConfig(**settings | size | {"patch_size": tuple(settings["patch_size"])})


def scale(learned: np.ndarray) -> tuple[float, float]:
    """Return mean and standard deviation of the training pixels, as shares of 255."""
    return round(float(learned.mean() / 255), 4), round(float(learned.std() / 255), 4)


def moved(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return each image moved by up to one pixel in each direction, padded with paper."""
    _, height, width = images.shape
    wide = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    places = random.integers(0, 3, (len(images), 2))
    return np.stack(
        [
            image[down : down + height, right : right + width]
            for image, (down, right) in zip(wide, places, strict=True)
        ]
    )


class Digits:
    """The training and held-out digits, and the Vision Transformer that learns them.

    Raises:
        ValueError: scikit-learn is not installed, or a model that does not fit the images.
    """

    ignored = -1  # every image has a label

    def __init__(self, recipe: Recipe):
        self.recipe, self.config = recipe, vision_config(recipe.model)
        images, labels = read_digits()
        self.mean, self.std = scale(images[:HELD_OUT])
        self.images, self.labels = images[:HELD_OUT], labels[:HELD_OUT]
        self.held_out = images[HELD_OUT:], labels[HELD_OUT:]

    def module(self) -> VisionTransformer:
        """Return the recipe's model with random weights."""
        return VisionTransformer(self.config)

    def batches(self, after: int) -> Iterator[Batch]:
        """Yield random images, moved a little and with a little noise; the same after a restart."""
        recipe = self.recipe
        for step in count(after + 1):
            random = np.random.default_rng((recipe.seed, step))
            chosen = random.choice(len(self.images), recipe.schedule.batch_tokens)
            images = moved(self.images[chosen], random)
            noise = random.normal(0, NOISE * 255, images.shape)
            yield self.batch(images + noise, self.labels[chosen])

    def unseen(self) -> Iterator[Batch]:
        """Yield the held-out images unchanged."""
        yield self.batch(*self.held_out)

    def batch(self, images: np.ndarray, labels: np.ndarray) -> Batch:
        """Return images as model input, ``[image, 1, row, column]``, and the wanted digits."""
        pixels = (images[:, None] / 255 - self.mean) / self.std
        return (torch.tensor(pixels, dtype=torch.float32),), torch.tensor(labels)

    def answers(
        self, model: VisionTransformer, inputs: list[Tensor], wanted: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return logits ``[image, class]`` and the wanted digits ``[image]``."""
        return model(*inputs), wanted
