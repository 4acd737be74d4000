"""The sliders' stops: written and read back, of links too; what is no value is refused."""

from __future__ import annotations

import json

import pytest

from tests.support.component_stage import decoded
from transformer_viz.components.edit_sliders import SLIDERS, TEMPERATURE, WINDOW
from transformer_viz.components.slider import Stop, slider_data
from transformer_viz.core.editing.edit_controls import Place
from transformer_viz.core.interventions import Intervention, Temperature

PLACE = Place("cross", 1, 3)


def test_stops_of_both_sliders_read_back_as_written() -> None:
    for slider, own in ((TEMPERATURE, "1.0"), (WINDOW, "off")):
        stops = slider.stops(slider.own)
        values = [stop.value for stop in stops]
        assert [slider.write(slider.read(value)) for value in values] == values
        assert slider.write(slider.shown(Intervention(), PLACE)) == own
        for value in values:
            changes = slider.moved(Intervention(), PLACE, slider.read(value))
            assert slider.write(slider.shown(changes, PLACE)) == value
            assert bool(changes) == (value != own), value
    labels = [stop.label for stop in TEMPERATURE.stops(1.0)]
    assert labels[:2] == ["hard", "0.2"] and len(labels) == 23
    assert labels.index("1") == 11  # in the middle
    windows = [*map(str, range(11)), "12", "16", "24", "32", "off"]
    assert [stop.label for stop in WINDOW.stops(None)] == windows


def test_values_of_a_link_are_stops_too() -> None:
    warm = Intervention((Temperature(value=2.123456789),))
    shown = TEMPERATURE.shown(warm, PLACE)
    stops = TEMPERATURE.stops(shown)
    data = slider_data("temperature", stops, chosen=TEMPERATURE.write(shown), own="1.0")
    header, _ = decoded(data)
    assert header["values"][header["chosen"]] == "2.123456789"
    assert header["labels"][header["chosen"]] == "2.12346"
    assert [float(value) for value in header["values"]] == sorted(map(float, header["values"]))
    assert [stop.value for stop in WINDOW.stops(40)][-2:] == ["40", "off"]


def test_what_is_no_value_or_no_stop_is_refused() -> None:
    odd = {
        "temperature": ("", "warm", "nan", "inf", "-1", "1,5", "1e999"),
        "window": ("", "-1", "2.5", "Off", "١", "12345678"),
    }
    for name, texts in odd.items():
        for text in texts:
            with pytest.raises(ValueError, match=r"is a (whole )?number from 0"):
                print(f"{name} took {text!r}:", SLIDERS[name].read(text))
    stops = [Stop(f"{n}.0", f"n{n}", f"{n} of them") for n in range(11)]
    with pytest.raises(ValueError, match="has no stop"):
        slider_data("temperature", stops, chosen="7.5", own="3.0")
    header, arrays = decoded(slider_data("temperature", stops, chosen="4.0", own="3.0"))
    assert header["chosen"] == 4 and header["own"] == 3 and arrays == {}
    assert json.dumps(header["colours"]["dark"]["accent"])
