"""Thresholds that several rooms must share: what is a mask, what is no temperature."""

from __future__ import annotations

#: At most this much, added to a score, is a mask: models mask with -1e4 (float16 holds no more than
#: 65504), -1e9 or minus infinity, and no score of a trained model comes near -1000.
MASK_SCORE = -1e3
#: Masks are known from how they came about; a score as low as this (of -1e9, or the least of a
#: type) is one that was not seen coming. It is far below MASK_SCORE, as a low temperature makes
#: ordinary scores low too.
VERY_LOW = -1e8
#: Temperatures below it are 0 (hard attention): scores divided by them would outgrow float32.
COLD = 1e-30
