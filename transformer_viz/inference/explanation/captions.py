"""Methods of an explanation, with captions on their scope and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.numerics import LOGIT, MULTI_LABEL, PROBABILITY, REGRESSION, SHARE, SINGLE_LABEL
from ...i18n import mark, say

if TYPE_CHECKING:
    from .question import Question

#: Captions by method, in display order.
CAPTIONS = {
    "weights": mark(
        "Mean attention weight of the row that writes the word, over layers and heads. It says "
        "where the row looked, not what it took from there or whether that mattered; each of "
        "source and target sums to 1 on its own."
    ),
    "rollout": mark(
        "Attention multiplied through all layers, half of each step the residual stream. It says "
        "along which ways words could reach the row; values and feed-forward layers are left out, "
        "and it is not about this output word: another word in the same row gets the same numbers."
    ),
    "contribution": mark(
        "Lengths of the vectors that each word really gave, with values, output projection, "
        "residual stream and norm, as shares multiplied through the layers. In each block the "
        "vectors sum to what the block made; feed-forward layers are left out, and it is not about "
        "this output word."
    ),
    "gradient": mark(
        "Weights times the gradient of this word's logit, carried through the layers, what lowers "
        "the logit left out. It is about this word; a gradient is a first-order guess, can be 0 "
        "where a word matters most, and depends on how the weights are written: a bias moved from "
        "the values into the output projection changes it and not the model."
    ),
    "removal": mark(
        "How many nats the word loses when one input word is hidden from all queries and the model "
        "runs again. It is measured, for this one change: words that cover for each other each "
        "show little, and a row keeps what its own residual stream holds."
    ),
    "flow": mark(
        "The most that could flow from each word alone through the attention weights. Never below "
        "rollout; it does not sum to 1, and it is not about this output word."
    ),
    "lens": mark(
        "What the output layer would say of the stream at this row after each layer, last norm "
        "included. The last line is the model's own answer; early layers of small models are "
        "often not readable this way."
    ),
    "logits": mark(
        "The word's logit as a sum: what each head and each feed-forward layer wrote into the "
        "stream, through the last norm with its scale held. The bias of the values is the same for "
        "all words and stands with the biases of its layer, not with its heads. It is the direct "
        "part alone: what a later layer made of it counts for that layer."
    ),
}
#: Captions for outputs without a probability.
SCORE = {
    "removal": mark(
        "How much of the score (the output before any activation, in logits) is lost when one "
        "input word is hidden from all queries and the model runs again. It is measured, for this "
        "one change: words that cover for each other each show little, and a row keeps what its "
        "own residual stream holds."
    ),
    "lens": mark(
        "The score that the output layer would give for the stream at this row after each layer, "
        "last norm included. The last line is the model's own answer; early layers of small models "
        "are often not readable this way."
    ),
}
#: Appended where it applies.
LAST_BLOCK = mark(
    "This model norms after each sum, so its stream starts anew there: what came before the last "
    "norm is one term."
)
WHOLE_VALUES = mark(
    "In {count} blocks the bias of the values could not be told from them; it is counted with the "
    "words there."
)
WHOLE_BLOCKS = mark(
    "The heads of {blocks} could not be told apart here, so each of these attentions is one term "
    "without a head."
)
SINK = mark("{share} of the last rows' weight went to a sink that is no word.")
NO_WORD = mark("This model has no output layer; the numbers are of the row {label}.")
ALL_ROWS = mark("The mean over all rows, since all of them have a part in the class.")
#: Note on the default choice of a classifier, by task.
UNNAMED = {
    SINGLE_LABEL: mark(
        "Asked about the class “{label}”, the most probable one; target= names another."
    ),
    MULTI_LABEL: mark(
        "Asked about the label “{label}”, the most probable one; target= names another."
    ),
    REGRESSION: mark(
        "Asked about the output “{label}”, the first of {count}; target= names another."
    ),
}
#: Note on the default choice for the end of an answer.
UNNAMED_END = mark("Asked about “{label}” of the best answer; target= names another token.")
METHODS = tuple(CAPTIONS)
#: Methods with a value for each input word.
OVER_WORDS = ("weights", "rollout", "contribution", "gradient", "removal")
UNITS = {"lens": PROBABILITY, "logits": LOGIT, "gradient": ""}


def caption_of(method: str, unit: str) -> str:
    """Return the caption of a method, for scores in a unit."""
    return SCORE[method] if unit == LOGIT and method in SCORE else CAPTIONS[method]


def unnamed_choice(question: Question) -> str:
    """Return the note on the default choice of a model that judges, without a target."""
    model, count = question.model, len(question.model.labels)
    if model.gives == "spans":
        return say(UNNAMED_END, label=question.label)
    if model.gives != "classes" or (model.task == REGRESSION and count < 2):
        return ""
    return say(UNNAMED[model.task or SINGLE_LABEL], label=question.label, count=count)


def unit_of_method(method: str, unit: str) -> str:
    """Return the unit of a method's values, for a model whose scores are in a unit."""
    if method == "removal" or (method == "lens" and unit == LOGIT):
        return unit
    return UNITS.get(method, SHARE)
