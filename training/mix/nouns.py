"""English nouns with their German genders, in the groups of the agreement frames.

Entries separated by commas hold the English noun, the German one, its gender (m, f, n), and for a
weak masculine its accusative and dative. Underscores stand for spaces.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Nouns of the pronoun test: no generated sentence contains them, in either language.
HELD_OUT = {
    *("animal", "dog", "cat", "horse", "bird", "street", "road", "mountain", "tree", "tower"),
    *("roof", "ladder", "door", "window", "hole", "entrance", "book", "picture", "table"),
    *("chair", "clock", "watch", "piano", "sofa", "mirror", "car", "bus", "plane", "bag"),
    *("suitcase", "glass", "telephone", "phone", "hat", "shirt", "key", "letter", "umbrella"),
    *("camera", "coat", "dress", "flower", "garden"),
}
HELD_OUT_GERMAN = {
    *("Tier", "Hund", "Katze", "Pferd", "Vogel", "Straße", "Berg", "Baum", "Turm", "Dach"),
    *("Leiter", "Tür", "Fenster", "Loch", "Eingang", "Buch", "Bild", "Tisch", "Stuhl", "Uhr"),
    *("Klavier", "Sofa", "Spiegel", "Auto", "Bus", "Flugzeug", "Tasche", "Koffer", "Glas"),
    *("Telefon", "Handy", "Hut", "Hemd", "Schlüssel", "Brief", "Regenschirm", "Kamera"),
    *("Mantel", "Kleid", "Blume", "Garten"),
}

GROUPS = {
    "animal": """
cow Kuh f, donkey Esel m, sheep Schaf n, pig Schwein n, wolf Wolf m, fox Fuchs m,
bear Bär m Bären, goat Ziege f, mouse Maus f, duck Ente f, chicken Huhn n, lion Löwe m Löwen,
camel Kamel n, rabbit Kaninchen n, pony Pony n, calf Kalb n, lamb Lamm n, tiger Tiger m,
elephant Elefant m Elefanten, monkey Affe m Affen, deer Reh n, snake Schlange f, frog Frosch m,
squirrel Eichhörnchen n, kitten Kätzchen n, puppy Welpe m Welpen, goose Gans f, hen Henne f,
rooster Hahn m, ant Ameise f, spider Spinne f, hedgehog Igel m, crocodile Krokodil n,
turtle Schildkröte f, rat Ratte f, bull Stier m, zebra Zebra n, giraffe Giraffe f, foal Fohlen n,
piglet Ferkel n, snail Schnecke f, beetle Käfer m, chick Küken n
""",
    "path": """
bridge Brücke f, stream Bach m, path Weg m, field Feld n, square Platz m, meadow Wiese f,
valley Tal n, highway Autobahn f, swamp Sumpf m, yard Hof m, desert Wüste f,
railway_track Gleis n, lawn Rasen m, canyon Schlucht f, brook Bächlein n, rice_field Reisfeld n,
footbridge Steg m
""",
    "water": """
river Fluss m, lake See m, canal Kanal m, pond Teich m, bay Bucht f, pool Becken n,
harbour Hafen m, water Wasser n, lagoon Lagune f, basin Bassin n
""",
    "obstacle": """
fence Zaun m, wall Mauer f, gate Gatter n, hedge Hecke f, ditch Graben m, log Baumstamm m,
bench Bank f, puddle Pfütze f, barrel Fass n, bar Stange f, bush Busch m, stone Stein m,
rope Seil n, barrier Schranke f, hurdle Hürde f, board Brett n, net Netz n
""",
    "food": """
apple Apfel m, bread Brot n, cheese Käse m, sausage Wurst f, meat Fleisch n, carrot Karotte f,
fish Fisch m, egg Ei n, cake Kuchen m, soup Suppe f, banana Banane f, pear Birne f,
ham Schinken m, potato Kartoffel f, sandwich Brötchen n, salad Salat m, pizza Pizza f,
tomato Tomate f, peach Pfirsich m, steak Steak n, rice Reis m, vegetable Gemüse n, pie Pastete f,
pudding Pudding m, porridge Brei m, ice_cream Eis n
""",
    "drink": """
milk Milch f, tea Tee m, coffee Kaffee m, juice Saft m, beer Bier n, wine Wein m,
lemonade Limonade f, cocoa Kakao m, oil Öl n, sauce Soße f, broth Brühe f,
drinking_water Trinkwasser n, mineral_water Mineralwasser n
""",
    "vehicle": """
train Zug m, truck Lastwagen m, bicycle Fahrrad n, carriage Kutsche f, boat Boot n, ship Schiff n,
tram Bahn f, sled Schlitten m, taxi Taxi n, motorcycle Motorrad n, tractor Traktor m,
van Lieferwagen m, ambulance Krankenwagen m, scooter Roller m, ferry Fähre f,
locomotive Lokomotive f, fire_engine Feuerwehrauto n, canoe Kanu n
""",
    "cart": """
