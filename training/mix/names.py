"""Names of people, cities and countries, days and months, and their exchange in a pair.

Tatoeba's sentences are about Tom, Mary and Boston; a model trained on them alone copies no other
name. The same new name goes into both languages, with the German genitive.
"""

from __future__ import annotations

import re

import numpy as np

Random = np.random.Generator
MEN = """
Adam Adrian Ahmed Alan Albert Alexander Ali Andrew Anton Arthur Ben Benjamin Bernd Bob Boris Brian
Carlos Charles Chris Christian Daniel David Dennis Dieter Dylan Eduardo Edward Emil Eric Ethan
Fabian Felix Fernando Finn Francesco Frank Fred Friedrich Fritz Gabriel George Giovanni Günter
Hannes Hans Harry Heinz Henry Hiroshi Hugo Ian Igor Ismail Ivan Jack Jacob Jakob Jamal James Jan
Jason Jens Jim Jonas Jonathan Jörg Jorge José Joseph Julian Jürgen Karim Karl Kenji Kevin Klaus
Konrad Kurt Lars Laurent Leo Leon Liam Luca Ludwig Luis Lukas Manfred Marco Mario Markus Martin
Matteo Matthew Max Mehmet Michael Miguel Mohammed Moritz Nathan Niklas Nils Noah Oliver Omar Oscar
Otto Pablo Patrick Paul Pedro Peter Philip Pierre Rafael Raj Ralf Richard Robert Roger Ryan Samuel
Sebastian Simon Stefan Steve Sven Takeshi Theo Thomas Tim Tobias Uwe Viktor Vincent Walter Werner
William Wolfgang Yusuf
"""
WOMEN = """
Aisha Alice Alina Amanda Amelie Amina Amy Andrea Angela Anja Anna Anne Annika Antonia Astrid
Barbara Beatrice Birgit Brigitte Camille Carla Carmen Carol Caroline Catherine Chiara Claire Clara
Claudia Daniela Diana Elena Elisabeth Elizabeth Ella Ellen Emily Emma Erika Eva Fatima Franziska
Frieda Gabriele Gisela Greta Hannah Heidi Helen Helena Helga Ingrid Irene Isabel Jana Jane Jasmin
Jennifer Jessica Julia Juliane Karin Kate Katharina Kathrin Kerstin Laila Lara Laura Lea Lena
Leonie Lily Lina Linda Lisa Louise Lucia Lucy Luise Maja Margaret Maria Marie Marta Martina Maya
Mei Melanie Mia Monika Nadia Nancy Natalie Natasha Nicole Nina Nora Olga Olivia Patricia Paula
Petra Pia Rachel Rebecca Renate Rita Rosa Ruth Sabine Sandra Sara Sarah Silvia Simone Sofia Sonja
Sophie Stefanie Susan Susanne Svenja Sylvia Tanja Teresa Tina Ursula Valentina Vanessa Vera Wendy
Yasmin Yoko Yuki Zoe
"""
#: English=German where they differ; underscores are spaces.
CITIES = """
Aachen Amsterdam Ankara Antwerp=Antwerpen Athens=Athen Atlanta Augsburg Baghdad=Bagdad Bangkok
Barcelona Basel Beijing=Peking Beirut Belgrade=Belgrad Berlin Bern Birmingham Bochum Bologna Bonn
Bordeaux Bremen Brisbane Bristol Brussels=Brüssel Bucharest=Bukarest Budapest Buenos_Aires
Cairo=Kairo Cambridge Cape_Town=Kapstadt Casablanca Chicago Cologne=Köln Copenhagen=Kopenhagen
Dallas Damascus=Damaskus Delhi Denver Detroit Dortmund Dresden Dubai Dublin Düsseldorf Edinburgh
Erfurt Essen Frankfurt Freiburg Geneva=Genf Genoa=Genua Ghent=Gent Glasgow Göttingen Graz Hamburg
Hanover=Hannover Havana=Havanna Heidelberg Helsinki Hiroshima Hong_Kong=Hongkong Houston Innsbruck
Istanbul Jakarta Jerusalem Karlsruhe Kassel Kiel Kobe Krakow=Krakau Kyoto Lagos Leeds Leipzig Lima
Linz Lisbon=Lissabon Liverpool London Los_Angeles Lübeck Lyon Madrid Mainz Malaga Manchester
Mannheim Marseille Melbourne Miami Milan=Mailand Montreal Moscow=Moskau Munich=München Münster
Nagoya Naples=Neapel New_York Nice=Nizza Nuremberg=Nürnberg Osaka Oslo Oxford Paris Philadelphia
Porto Potsdam Prague=Prag Regensburg Reykjavik Riga Rome=Rom Rostock Rotterdam Salzburg
San_Francisco Santiago São_Paulo Seattle Seoul Seville=Sevilla Shanghai Singapore=Singapur Sofia
Stockholm Strasbourg=Straßburg Stuttgart Sydney Tallinn Tehran=Teheran Tel_Aviv Tokyo=Tokio
Toronto Trier Tunis Turin Ulm Utrecht Valencia Vancouver Venice=Venedig Vienna=Wien Vilnius
Warsaw=Warschau Weimar Wiesbaden Yokohama Zagreb Zurich=Zürich Boston
"""
#: Only countries that take no article in German.
COUNTRIES = """
Afghanistan Albania=Albanien Algeria=Algerien Argentina=Argentinien Australia=Australien
Austria=Österreich Bangladesh=Bangladesch Belgium=Belgien Bolivia=Bolivien Brazil=Brasilien
Bulgaria=Bulgarien Cambodia=Kambodscha Canada=Kanada Chile China Colombia=Kolumbien
Croatia=Kroatien Cuba=Kuba Cyprus=Zypern Denmark=Dänemark Ecuador Egypt=Ägypten England
Estonia=Estland Ethiopia=Äthiopien Finland=Finnland France=Frankreich Germany=Deutschland Ghana
Greece=Griechenland Hungary=Ungarn Iceland=Island India=Indien Indonesia=Indonesien Ireland=Irland
Israel Italy=Italien Japan Kenya=Kenia Latvia=Lettland Lithuania=Litauen Luxembourg=Luxemburg
Malaysia Malta Mexico=Mexiko Morocco=Marokko Nepal New_Zealand=Neuseeland Nigeria
North_Korea=Nordkorea Norway=Norwegen Pakistan Paraguay Peru Poland=Polen Portugal
Romania=Rumänien Russia=Russland Saudi_Arabia=Saudi-Arabien Scotland=Schottland Senegal
Serbia=Serbien Slovenia=Slowenien South_Africa=Südafrika South_Korea=Südkorea Spain=Spanien
Sweden=Schweden Syria=Syrien Taiwan Tanzania=Tansania Thailand Tunisia=Tunesien Uganda Uruguay
Venezuela Vietnam Wales
"""
MONTHS = (
    "January=Januar February=Februar March=März April May=Mai June=Juni July=Juli August "
    "September October=Oktober November December=Dezember"
)
DAYS = (
    "Monday=Montag Tuesday=Dienstag Wednesday=Mittwoch Thursday=Donnerstag Friday=Freitag "
    "Saturday=Samstag Sunday=Sonntag"
)
#: Names that are replaced but never inserted: Tatoeba's names, and both forms of one.
READ_ONLY = {"men": "Tom John Bill Mike", "women": "Mary=Maria Mary Maria"}
#: English words that too often have another meaning: "in March", but "we march".
AMBIGUOUS = {"May", "March", "Nice", "Essen", "August", "Bob", "Frank"}
INVENTED = 0.12  # share of the inserted people with an invented name
START = "B Br D F G Gr H J K Kl L M N P R S St T Tr V W Z Ch Sh"
MIDDLE = "a e i o u ai ar el en il o or au ei"
JOIN = "b d f g k l ll m mm n nn nd r rr s st t v z sk"
END = "a an o in ek en us is er old ina ette ari ow y"


