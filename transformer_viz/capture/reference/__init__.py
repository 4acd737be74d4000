"""What the probe would see of the reference Transformer, told by the places where it happens.

The probe follows each tensor through each call, for a module of which it knows nothing. The
reference Transformer is known: its own `forward` runs with a few parts exchanged that take notes.
Where anything is asked that these do not tell, or any part is not as it was built, `noting` gives
None, and the probe is to be used. Tests hold both to the same numbers.

May import capture and its handlers, and model.
"""

from .noting_transformer import NotingTransformer, as_built, noting

__all__ = ["NotingTransformer", "as_built", "noting"]