cart Karren m, wagon Wagen m, carriage Kutsche f, sled Schlitten m, plough Pflug m,
trailer Anhänger m, boat Boot n, raft Floß n, barrow Schubkarre f
""",
    "bed": """
bed Bett n, armchair Sessel m, carpet Teppich m, blanket Decke f, mattress Matratze f,
pillow Kissen n, straw Stroh n, couch Couch f, bench Bank f, floor Boden m, hay Heu n,
rug Läufer m, mat Matte f
""",
    "high": """
branch Ast m, nest Nest n, shelf Regal n, fruit Frucht f, lamp Lampe f, apple Apfel m, nut Nuss f,
cheese Käse m, egg Ei n, platform Plattform f, feather Feder f, balloon Ballon m, rope Seil n
""",
    "building": """
house Haus n, stable Stall m, barn Scheune f, cave Höhle f, tent Zelt n, cellar Keller m,
kitchen Küche f, room Zimmer n, tunnel Tunnel m, hut Hütte f, forest Wald m, church Kirche f,
shop Laden m, school Schule f, hotel Hotel n, castle Schloss n, park Park m,
restaurant Restaurant n, garage Garage f, office Büro n
""",
    "thing": """
ball Ball m, guitar Gitarre f, violin Geige f, box Kiste f, computer Computer m,
television Fernseher m, radio Radio n, doll Puppe f, vase Vase f, plate Teller m, pan Pfanne f,
knife Messer n, hammer Hammer m, saw Säge f, cushion Kissen n, trophy Pokal m, statue Statue f,
stone Stein m, toy Spielzeug n, map Landkarte f, newspaper Zeitung f, notebook Heft n,
drum Trommel f, ruler Lineal n, helmet Helm m, pullover Pullover m, skirt Rock m, jacket Jacke f,
belt Gürtel m, tent Zelt n, carpet Teppich m, printer Drucker m, candle Kerze f, broom Besen m,
sword Schwert n, shield Schild m, flute Flöte f, cup Tasse f, spoon Löffel m, fork Gabel f,
wheel Rad n, package Paket n, photo Foto n, tie Krawatte f, shoe Schuh m
""",
    "container": """
box Kiste f, carton Karton m, basket Korb m, drawer Schublade f, cupboard Schrank m,
bottle Flasche f, pot Topf m, bucket Eimer m, barrel Fass n, envelope Umschlag m,
backpack Rucksack m, jug Krug m, chest Truhe f, sack Sack m, shelf Regal n, tin Dose f,
case Etui n, net Netz n, little_cupboard Schränkchen n, compartment Fach n, tray Tablett n,
trunk Kofferraum m
""",
    "vessel": """
bottle Flasche f, pot Topf m, bucket Eimer m, barrel Fass n, jug Krug m, cup Tasse f,
bowl Schüssel f, mug Becher m, tank Tank m, teapot Kanne f, pan Pfanne f, jar Gefäß n,
basin Becken n
""",
    "surface": """
shelf Regal n, bench Bank f, cupboard Schrank m, wall Wand f, tray Tablett n, stool Hocker m,
windowsill Fensterbank f, board Brett n, bed Bett n, cart Karren m, stove Herd m,
dresser Kommode f, counter Theke f
""",
    "support": """
rope Seil n, nail Nagel m, hook Haken m, chain Kette f, branch Ast m, shelf Regal n,
bridge Brücke f, board Brett n, string Schnur f, beam Balken m, belt Gürtel m, net Netz n,
wire Draht m, screw Schraube f
""",
    "cover": """
blanket Decke f, cloth Tuch n, carpet Teppich m, tarpaulin Plane f, lid Deckel m, sheet Laken n,
curtain Vorhang m, towel Handtuch n, scarf Schal m, foil Folie f
""",
    "covered": """
bed Bett n, floor Boden m, wall Wand f, bench Bank f, pot Topf m, box Kiste f, barrel Fass n,
boat Boot n, pan Pfanne f, stain Fleck m, truck Lastwagen m, bicycle Fahrrad n, crack Riss m,
bowl Schüssel f
""",
    "striker": """
ball Ball m, stone Stein m, hammer Hammer m, snowball Schneeball m, axe Axt f, bullet Kugel f,
stick Stock m, club Keule f, arrow Pfeil m, piece_of_wood Holzstück n, iron_bar Eisenstange f
""",
    "breakable": """
pane Scheibe f, vase Vase f, plate Teller m, cup Tasse f, jug Krug m, egg Ei n, ice Eis n,
board Brett n, wall Mauer f, bottle Flasche f, nut Nuss f, aquarium Aquarium n, lock Schloss n,
stone Stein m
""",
    "blade": """
