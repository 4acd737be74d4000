"""Short everyday sentences around a name, a city or country, a day, a number or a time."""

from __future__ import annotations

import re

import numpy as np

from .names import KINDS, another

Random = np.random.Generator
LINES = """
My name is {p}.|Ich heiße {p}.
My name is {p}.|Mein Name ist {p}.
{p} is my best friend.|{p} ist mein bester Freund.
This is {p}. We work together.|Das ist {p}. Wir arbeiten zusammen.
Have you seen {p}?|Hast du {p} gesehen?
{p} comes from {l}.|{p} kommt aus {l}.
{p} lives in {c}.|{p} wohnt in {c}.
{p} and {q} live in {c}.|{p} und {q} wohnen in {c}.
{p} was born in {c} in {y}.|{p} wurde {y} in {c} geboren.
I was born in {c}.|Ich wurde in {c} geboren.
Where is {c}? It is in {l}.|Wo liegt {c}? Es liegt in {l}.
The flight to {c} was late.|Der Flug nach {c} hatte Verspätung.
A ticket to {c}, please.|Eine Fahrkarte nach {c}, bitte.
We flew from {c} to {d}.|Wir sind von {c} nach {d} geflogen.
When does the next train to {c} leave?|Wann fährt der nächste Zug nach {c}?
The train from {c} arrives at {t}.|Der Zug aus {c} kommt um {t} Uhr an.
How far is it from {c} to {d}?|Wie weit ist es von {c} nach {d}?
In {month} we are going to {l}.|Im {month} fahren wir nach {l}.
It is very hot in {l} in {month}.|Im {month} ist es in {l} sehr heiß.
My birthday is on {month} {n}.|Ich habe am {n}. {month} Geburtstag.
{p}'s birthday is in {month}.|{G} Geburtstag ist im {month}.
{p}'s brother is called {q}.|{G} Bruder heißt {q}.
{p}'s mother lives in {c}.|{G} Mutter lebt in {c}.
That is {p}'s bicycle.|Das ist {G} Fahrrad.
I met {p} in {c} on {day}.|Ich habe {p} am {day} in {c} getroffen.
On {day} I have no time.|Am {day} habe ich keine Zeit.
The shop is closed on {day}.|Das Geschäft ist am {day} geschlossen.
The party is on {day} at {t}.|Die Party ist am {day} um {t} Uhr.
The meeting begins at {t}.|Die Sitzung beginnt um {t} Uhr.
We close at {t}.|Wir schließen um {t} Uhr.
She got up at {t}.|Sie ist um {t} Uhr aufgestanden.
It costs {n} euros.|Es kostet {n} Euro.
There were {n} people in the room.|Es waren {n} Leute im Zimmer.
I am {n} years old.|Ich bin {n} Jahre alt.
{p} is {n} years old.|{p} ist {n} Jahre alt.
I have been learning German for {n} months.|Ich lerne seit {n} Monaten Deutsch.
We waited for {n} minutes.|Wir haben {n} Minuten gewartet.
{p} bought {n} eggs.|{p} hat {n} Eier gekauft.
The war ended in {y}.|Der Krieg endete {y}.
{c} is a city in {l}.|{c} ist eine Stadt in {l}.
I would like to live in {l}.|Ich würde gern in {l} leben.
Have you ever been to {l}?|Warst du schon einmal in {l}?
{l} is a beautiful country.|{l} ist ein schönes Land.
{p} wrote a book about {l}.|{p} hat ein Buch über {l} geschrieben.
{p} called {q} yesterday.|{p} hat {q} gestern angerufen.
{p}, this is {q}.|{p}, das ist {q}.
Good morning, {p}! How are you?|Guten Morgen, {p}! Wie geht es dir?
Thank you, {p}.|Danke, {p}.
{p} loves {q}.|{p} liebt {q}.
{p} gave {q} a present.|{p} hat {q} ein Geschenk gegeben.
I will be in {c} until {day}.|Ich bin bis {day} in {c}.
Is {p} at home?|Ist {p} zu Hause?
""".strip().splitlines()
#: Capitals, as English names of the lists in `names.py`.
CAPITALS = """
Austria Vienna|Belgium Brussels|Bulgaria Sofia|Cuba Havana|Denmark Copenhagen|Egypt Cairo
England London|Finland Helsinki|Greece Athens|Hungary Budapest|Iceland Reykjavik
Ireland Dublin|Italy Rome|Japan Tokyo|Latvia Riga|Lithuania Vilnius|Norway Oslo|Peru Lima
Poland Warsaw|Portugal Lisbon|Romania Bucharest|Russia Moscow|Spain Madrid|Sweden Stockholm
Syria Damascus|Thailand Bangkok|Tunisia Tunis|South_Korea Seoul|China Beijing|Germany Berlin
Estonia Tallinn|Croatia Zagreb|Serbia Belgrade|Indonesia Jakarta
"""
CAPITAL_LINES = (
    "{c} is the capital of {l}.|{c} ist die Hauptstadt von {l}.",
    "The capital of {l} is {c}.|Die Hauptstadt von {l} ist {c}.",
    "What is the capital of {l}? It is {c}.|Was ist die Hauptstadt von {l}? Es ist {c}.",
    "We visited {c}, the capital of {l}.|Wir haben {c} besucht, die Hauptstadt von {l}.",
)
PLACES = dict(KINDS["cities"]) | dict(KINDS["countries"])


def capital(random: Random) -> tuple[str, str]:
    """Return a random sentence about a country and its capital."""
    pairs = [pair.split() for pair in CAPITALS.replace("\n", "|").split("|") if pair]
    country, city = (word.replace("_", " ") for word in pairs[random.integers(len(pairs))])
    english, german = CAPITAL_LINES[random.integers(len(CAPITAL_LINES))].split("|")
    return (
        english.replace("{c}", city).replace("{l}", country),
        german.replace("{c}", PLACES[city]).replace("{l}", PLACES[country]),
    )


def phrase_pair(random: Random) -> tuple[str, str]:
    """Return one of the sentences above with its gaps filled."""
    if random.random() < 0.06:
        return capital(random)
    english, german = LINES[random.integers(len(LINES))].split("|")
    for gap in sorted(set(re.findall(r"{(\w+)}", english))):
        here, there = fill(gap, random)
        if gap == "p":
            ending = "'" if there[-1] in "sxzß" else "s"
            german = german.replace("{G}", there + ending)
        english, german = english.replace(f"{{{gap}}}", here), german.replace(f"{{{gap}}}", there)
    return english, german


def fill(gap: str, random: Random) -> tuple[str, str]:
    """Return random content of a gap, in both languages."""
    kinds = {"c": "cities", "d": "cities", "l": "countries", "month": "months", "day": "days"}
    if gap in ("p", "q"):
        return another("men" if random.random() < 0.5 else "women", set(), random)
    if gap in kinds:
        return another(kinds[gap], set(), random)
    if gap == "t":
        hour, minute = random.integers(1, 24), 5 * random.integers(12)
        here = f"{hour}:{minute:02}" if minute or hour > 12 else f"{hour} o'clock"
        return here, f"{hour}:{minute:02}" if minute or hour > 12 else f"{hour}"
    low, high = (1900, 2030) if gap == "y" else (2, 29)
    number = str(random.integers(low, high))
    return number, number
