"""Page About: purpose and limits of the app, and the sources of the training data."""

from __future__ import annotations

import streamlit as st

from ...i18n import mark, say
from ..engine.engine import Engine

#: Headings and paragraphs of the page, as Markdown.
ABOUT = (
    mark("### What you see"),
    mark(
        "The models here are trained Transformers: one translates English into German, others go "
        "on with a text, guess hidden words or read digits, and you may open your own. When you "
        "type a sentence the model really runs, and every picture shows numbers of that run. When "
        "you move a control it runs again with the change inside it: the pictures and the answer "
        "are what became of it."
    ),
    mark("### Attention weights are not explanations"),
    mark(
        "A weight says how much of one word's value a head mixes into another word's. It does not "
        "say why the model chose its answer: a head may look at a word and use little of it, "
        "information also travels past every head, and quite different weights can give the same "
        "output. So this app lets you *change* the model and look at what happens, which is better "
        "evidence than looking alone."
    ),
    "- Sarthak Jain and Byron C. Wallace (2019): "
    "[Attention is not Explanation](https://aclanthology.org/N19-1357/). NAACL.\n"
    "- Sarah Wiegreffe and Yuval Pinter (2019): "
    "[Attention is not not Explanation](https://aclanthology.org/D19-1002/). EMNLP.",
    mark(
        "An edited model is no longer the model that was trained. A change that ruins the "
        "translation shows that the model relied on the part you changed, not that this part "
        '"knows" the word.'
    ),
    mark(
        "An example: which heads decide whether “it” becomes *er*, *sie* or *es*? The translator "
        "in the box was asked about 120 sentences in pairs, with nouns that the sentences made to "
        "teach it this lack: 107 are right. The encoder head whose “it” looks most at a noun "
        "(L3 H4) looks at the same noun in both sentences of 58 of 60 pairs, and without it 108 "
        "are right. Without cross-attention L1 H2 it is 97, without any other head alone 101 or "
        "more, without the eight that matter most 68, without eight others by chance 105. All "
        "figures, and the command that measures them, stand in docs/translator.md; the lab “Who "
        "is “it”?” measures your own pair."
    ),
    mark("### How the comparison is made"),
    mark(
        "Both runs are asked about the *same* target words, those of the clean run or those you "
        "typed: only then can their maps and probabilities be compared cell by cell. What the "
        "changed model says when nobody holds its words stands beside it."
    ),
    mark("### Positions and norms"),
    mark(
        "A model that loses its positions after training is not a model that was trained without "
        "them: it meets inputs it has never seen. A word whose vector is far longer than the "
        "others is often a resting place of attention; what the model keeps there is not said by "
        "its length."
    ),
    mark("### Whose sentences, whose digits"),
    mark(
        "The models in the box that read sentences learned from sentence pairs of the "
        "[Tatoeba Project](https://tatoeba.org), in the bilingual editions of "
        "[manythings.org/anki](https://www.manythings.org/anki/), by the Tatoeba contributors, "
        "under [CC BY 2.0](https://creativecommons.org/licenses/by/2.0/). Changes: normalised, "
        "de-duplicated, filtered by length, split. The sentences are short and everyday, and so is "
        "what they can do."
    ),
    mark(
        "The translator learned from further pairs besides: Tatoeba by way of the Tatoeba "
        "Translation Challenge, CoVoST 2, WOZ 2.0, MLQE-PE, xGQA, Mintaka, xSID, MGSM, Open Source "
        "Guides, the Refugee Phrasebook and datenanfragen.de, under CC BY 2.0 FR, CC BY 4.0, CC0, "
        "Apache 2.0 and MIT. Names and numbers were exchanged, sentences joined, and some written "
        "by a grammar. The file pretrained/NOTICE names their authors."
    ),
    mark(
        "The digits were written for E. Alpaydin and C. Kaynak (1998), [Optical Recognition of "
        "Handwritten Digits](https://archive.ics.uci.edu/dataset/80), UCI Machine Learning "
        "Repository, under [CC BY 4.0](https://creativecommons.org/licenses/by/4.0/)."
    ),
)


def draw(_: Engine) -> None:
    """Draw the page About."""
    st.markdown("\n\n".join(map(say, ABOUT)))