knife Messer n, saw Säge f, axe Axt f, sword Schwert n, blade Klinge f, razor Rasierer m,
dagger Dolch m, machine Maschine f, tool Werkzeug n, file Feile f
""",
    "cuttable": """
bread Brot n, rope Seil n, cheese Käse m, meat Fleisch n, branch Ast m, board Brett n,
cake Kuchen m, sausage Wurst f, string Schnur f, paper Papier n, cloth Stoff m, wire Draht m,
ham Schinken m, potato Kartoffel f, log Baumstamm m
""",
    "light": """
lamp Lampe f, candle Kerze f, fire Feuer n, torch Fackel f, lantern Laterne f,
spotlight Scheinwerfer m, moon Mond m, fluorescent_lamp Neonlicht n, match Streichholz n
""",
    "heater": """
stove Ofen m, heater Heizung f, fire Feuer n, fireplace Kamin m, radiator Heizkörper m,
heating_device Heizgerät n, boiler Kessel m, sun Sonne f
""",
    "room": """
room Zimmer n, cellar Keller m, kitchen Küche f, hall Halle f, house Haus n, hut Hütte f,
tent Zelt n, bathroom Badezimmer n, church Kirche f, cave Höhle f, corridor Flur m,
tunnel Tunnel m, attic Dachboden m
""",
    "sticker": """
sticker Aufkleber m, note Zettel m, poster Plakat n, stamp Briefmarke f, label Etikett n,
map Landkarte f, photo Foto n, plaster Pflaster n, tape Klebeband n, card Karte f
""",
    "stuck": """
wall Wand f, box Kiste f, cupboard Schrank m, bottle Flasche f, board Brett n,
envelope Umschlag m, package Paket n, fridge Kühlschrank m, helmet Helm m, skin Haut f,
ship Schiff n
""",
    "post": """
post Pfosten m, fence Zaun m, branch Ast m, ring Ring m, railing Geländer n, pillar Säule f,
bench Bank f, bar Stange f, cart Karren m, stake Pfahl m, wheel Rad n
""",
    "clothes": """
pullover Pullover m, skirt Rock m, jacket Jacke f, blanket Decke f, towel Handtuch n,
curtain Vorhang m, scarf Schal m, cloth Tuch n, carpet Teppich m, blouse Bluse f,
costume Kostüm n, glove Handschuh m
""",
    "washer": """
sink Spüle f, washing_machine Waschmaschine f, bucket Eimer m, tub Wanne f, stream Bach m,
basin Becken n, river Fluss m, pond Teich m, bathtub Badewanne f
""",
    "cooker": """
pot Topf m, pan Pfanne f, oven Ofen m, kettle Kessel m, fire Feuer n, microwave Mikrowelle f,
stove Herd m, cooking_pot Kochtopf m, grill Grill m, device Gerät n
""",
    "locked": """
box Kiste f, drawer Schublade f, cupboard Schrank m, chest Truhe f, lock Schloss n,
bottle Flasche f, tin Dose f, package Paket n, safe Safe m, gate Gatter n, barrel Fass n
""",
    "opener": """
knife Messer n, screwdriver Schraubenzieher m, opener Öffner m, tool Werkzeug n, hammer Hammer m,
crowbar Brechstange f, needle Nadel f, wire Draht m, saw Säge f, stick Stock m, card Karte f,
axe Axt f
""",
    "leaning": """
bicycle Fahrrad n, board Brett n, broom Besen m, guitar Gitarre f, stick Stock m, plank Planke f,
mattress Matratze f, spade Spaten m, shovel Schaufel f, shield Schild m, painting Gemälde n
""",
}
#: Groups for pairs about a single noun: "I bought a ... . It is ... ."
SINGLE = ("thing", "vehicle", "clothes", "vessel", "cover", "blade", "container", "light")


@dataclass(frozen=True)
class Noun:
    """Noun in both languages: gender m, f or n; ``oblique`` is accusative and dative."""

    english: str
    german: str
    gender: str
    oblique: str


def read(lines: str) -> tuple[Noun, ...]:
    """Return the nouns of a group.

    Raises:
        ValueError: A gender that does not exist, or a noun of the pronoun test.
    """
    found = []
    for line in lines.split(","):
        english, german, gender, *oblique = line.split()
        english = english.replace("_", " ")
        if gender not in "mfn" or english in HELD_OUT or german in HELD_OUT_GERMAN:
            raise ValueError(f"{line!r} has no gender m, f or n, or belongs to the test.")
        found.append(Noun(english, german, gender, oblique[0] if oblique else german))
    return tuple(found)


NOUNS = {name: read(lines) for name, lines in GROUPS.items()}
EVERY_SINGLE = tuple({noun.german: noun for group in SINGLE for noun in NOUNS[group]}.values())
