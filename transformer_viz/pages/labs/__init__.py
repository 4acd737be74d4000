"""Labs: a question, a prediction, an experiment, a reveal."""

from __future__ import annotations

from ..engine import Engine
from ..page import show
from . import frame
from .far import FAR
from .heads import HEADS
from .lab import Lab
from .learning import LEARNING
from .masks import MASKS
from .norms import NORMS
from .padding import PADDING
from .places import PLACES
from .position_wise import POSITION_WISE
from .pre_post import PRE_POST
from .qkv import QKV
from .residual import RESIDUAL
from .scale import SCALE
from .scores import SCORES
from .window import WINDOW

#: Every lab, in the order in which the reader meets them.
LABS: tuple[Lab, ...] = (
    SCALE,
    SCORES,
    PLACES,
    NORMS,
    PRE_POST,
    MASKS,
    PADDING,
    WINDOW,
    RESIDUAL,
    POSITION_WISE,
    QKV,
    FAR,
    HEADS,
    LEARNING,
)


def draw(engine: Engine) -> None:
    """The page."""
    show(engine, lambda scene: frame.body(scene, LABS))
