"""Frames of the agreement sentences: actions between two nouns, and reasons that fit each noun.

A frame begins with its name, the groups of its nouns ``a`` and ``b``, English infinitive and past.
After ``=`` follow German complement, infinitive, preterite, participle and auxiliary. In the
English words ``b`` (and ``a`` if a person acts) stands for a noun. In the German ones ``a:acc`` or
``in b:dat`` gives its case, and ``nicht`` its position. Then follow reasons that fit only ``a`` or
only ``b``: against the action (``-``) or for it (``+``).
"""

from __future__ import annotations

from dataclasses import dataclass

Reason = tuple[str, str]  # English and German predicate, after "it is"

LINES = """
cross | animal path | cross b | crossed b
= b:acc nicht | überqueren überquerte überquert hat
-a tired müde, lazy faul, hungry hungrig, scared ängstlich, weak schwach, sick krank
-a nervous nervös, sleepy schläfrig
-b wide breit, long lang, dangerous gefährlich, slippery rutschig, icy vereist, closed gesperrt
-b flooded überschwemmt
+a brave mutig, curious neugierig, hungry hungrig, thirsty durstig
+b safe sicher, empty leer, dry trocken, narrow schmal
swim | animal water | swim across b | swam across b
= nicht durch b:acc | schwimmen schwamm geschwommen ist
-a tired müde, weak schwach, lazy faul, scared ängstlich, sick krank
-b wide breit, deep tief, cold kalt, dirty schmutzig, frozen gefroren
+a brave mutig, hungry hungrig, young jung
+b narrow schmal, shallow seicht, calm ruhig, warm warm
jump | animal obstacle | jump over b | jumped over b
= nicht über b:acc | springen sprang gesprungen ist
-a tired müde, lazy faul, weak schwach, sick krank, scared ängstlich, old alt, hungry hungrig
-b high hoch, wide breit, dangerous gefährlich, wet nass
+a young jung, strong stark, brave mutig
+b low niedrig, short kurz
eat | animal food | eat b | ate b
= b:acc nicht | fressen fraß gefressen hat
-a sick krank, tired müde, full satt, scared ängstlich, nervous nervös, shy scheu
-b mouldy schimmelig, raw roh, hot heiß, cold kalt, hard hart, rotten verfault, salty salzig
-b frozen gefroren, burnt verbrannt, dry trocken, sour sauer, spoiled verdorben
+a hungry hungrig, greedy gierig
+b fresh frisch, delicious lecker, tasty lecker, soft weich, sweet süß
drink | animal drink | drink b | drank b
= b:acc nicht | trinken trank getrunken hat
-a sick krank, tired müde, shy scheu, scared ängstlich
-b hot heiß, cold kalt, sour sauer, bitter bitter, dirty schmutzig, strong stark
+a thirsty durstig, greedy gierig
+b fresh frisch, delicious lecker, sweet süß
follow | animal vehicle | follow b | followed b
= b:dat nicht | folgen folgte gefolgt ist
-a tired müde, lazy faul, slow langsam, weak schwach, sick krank
-b fast schnell, loud laut, far_away weit_weg
+a curious neugierig, hungry hungrig, lonely einsam
+b slow langsam, quiet leise
hide | animal covered | hide behind b | hid behind b
= sich nicht hinter b:dat | verstecken versteckte versteckt hat
-a big groß, brave mutig, fat dick, tall groß
-b low niedrig, small klein, narrow schmal, transparent durchsichtig
+a scared ängstlich, shy scheu
+b wide breit, high hoch
sleep | animal bed | sleep on b | slept on b
= nicht auf b:dat | schlafen schlief geschlafen hat
-a nervous nervös, hungry hungrig, sick krank, restless unruhig
-b hard hart, wet nass, cold kalt, dirty schmutzig, narrow schmal
+a tired müde, sleepy schläfrig, lazy faul, exhausted erschöpft
+b soft weich, warm warm, comfortable bequem, dry trocken
pull | animal cart | pull b | pulled b
= b:acc nicht | ziehen zog gezogen hat
-a tired müde, weak schwach, lazy faul, old alt, sick krank, hungry hungrig
-b heavy schwer, loaded beladen, rusty verrostet, full voll
+a strong stark, obedient gehorsam
+b light leicht, empty leer
reach | animal high | reach b | reached b
= b:acc nicht | erreichen erreichte erreicht hat
-a small klein, tired müde, lazy faul, weak schwach, short klein
-b high hoch, high_up hoch_oben, far_up weit_oben, far_away weit_weg
+a tall groß, clever klug, hungry hungrig
+b low niedrig, near nah
enter | animal building | enter b | entered b
= b:acc nicht | betreten betrat betreten hat
-a shy scheu, scared ängstlich, nervous nervös, tired müde, stubborn stur
-b dark dunkel, noisy laut, closed geschlossen, cold kalt, crowded überfüllt, narrow eng
+a curious neugierig, hungry hungrig, thirsty durstig
+b open offen, warm warm, empty leer, quiet ruhig
fit | thing container | fit into b | fit into b
= nicht in b:acc | passen passte gepasst hat
-a big groß, long lang, wide breit, thick dick, large groß, high hoch, bulky sperrig
-b small klein, full voll, narrow eng, short kurz, tiny winzig, already_full schon_voll
+a small klein, thin dünn, short kurz, tiny winzig
+b big groß, empty leer, spacious geräumig, large groß
stand | thing surface | fit on b | fit on b
= nicht auf b:acc | passen passte gepasst hat
-a big groß, long lang, wide breit, large groß
-b small klein, full voll, narrow schmal, short kurz
+a small klein, narrow schmal, tiny winzig
+b big groß, empty leer
hold | support thing | hold b | held b
= b:acc nicht | halten hielt gehalten hat
-a weak schwach, thin dünn, rotten morsch, old alt, rusty rostig, broken kaputt
-b heavy schwer, wet nass, slippery glitschig
+a strong stark, solid stabil, new neu
+b light leicht
drive | vehicle room | drive into b | drove into b
= nicht in b:acc | fahren fuhr gefahren ist
-a high hoch, wide breit, big groß, long lang
-b narrow eng, small klein, low niedrig, closed geschlossen
+a small klein, narrow schmal
+b open offen, big groß, empty leer
cover | cover covered | cover b | covered b
= b:acc nicht | bedecken bedeckte bedeckt hat
-a small klein, short kurz, torn zerrissen, narrow schmal
-b big groß, long lang, wide breit, large groß
+a big groß, long lang, large groß
+b small klein, short kurz
break | striker breakable | break b | broke b
= b:acc nicht | zerbrechen zerbrach zerbrochen hat
-a soft weich, light leicht, slow langsam, small klein
-b thick dick, hard hart, solid stabil
+a heavy schwer, hard hart, fast schnell, big groß
+b thin dünn, old alt, fragile zerbrechlich, cracked gesprungen
cut | blade cuttable | cut b | cut b
= b:acc nicht | schneiden schnitt geschnitten hat
-a blunt stumpf, dull stumpf, rusty rostig, old alt, broken kaputt
-b hard hart, thick dick, tough zäh, frozen gefroren
+a sharp scharf, new neu
+b soft weich, thin dünn, tender zart
light | light room | light b | lit b
= b:acc nicht | erhellen erhellte erhellt hat
-a weak schwach, small klein, dim schwach, dirty schmutzig, faint schwach
-b big groß, long lang, large groß
+a bright hell, strong stark
+b small klein, tiny winzig
heat | heater room | heat b | heated b
= b:acc nicht | heizen heizte geheizt hat
-a weak schwach, old alt, small klein
-b big groß, draughty zugig, high hoch, large groß
+a hot heiß, new neu
+b small klein, tiny winzig
stick | sticker stuck | stick to b | stuck to b
= nicht an b:dat | kleben klebte geklebt hat
-a old alt, heavy schwer, dry trocken, big groß
-b wet nass, dirty schmutzig, dusty staubig, rough rau, greasy fettig
+a light leicht, new neu
+b smooth glatt, clean sauber, dry trocken
carry | person thing path | carry a over b | carried a over b
= a:acc nicht über b:acc | tragen trug getragen hat
-a heavy schwer, bulky sperrig, big groß, fragile zerbrechlich
-b slippery rutschig, long lang, narrow schmal, icy vereist
+a light leicht, small klein
+b safe sicher, dry trocken, short kurz
put | person thing container | put a into b | put a into b
= a:acc nicht in b:acc | legen legte gelegt hat
-a big groß, long lang, wide breit, bulky sperrig, wet nass
-b full voll, small klein, narrow eng, locked abgeschlossen, tiny winzig
+a fragile zerbrechlich, valuable wertvoll, expensive teuer, precious kostbar
+b empty leer, big groß, safe sicher, dry trocken
place | person thing surface | put a on b | put a on b
= a:acc nicht auf b:acc | stellen stellte gestellt hat
-a heavy schwer, big groß, hot heiß, wet nass, dirty schmutzig
-b high hoch, full voll, unstable wackelig, narrow schmal, wobbly wackelig
+a light leicht, beautiful schön
+b stable stabil, empty leer, low niedrig
pour | person drink vessel | pour a into b | poured a into b
= a:acc nicht in b:acc | gießen goss gegossen hat
-a hot heiß, sour sauer, thick dickflüssig, spoiled verdorben
-b full voll, small klein, cracked gesprungen, broken kaputt, dirty schmutzig, rusty rostig
+a fresh frisch, cold kalt
+b empty leer, big groß, clean sauber
tie | person animal post | tie a to b | tied a to b
= a:acc nicht an b:acc | binden band gebunden hat
-a restless unruhig, strong stark, wild wild, nervous nervös
-b rotten morsch, thin dünn, weak schwach, broken kaputt, far_away weit_weg
+a wild wild, curious neugierig, lively lebhaft
+b solid stabil, near nah, thick dick
wash | person clothes washer | wash a in b | washed a in b
= a:acc nicht in b:dat | waschen wusch gewaschen hat
-a delicate empfindlich, new neu, expensive teuer, clean sauber
-b broken kaputt, small klein, dirty schmutzig, full voll, cold kalt
+a dirty schmutzig, dusty staubig
+b clean sauber, empty leer, big groß
cook | person food cooker | cook a in b | cooked a in b
= a:acc nicht in b:dat | kochen kochte gekocht hat
-a frozen gefroren, mouldy schimmelig, rotten verfault, spoiled verdorben
-b rusty rostig, broken kaputt, small klein, dirty schmutzig
+a raw roh, fresh frisch, hard hart
+b hot heiß, big groß, new neu
open | person locked opener | open a with b | opened a with b
= a:acc nicht mit b:dat | öffnen öffnete geöffnet hat
-a frozen vereist, stuck verklemmt, locked abgeschlossen
-b bent verbogen, broken kaputt, short kurz, small klein, blunt stumpf
+a locked abgeschlossen, stuck verklemmt
+b sharp scharf, strong stark, long lang
throw | person thing obstacle | throw a over b | threw a over b
= a:acc nicht über b:acc | werfen warf geworfen hat
-a heavy schwer, fragile zerbrechlich, expensive teuer, big groß
-b high hoch, wide breit
+a light leicht, worthless wertlos, broken kaputt
+b low niedrig, near nah
lean | person leaning stuck | lean a against b | leaned a against b
= a:acc nicht an b:acc | lehnen lehnte gelehnt hat
-a heavy schwer, fragile zerbrechlich, long lang, expensive teuer
-b wet nass, unstable wackelig, dirty schmutzig
+a light leicht
+b solid stabil, dry trocken, near nah
load | person thing vehicle | load a onto b | loaded a onto b
= a:acc nicht auf b:acc | laden lud geladen hat
-a heavy schwer, long lang, bulky sperrig, dirty schmutzig
-b full voll, small klein, loaded beladen, far_away weit_weg, broken kaputt
+a light leicht, valuable wertvoll
+b empty leer, big groß, near nah
feed | person food animal | give a to b | gave a to b
= b:dat a:acc nicht | geben gab gegeben hat
-a mouldy schimmelig, raw roh, hot heiß, salty salzig, rotten verfault, frozen gefroren
-b sick krank, full satt, fat dick
+a fresh frisch, soft weich
+b hungry hungrig, weak schwach
"""

