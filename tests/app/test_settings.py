"""Settings: each listed, each value checked, each read where it is used."""

from __future__ import annotations

import pytest

from tests.support.paths import ROOT
from transformer_viz import reach, settings
from transformer_viz.app.engine import model_names
from transformer_viz.settings import SETTINGS


def test_each_default_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)
    for who in (reach.OTHERS, reach.MACHINE):
        monkeypatch.setenv(settings.REACH.variable, who)
        settings.check()
        listed = settings.listing()
        for setting in SETTINGS:
            is_alone = who == reach.MACHINE and setting.alone is not None
            wanted = who if setting is settings.REACH else setting.default
            assert f"{setting.variable}={setting.alone if is_alone else wanted}\n" in listed
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    assert [one.name for one in SETTINGS if f"`{one.variable}`" not in page] == []


def test_another_value_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting, value, said in (
        (settings.FORWARDS, "0", "whole number, 1 or more"),
        (settings.FORWARDS, "two", "whole number"),
        (settings.FORWARDS, "٢", "whole number"),
        (settings.VISIT_MB, "9" * 40, "whole number"),
        (settings.PATHS, "no", "on or off"),
        (settings.REACH, "me", "auto or machine or others"),
        (settings.FRAMES, "https://a.example; script-src *", "addresses of sites"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(setting.variable, value)
            with pytest.raises(ValueError, match=said):
                settings.check()
    monkeypatch.setenv(settings.PATHS.variable, "off")
    with pytest.raises(ValueError, match="opens no paths"):
        model_names.find_below("README.md")