def _forms(words: str) -> list[tuple[str, str]]:
    """Return the English and German form of each name."""
    pairs = (word.replace("_", " ").partition("=") for word in words.split())
    return [(english, german or english) for english, _, german in pairs]


KINDS = {
    "men": _forms(MEN),
    "women": _forms(WOMEN),
    "cities": _forms(CITIES),
    "countries": _forms(COUNTRIES),
    "months": _forms(MONTHS),
    "days": _forms(DAYS),
}
FOUND = {
    (english, german): kind
    for kind, forms in KINDS.items()
    for english, german in (*_forms(READ_ONLY.get(kind, "")), *forms)
    if english not in AMBIGUOUS
}
OF_ENGLISH: dict[str, list[tuple[str, str]]] = {}
for _form in FOUND:
    OF_ENGLISH.setdefault(_form[0], []).append(_form)
_LONGEST = sorted(OF_ENGLISH, key=len, reverse=True)
ENGLISH = re.compile(r"(?<![\w-])(" + "|".join(map(re.escape, _LONGEST)) + r")(?![\w-])")


def invented(random: Random) -> tuple[str, str]:
    """Return an invented name, to be copied letter by letter."""
    parts = [START, MIDDLE, JOIN, *([MIDDLE, JOIN] if random.random() < 0.4 else []), END]
    choices = [part.split() for part in parts]
    name = "".join(choice[random.integers(len(choice))] for choice in choices)
    return name, name


