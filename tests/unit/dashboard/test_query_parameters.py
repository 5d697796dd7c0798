"""Parsing of integers in query parameters."""

from __future__ import annotations

import pytest

from leadline.dashboard.query import parse_integer


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("120", 120), ("1795203775749068598", 1795203775749068598)])
def test_large_integers_are_parsed_exactly(text: str, number: int) -> None:
    assert parse_integer(text) == number


@pytest.mark.parametrize("text", [None, "", "-1", "1.5", "1e3", "x", "9" * 19, "9" * 5000, "٣", "²", "0x1", " 1"])
def test_invalid_integers_are_ignored(text: str | None) -> None:
    assert parse_integer(text) is None
