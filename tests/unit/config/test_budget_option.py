"""Parsing of the overhead budget."""

from __future__ import annotations

import pytest

from leadline.config.run_config import parse_budget
from leadline.config.toml_file import from_table
from leadline.errors import ConfigurationError


@pytest.mark.parametrize(("text", "share"), [("2%", 0.02), ("0.5%", 0.005), ("100%", 1.0), ("1e-1%", 0.001)])
def test_shares(text: str, share: float) -> None:
    assert parse_budget(text, "--budget") == pytest.approx(share)


def test_off() -> None:
    assert parse_budget("off", "--budget") is None


@pytest.mark.parametrize("text", ["", "2", "%", "0%", "-1%", "101%", "nan%", "two", "2%%", "2 percent", "OFF"])
def test_invalid_budgets_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"--budget must be a percentage of the step time like 2%, or off"):
        parse_budget(text, "--budget")


def test_a_number_without_percent_sign_gets_a_hint() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 2%"):
        parse_budget("2", "--budget")


def test_the_configuration_file() -> None:
    assert from_table({"budget": "off"}, "leadline.toml").budget == "off"
    with pytest.raises(ConfigurationError, match=r"leadline.toml: budget must be a percentage"):
        from_table({"budget": "much"}, "leadline.toml")
