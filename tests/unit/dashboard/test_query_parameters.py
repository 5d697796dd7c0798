"""A number in an address is one, or was not asked for."""

from __future__ import annotations

import pytest

from leadline.dashboard.query_parameters import whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("120", 120), ("1795203775749068598", 1795203775749068598)])
def test_a_number_is_read_to_its_last_digit(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", [None, "", "-1", "1.5", "1e3", "x", "9" * 19, "9" * 5000, "٣", "²", "0x1", " 1"])
def test_anything_else_was_not_asked(text: str | None) -> None:
    assert whole_number(text) is None
