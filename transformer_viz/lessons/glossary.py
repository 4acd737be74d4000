"""Glossary of the lesson, with definitions of one or two sentences for pupils."""

from __future__ import annotations

from ..i18n import mark

#: Each term as displayed, with its definition, in the order of the path.
GLOSSARY: dict[str, tuple[str, str]] = {
    "model": (
        mark("model"),
        mark("A recipe of sums with millions of numbers in it, which training has set."),
    ),
    "training": (
        mark("training"),
        mark(
            "Showing a model very many examples and changing its numbers a little after each, so "
            "that its answers get better."
        ),
    ),
    "gradient": (
        mark("gradient"),
        mark("How much the outcome changes when a number changes a little; training follows it."),
    ),
    "token": (
        mark("token"),
        mark("A piece of text that a model reads at once: a word, a part of one, or a mark."),
    ),
    "special token": (
        mark("special token"),
        mark("A token that is no text, such as </s> for the end of a sentence."),
    ),
    "vocabulary": (
        mark("vocabulary"),
        mark("All tokens that a model knows, each with a number of its own."),
    ),
    "vector": (
        mark("vector"),
        mark("A row of numbers. Here every token is one, and it changes from layer to layer."),
    ),
    "embedding": (
        mark("embedding"),
        mark("The row of numbers that a token begins with, looked up in a table."),
    ),
    "dimension": (mark("dimension"), mark("One place in a row of numbers.")),
    "attention": (
        mark("attention"),
        mark(
            "The step in which each token gathers from the others what it needs: a sum of their "
            "values, each with a weight."
        ),
    ),
    "weight": (
        mark("weight"),
        mark(
            "How large a share one token has in what another gathers: from 0 to 1. (The numbers "
            "that training sets are called weights too.)"
        ),
    ),
    "map": (
        mark("map"),
        mark("All weights of one head: a row for each token that looks, a column for each seen."),
    ),
    "query": (mark("query"), mark("What a token asks with: a row of numbers made from its own.")),
    "key": (
        mark("key"),
        mark("What a token offers to queries: a row of numbers they are multiplied with."),
    ),
    "value": (mark("value"), mark("What a token hands on to those that look at it.")),
    "dot product": (
        mark("dot product"),
        mark("Two rows of numbers multiplied place by place, and all of it summed up."),
    ),
    "cosine": (
        mark("cosine"),
        mark(
            "How alike two rows of numbers point: 1 is the same direction, 0 is across, −1 is "
            "opposite."
        ),
    ),
    "score": (
        mark("score"),
        mark("How well a query and a key fit, before the softmax: any number, also below 0."),
    ),
    "d_k": (mark("dₖ"), mark("How many numbers a query and a key have.")),
    "softmax": (
        mark("softmax"),
        mark("Turns any numbers into shares between 0 and 1 that sum to 1; larger ones get more."),
    ),
    "temperature": (
        mark("temperature"),
        mark("What scores are divided by before the softmax: small sharpens, large blurs."),
    ),
    "entropy": (
        mark("entropy"),
        mark("How widely a row looks, in bits: 0 is one word only, 3 is as even as 8 words."),
    ),
    "bit": (mark("bit"), mark("The answer to one yes-or-no question.")),
    "head": (
        mark("head"),
        mark("One of several attentions side by side in a layer, with numbers of its own."),
    ),
    "layer": (
        mark("layer"),
        mark("One round of attention and feed-forward. Layers are counted from L0."),
    ),
    "multi-head attention": (
        mark("multi-head attention"),
        mark("All heads of a layer together; what they find is joined and mixed."),
    ),
    "self-attention": (
        mark("self-attention"),
        mark("The tokens of one sentence look at each other."),
    ),
    "cross-attention": (
        mark("cross-attention"),
        mark("The tokens of the target look at those of the source."),
    ),
    "encoder": (mark("encoder"), mark("The half of the model that reads the source sentence.")),
    "decoder": (mark("decoder"), mark("The half of the model that writes, word by word.")),
    "source": (mark("source"), mark("The sentence that is read.")),
    "target": (mark("target"), mark("The sentence that is written.")),
    "position": (
        mark("position"),
        mark("A pattern of numbers that tells the model where a token stands."),
    ),
    "residual stream": (
        mark("residual stream"),
        mark("A token's row of numbers on its way through the layers, each of which adds to it."),
    ),
    "layer norm": (
        mark("layer norm"),
        mark("Takes the mean of a row of numbers away and divides by its spread."),
    ),
    "spread": (
        mark("spread"),
        mark("How far numbers lie from their mean: the standard deviation."),
    ),
    "variance": (
        mark("variance"),
        mark("How far numbers lie from their mean, squared and averaged: the spread times itself."),
    ),
    "feed-forward": (
        mark("feed-forward"),
        mark("The part of a layer that works on each token alone, without looking at others."),
    ),
    "mask": (mark("mask"), mark("A rule that hides some tokens from others.")),
    "causal mask": (
        mark("causal mask"),
        mark("The mask that hides all later tokens, so that nobody can look ahead."),
    ),
    "padding": (
        mark("padding"),
        mark("Empty places behind a short sentence, when several are read together."),
    ),
    "probability": (
        mark("probability"),
        mark("How likely the model takes a word to be: from 0 (never) to 1 (surely)."),
    ),
    "candidate": (
        mark("candidate"),
        mark("A word that could come next, with its probability."),
    ),
    "greedy": (mark("greedy"), mark("Taking the most probable word at each step.")),
    "beam search": (
        mark("beam search"),
        mark("Keeping several beginnings of a text at once, and the best of them in the end."),
    ),
    "BLEU": (
        mark("BLEU"),
        mark("How much of a translation stands in a human's translation too, from 0 to 100."),
    ),
    "checkpoint": (mark("checkpoint"), mark("A trained model in a file.")),
    "clean run": (mark("clean run"), mark("The model as it was trained, with nothing changed.")),
    "changed run": (
        mark("changed run"),
        mark("The same model on the same words, with what you changed inside it."),
    ),
}
