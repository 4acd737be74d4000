"""`tv.explore`: an interactive model in a notebook."""

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
    """Return a Jupyter widget: the app's pictures, with the model in this kernel.

    Its sliders, masks and heads run the model again. ``widget.trace``, ``.intervention``, ``.site``
    and ``.source`` can be read, set and observed. Setting a value that the model does not accept
    raises a ValueError and changes nothing. A saved notebook keeps a still picture.

    Args:
        model: A result of `load`, or an argument of `load`: the name of a bundled model, a path, an
            id of the Hub, a module.
        source: As in `trace`.
        target: As in `trace`.
        image: As in `trace`.
        masked: As in `trace`.
        intervention: The initial edits: a `tv.Intervention`, its JSON, or that as a dict.
        site: The head that is open at first: a `Site`, or map, layer and head, such as ``("cross",
            1, 3)``.
        check: Also verify the clean run, as `trace` does; see ``widget.trace.report``.
        options: Options of `load`, if ``model`` is not loaded yet.

    Raises:
        ValueError: No anywidget; a model that cannot be loaded; an input, an edit or a head that it
            does not accept, or more than 1,024 tokens. Each message suggests a remedy.
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
