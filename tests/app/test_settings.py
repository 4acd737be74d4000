"""Settings: each listed, each value checked, each read where it is used."""

from __future__ import annotations

import pytest

from tests.support.paths import ROOT
from transformer_viz import settings
from transformer_viz.app.engine import model_names
from transformer_viz.settings import SETTINGS, Setting


def test_each_default_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)
        assert setting.text == setting.default
    settings.check()
    listed = settings.listing()
    assert all(f"{setting.variable}={setting.default}\n" in listed for setting in SETTINGS)


def test_the_page_on_security_lists_them_all() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    assert [one.name for one in SETTINGS if f"`{one.variable}`" not in page] == []


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        (settings.FORWARDS, "0", "whole number, 1 or more"),
        (settings.FORWARDS, "two", "whole number"),
        (settings.FORWARDS, "٢", "whole number"),
        (settings.VISIT_MB, "9" * 40, "whole number"),
        (settings.PATHS, "no", "on or off"),
    ],
)
def test_another_value_is_said(
    setting: Setting, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(setting.variable, value)
    with pytest.raises(ValueError, match=said):
        settings.check()


def test_without_paths_none_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(settings.PATHS.variable, "off")
    with pytest.raises(ValueError, match="opens no paths"):
        model_names.find_below("README.md")