def another(kind: str, taken: set[str], random: Random) -> tuple[str, str]:
    """Return a name of a kind that the pair does not hold yet, if there is one."""
    if kind in ("men", "women") and random.random() < INVENTED:
        return invented(random)
    forms = [form for form in KINDS[kind] if form[0] not in taken] or KINDS[kind]
    return forms[random.integers(len(forms))]


def genitive(name: str) -> str:
    """Return the genitive: ``Toms``, ``Max'``."""
    return f"{name}'" if name[-1] in "sxzß" else f"{name}s"


def german_places(name: str) -> re.Pattern[str]:
    """Return a pattern for a name in a German text, its genitive included (group 2)."""
    ending = r"('(?!\w))?" if name[-1] in "sxzß" else r"(s)?"
    return re.compile(rf"(?<![\w-])({re.escape(name)}){ending}(?![\w-])")


def swap_names(english: str, german: str, random: Random) -> tuple[str, str]:
    """Return the pair with other names of the same kinds, the same ones on both sides.

    A name whose counts differ between the two sides stays.
    """
    taken = set(ENGLISH.findall(english))
    chosen: dict[str, tuple[re.Pattern[str], str, str]] = {}
    for name in sorted(taken):
        count = len(re.findall(rf"(?<![\w-]){re.escape(name)}(?![\w-])", english))
        for form in OF_ENGLISH[name]:
            places = german_places(form[1])
            if len(places.findall(german)) == count:
                new = another(FOUND[form], taken, random)
                taken.add(new[0])
                chosen[name] = (places, *new)
                break
    return _swapped(english, german, chosen)


def _swapped(
    english: str, german: str, chosen: dict[str, tuple[re.Pattern[str], str, str]]
) -> tuple[str, str]:
    """Replace all names at once through placeholder characters, so that none is replaced twice."""
    english = ENGLISH.sub(lambda found: chosen.get(found[0], ("", found[0], ""))[1], english)
    for number, (places, _, _) in enumerate(chosen.values()):
        plain, ending = chr(0xE000 + 2 * number), chr(0xE001 + 2 * number)
        german = places.sub(rf"{plain}\2", german)
        german = re.sub(rf"{plain}['s](?!\w)", ending, german)
    for number, (_, _, new) in enumerate(chosen.values()):
        german = german.replace(chr(0xE001 + 2 * number), genitive(new))
        german = german.replace(chr(0xE000 + 2 * number), new)
    return english, german
