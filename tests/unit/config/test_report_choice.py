"""Which runs get a report at their end."""

from __future__ import annotations

import pytest

from leadline.config.report_choice import wants_report
from leadline.config.run_config import RunConfig
from leadline.config.toml_file import from_table


@pytest.mark.parametrize(
    ("choice", "variable", "seconds", "has_steps", "wanted"),
    [
        (None, None, 60.0, True, True),
        (None, None, 59.9, True, False),
        (None, None, 600.0, False, False),
        (True, None, 0.1, False, True),
        (False, None, 600.0, True, False),
        (None, "0", 600.0, True, False),
        (None, "OFF", 600.0, True, False),
        (None, "1", 0.1, False, True),
        (True, "0", 0.1, False, True),
        (False, "1", 600.0, True, False),
        (None, "", 60.0, True, True),
    ],
)
def test_options_come_before_the_variable_and_both_before_the_length(
    choice: bool | None, variable: str | None, seconds: float, has_steps: bool, wanted: bool
) -> None:
    environment = {} if variable is None else {"LEADLINE_REPORT": variable}
    assert wants_report(choice, environment, seconds, has_steps=has_steps) is wanted


@pytest.mark.parametrize(("choice", "options"), [(None, []), (True, ["--report"]), (False, ["--no-report"])])
def test_the_choice_is_a_key_of_the_file_and_an_option(choice: bool | None, options: list[str]) -> None:
    config = from_table({} if choice is None else {"report": choice}, "leadline.toml")
    assert (config.report, config.to_options()) == (choice, options)
    assert from_table(config.to_table(), "leadline.toml").report is choice
    assert config.overridden_by(RunConfig(report=False)).report is False
    assert RunConfig(report=False).overridden_by(config).report is (False if choice is None else choice)
