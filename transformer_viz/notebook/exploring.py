"""`tv.explore`: a model in a notebook, alive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..checkpoints import load
from ..checkpoints.common.model import Model
from ..core.interventions import intervention_of
from ..i18n import say
from .exploration import Exploration
from .runs import Runs

if TYPE_CHECKING:
    from .explorer import Explorer


def explore(
    model: Any,
    source: Any,
    target: Any = None,
    *,
    image: Any = None,
    intervention: Any = None,
    site: Any = None,
    masked: Sequence[int] = (),
    check: bool | None = False,
    **options: Any,
) -> Explorer:
    """A widget for Jupyter and its relatives: the app's pictures, with the model in this kernel.

    Its sliders, masks and heads run the model again. ``widget.trace``, ``.intervention``,
    ``.site`` and ``.source`` can be read, set and observed; a set one that the model does not take
    raises a ValueError and changes nothing. In a saved notebook it leaves a still picture.

    Args:
        model: what `load` gave, or whatever `load` takes: a name in the box, a path, an id of the
            Hub, a module.
        source: as `trace` takes it.
        target: as `trace` takes it.
        image: as `trace` takes it.
        masked: as `trace` takes it.
        intervention: what is changed at first: a `tv.Intervention`, its JSON, or that as a dict.
        site: the head that is opened first: a `Site`, or map, layer and head, such as
            ``("cross", 1, 3)``.
        check: also prove the clean run, as `trace` does; ``widget.trace.report`` tells.
        options: for `load`, where ``model`` is not open yet.

    Raises:
        ValueError: no anywidget; a model that cannot be opened; an input, a change or a head that
            it does not take, or more than 1,024 tokens. Each says what to do.
    """
    try:
        from .explorer import Explorer
    except ImportError as error:
        raise ValueError(
            say(
                "tv.explore draws with anywidget, which is not installed ({error}); install it "
                "with: pip install anywidget",
                error=error,
            )
        ) from error
    opened = model if isinstance(model, Model) else load(model, **options)
    if opened is model and options:
        raise ValueError(
            say(
                "The model is open already, so {words} cannot be taken into account; give them to "
                "tv.load.",
                words=", ".join(sorted(options)),
            )
        )
    runs = Runs(opened, source, target, image=image, masked=masked, check=check)
    return Explorer(Exploration(runs, intervention_of(intervention), site))