#: Predicates without degrees: "too empty" is not idiomatic.
WHOLE = {
    *("icy", "closed", "flooded", "frozen", "mouldy", "raw", "rotten", "burnt", "spoiled"),
    *("transparent", "loaded", "rusty", "open", "already full", "broken", "cracked", "torn"),
    *("locked", "stuck", "bent", "exhausted", "far away", "empty", "delicious", "worthless"),
    *("sick", "scared", "curious", "brave", "safe", "obedient", "full", "new", "near"),
}


@dataclass(frozen=True)
class Frame:
    """Action with its nouns, its verb forms, and its reasons; see the lines above.

    ``reasons`` maps ``"-a"``, ``"-b"``, ``"+a"``, ``"+b"`` to predicates in both languages.
    """

    name: str
    person: bool
    a: str
    b: str
    english: tuple[str, str]
    complement: str
    infinitive: str
    preterite: str
    participle: str
    auxiliary: str
    reasons: dict[str, tuple[Reason, ...]]


def read_frame(lines: list[str]) -> Frame:
    """Return a frame from its lines: English, German, and the reasons."""
    name, groups, bare, past = (part.strip() for part in lines[0].split(" | "))
    complement, verbs = lines[1].removeprefix("= ").split(" | ")
    *person, a, b = groups.split()
    infinitive, preterite, participle, auxiliary = verbs.split()
    reasons: dict[str, tuple[Reason, ...]] = {}
    for line in lines[2:]:
        found = tuple(read_reason(words) for words in line[3:].split(", "))
        reasons[line[:2]] = reasons.get(line[:2], ()) + found
    return Frame(
        name, bool(person), a, b, (bare, past), complement,
        infinitive, preterite, participle, auxiliary, reasons,
    )  # fmt: skip


def read_reason(words: str) -> Reason:
    """Return ``"far_away weit_weg"`` as a pair of texts."""
    english, german = words.split(" ")
    return english.replace("_", " "), german.replace("_", " ")


def read_frames(text: str) -> tuple[Frame, ...]:
    """Return all frames; each begins one line before its German verb."""
    lines = text.strip().splitlines()
    heads = [place - 1 for place, line in enumerate(lines) if line.startswith("=")]
    bounds = zip(heads, [*heads[1:], len(lines)], strict=True)
    return tuple(read_frame(lines[first:last]) for first, last in bounds)


FRAMES = read_frames(LINES)
