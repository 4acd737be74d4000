"""The worksheet and its answers: two HTML pages to print, with this sentence's numbers.

They need no network and no script; the model computed their content when they were made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from ..core.guesses import guess_entry, guess_html
from ..i18n import say, spoken_language
from .glossary import GLOSSARY
from .lesson_types import Ask, Exercise, Station
from .term_markup import terms, without_terms

BOX = "☐"
LINE = '<div class="line"></div>'
STYLE = """
@page { size: A4; margin: 16mm 17mm; @bottom-right { content: counter(page); font-size: 12px; } }
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, "Noto Sans", "Noto Sans CJK SC", sans-serif; color: #111;
  background: #fff; max-width: 46rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 0 0 4px; }
.who { display: flex; gap: 2rem; margin: 10px 0 4px; }
.who span { flex: 1; border-bottom: 1px solid #555; }
.sentence { font-size: 18px; border: 1px solid #999; border-radius: 6px; padding: 6px 12px;
  margin: 10px 0; }
.quiet { color: #555; font-size: 14px; }
section { border-top: 1px solid #bbb; padding-top: 10px; margin-top: 14px; }
.keep { break-inside: avoid; } h2 { break-after: avoid; }
p { margin: 4px 0; } .do { font-style: italic; }
.ask { font-weight: 600; }
ul.options { list-style: none; padding: 0; margin: 4px 0; display: flex; flex-wrap: wrap;
  gap: 2px 26px; }
.line { border-bottom: 1px dotted #777; height: 1.9em; }
table { border-collapse: collapse; margin: 6px 0; font-variant-numeric: tabular-nums; }
td, th { border: 1px solid #999; padding: 3px 12px; text-align: left; font-weight: 400;
  min-width: 5rem; }
th { background: #f2f2f2; font-weight: 600; }
.answers li { margin: 6px 0; break-inside: avoid; }
dl { columns: 2; gap: 2rem; font-size: 14px; } dt { font-weight: 600; } dd { margin: 0 0 5px; }
dl > div { break-inside: avoid; }
"""


@dataclass(frozen=True)
class Page:
    """Station on the worksheet: its question, or the reason why it has none."""

    station: Station
    asked: Ask | None
    why_not: str = ""


def worksheet(
    pages: Sequence[Page],
    sentence: str,
    model: str,
    written: str = "",
    guesses: Mapping[str, Any] | None = None,
) -> str:
    """Return the worksheet as a self-contained HTML page in the current language, without answers.

    Args:
        pages: The stations in order.
        sentence: The sentence typed by the class.
        model: Name of the model.
        written: Output of the model, if it generates text.
        guesses: Config values of the model that no file states.
    """
    title = say("An hour inside a Transformer")
    body = [_opening(title, sentence, model, written), guess_html(guess_entry(guesses or {}))]
    body += [_station(number, page) for number, page in enumerate(pages, 1)]
    return _printed(title, [*body, _words(pages)])


def answer_sheet(
    pages: Sequence[Page], sentence: str, model: str, guesses: Mapping[str, Any] | None = None
) -> str:
    """Return answers and reasons as an HTML page for the teacher; arguments as in `worksheet`."""
    title = say("An hour inside a Transformer")
    head = f"<h1>{escape(title)}</h1>"
    of = f'<p class="sentence">{escape(sentence)}</p><p class="quiet">{escape(model)}</p>'
    guessed = guess_html(guess_entry(guesses or {}))
    return _printed(title, [head, of, guessed, _answers(pages)])


def _printed(title: str, body: Sequence[str]) -> str:
    return (
        f'<!DOCTYPE html>\n<html lang="{spoken_language()}"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body>{''.join(body)}</body></html>\n"
    )


def _opening(title: str, sentence: str, model: str, written: str) -> str:
    name, date = escape(say("Name")), escape(say("Date"))
    lines = [
        f"<h1>{escape(title)}</h1>",
        f'<div class="who"><span>{name}</span><span>{date}</span></div>',
        f'<p class="quiet">{escape(say("Our sentence"))}</p>',
        f'<p class="sentence">{escape(sentence)}</p>',
    ]
    if written:
        said = say("What the model {model} writes", model=model)
        lines += [
            f'<p class="quiet">{escape(said)}</p>',
            f'<p class="sentence">{escape(written)}</p>',
        ]
    hint = say(
        "Predict first, then look. All numbers on this sheet were computed by the model from this "
        "very sentence."
    )
    return "".join([*lines, f'<p class="quiet">{escape(hint)}</p>'])


def _station(number: int, page: Page) -> str:
    station = page.station
    parts = [
        f'<div class="keep"><h2>{number}. {escape(say(station.title))}</h2>'
        f"<p>{escape(without_terms(say(station.text)))}</p></div>",
    ]
    do = f'<p class="do">{escape(say(station.do))}</p>'
    if page.asked is None:
        parts.append(f'{do}<p class="quiet">{escape(page.why_not)}</p>')
        return f"<section>{''.join(parts)}</section>"
    options = "".join(f"<li>{BOX} {escape(option)}</li>" for option in page.asked.options)
    reason = say("My reason")
    parts += [
        f'<div class="keep">{do}<p class="ask">{escape(page.asked.question)}</p>'
        f'<ul class="options">{options}</ul><p class="quiet">{escape(reason)}</p>'
        f"{2 * LINE}</div>",
    ]
    if page.asked.exercise is not None:
        parts.append(_exercise(page.asked.exercise))
    return f"<section>{''.join(parts)}</section>"


def _exercise(found: Exercise) -> str:
    head, *rows = found.rows
    lines = ["".join(f"<th>{escape(cell)}</th>" for cell in head)]
    lines += ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    table = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="keep"><p class="ask">{escape(found.task)}</p><table>{table}</table></div>'


def _words(pages: Sequence[Page]) -> str:
    """Return the terms of the texts with their definitions."""
    named = dict.fromkeys(term for page in pages for term in terms(page.station.text))
    items = "".join(
        f"<div><dt>{escape(say(GLOSSARY[term][0]))}</dt>"
        f"<dd>{escape(say(GLOSSARY[term][1]))}</dd></div>"
        for term in named
    )
    return f"<section><h2>{escape(say('Terms'))}</h2><dl>{items}</dl></section>"


def _answers(pages: Sequence[Page]) -> str:
    items = []
    for page in pages:
        told = page.why_not
        if page.asked is not None:
            told = f"{page.asked.options[page.asked.right]}. {page.asked.why}"
            if page.asked.exercise is not None:
                told += " " + page.asked.exercise.solution
        items.append(f"<li><b>{escape(say(page.station.title))}</b>: {escape(told)}</li>")
    return (
        f'<section class="answers"><h2>{escape(say("Answers, for the teacher"))}</h2>'
        f"<ol>{''.join(items)}</ol></section>"
    )
