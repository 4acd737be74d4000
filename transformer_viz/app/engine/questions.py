"""Questions about the words of a sentence, reworded for pictures and vectors."""

from __future__ import annotations

from ...i18n import mark

#: Each question, and its wording if the source is patches of a picture, or vectors.
QUESTIONS: dict[str, dict[str, str]] = {
    "How far is each word's vector shifted as a whole?": {
        "patch": mark("How far is each patch's vector shifted as a whole?"),
        "vector": mark("How far is each token's vector shifted as a whole?"),
    },
    "How much do the numbers of each word's vector differ?": {
        "patch": mark("How much do the numbers of each patch's vector differ?"),
        "vector": mark("How much do the numbers of each token's vector differ?"),
    },
    "How large are the numbers of each word's vector?": {
        "patch": mark("How large are the numbers of each patch's vector?"),
        "vector": mark("How large are the numbers of each token's vector?"),
    },
    "How long is each word's vector before the norm?": {
        "patch": mark("How long is each patch's vector before the norm?"),
        "vector": mark("How long is each token's vector before the norm?"),
    },
    "How far does the norm leave each word's vector shifted?": {
        "patch": mark("How far does the norm leave each patch's vector shifted?"),
        "vector": mark("How far does the norm leave each token's vector shifted?"),
    },
    "How long is each word's vector after the norm?": {
        "patch": mark("How long is each patch's vector after the norm?"),
        "vector": mark("How long is each token's vector after the norm?"),
    },
    "How long is a word's vector on its way through the layers?": {
        "patch": mark("How long is a patch's vector on its way through the layers?"),
        "vector": mark("How long is a token's vector on its way through the layers?"),
    },
    "What do the chosen two dimensions do along the sentence?": {
        "patch": mark("What do the chosen two dimensions do along the picture?"),
        "vector": mark("What do the chosen two dimensions do along the sentence?"),
    },
    "Is k words further always the same turn?": {
        "patch": mark("Is k patches further always the same turn?"),
        "vector": mark("Is k tokens further always the same turn?"),
    },
}
