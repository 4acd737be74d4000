"""Colours of all pictures: background and text, ramps for amounts and for changes, eight heads."""

from __future__ import annotations

from dataclasses import dataclass

Ramp = tuple[str, ...]


@dataclass(frozen=True)
class Palette:
    """Colours for one background.

    ``amounts`` runs from zero to the maximum, ``changes`` from less over unchanged to more.
    """

    paper: str
    card: str
    ink: str
    quiet: str
    line: str
    accent: str
    warm: str
    hatch: str
    amounts: Ramp
    changes: Ramp


LIGHT = Palette(
    paper="#FBFAF7",
    card="#FFFFFF",
    ink="#20242C",
    quiet="#5F6673",
    line="#DEDCD5",
    accent="#2F5AA8",
    warm="#B4560F",
    hatch="#C9C5BA",
    amounts=("#FFFFFF", "#DCE6F4", "#B3C8E8", "#86A7D8", "#5A84C4", "#2F5AA8", "#1B3A75"),
    changes=("#1B4A99", "#7FA3DA", "#FFFFFF", "#EFA76B", "#B4560F"),
)
DARK = Palette(
    paper="#14171C",
    card="#1B1F25",
    ink="#E8E6E1",
    quiet="#A2A8B3",
    line="#343A44",
    accent="#8FAEF0",
    warm="#F0A064",
    hatch="#4A515D",
    amounts=("#1B1F25", "#2A3754", "#3F5687", "#5F80BC", "#8FADDF", "#C6CFDD", "#F7EDB8"),
    changes=("#8FAEF0", "#48639F", "#1B1F25", "#8A5A36", "#F0A064"),
)

#: Eight colours that colour-blind readers can distinguish (Okabe and Ito 2008, "Color Universal
#: Design"), the last one black on light and white on dark.
OKABE_ITO: Ramp = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442"),
    "#000000",
)

#: Colour maps for amounts, in the order of the menu; `ink` and `grey` follow the background.
#: viridis: van der Walt and Smith 2015; cividis: Nuñez, Anderton and Renslow 2018, "Optimizing
#: colormaps with consideration for color vision deficiency"; eleven even steps of each.
RAMPS: tuple[str, ...] = ("ink", "viridis", "cividis", "grey")
VIRIDIS: Ramp = (
    *("#440154", "#482475", "#414487", "#355F8D", "#2A788E", "#21918C"),
    *("#22A884", "#44BF70", "#7AD151", "#BDDF26", "#FDE725"),
)
CIVIDIS: Ramp = (
    *("#00224E", "#083370", "#35456C", "#4F576C", "#666970", "#7D7C78"),
    *("#948E77", "#AEA371", "#C8B866", "#E5CF52", "#FEE838"),
)


def ramps(dark: bool = False) -> dict[str, Ramp]:
    """Return all colour maps for amounts by name, from zero to the maximum."""
    colours = palette(dark)
    grey = (colours.card, colours.ink)
    return dict(zip(RAMPS, (colours.amounts, VIRIDIS, CIVIDIS, grey), strict=True))


def palette(dark: bool = False) -> Palette:
    """Return the colours for a light or a dark background."""
    return DARK if dark else LIGHT
