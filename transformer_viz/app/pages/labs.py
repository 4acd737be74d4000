"""Page Labs: a question, a prediction, an experiment, a reveal."""

from __future__ import annotations

from ..engine.engine import Engine
from ..labs import lab_page
from ..labs.experiments.causal_mask import MASKS
from ..labs.experiments.feed_forward import POSITION_WISE
from ..labs.experiments.layer_vs_batch_norm import NORMS
from ..labs.experiments.local_window import WINDOW
from ..labs.experiments.long_range import FAR
from ..labs.experiments.multi_head import HEADS
from ..labs.experiments.padding_mask import PADDING
from ..labs.experiments.positional_encodings import PLACES
from ..labs.experiments.pre_vs_post_norm import PRE_POST
from ..labs.experiments.query_key_value import QKV
from ..labs.experiments.residual_connections import RESIDUAL
from ..labs.experiments.score_functions import SCORES
from ..labs.experiments.score_scaling import SCALE
from ..labs.experiments.training_snapshots import LEARNING
from ..labs.experiments.who_is_it import WHO
from ..labs.lab import Lab
from ..page_template import show

#: All labs, in display order.
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
    WHO,
    LEARNING,
)


def draw(engine: Engine) -> None:
    """Draw the page Labs."""
    show(engine, lambda scene: lab_page.body(scene, LABS))
