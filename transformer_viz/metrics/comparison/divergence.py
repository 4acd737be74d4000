"""Divergence of two distributions, in bits."""

from __future__ import annotations

import numpy as np

from ...core.numerics import entropy_bits


def jensen_shannon(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the Jensen-Shannon divergence of distributions ``[..., key]`` in bits, 0 to 1.

    ``H((p + q) / 2) - (H(p) + H(q)) / 2``; 0 if equal, 1 if no key has weight in both. Lin, J.
    (1991), "Divergence measures based on the Shannon entropy", IEEE Trans. Inf. Theory 37(1), eq.
    4.1.
    """
    mixed = entropy_bits((p + q) / 2) - (entropy_bits(p) + entropy_bits(q)) / 2
    return np.clip(mixed, 0.0, 1.0)  # rounding may leave -1e-16
