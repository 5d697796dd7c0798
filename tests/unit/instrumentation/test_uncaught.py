"""The exception that ends a process, as its worker document has it."""

from __future__ import annotations

import sys

import pytest

from leadline.instrumentation.uncaught import uncaught_exception


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("bad\n  shape"), "ValueError: bad shape"),
        (KeyError("lr"), "KeyError: 'lr'"),
        (ValueError("Authorization: Bearer abcd1234 refused"), "ValueError: Authorization: Bearer **** refused"),
        (ValueError("x" * 180 + " --password hunter22"), "ValueError: " + "x" * 180 + " --pas …"),
        (ValueError(), "ValueError"),
        (None, ""),
    ],
)
def test_it_is_one_line(monkeypatch: pytest.MonkeyPatch, error: BaseException | None, expected: str) -> None:
    monkeypatch.setattr(sys, "last_value", error, raising=False)
    assert uncaught_exception() == expected


def test_a_long_one_is_cut_and_one_without_text_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "last_value", ValueError("x" * 10_000), raising=False)
    assert len(uncaught_exception()) == 200
    monkeypatch.setattr(sys, "last_value", Unprintable(), raising=False)
    assert "Unprintable" in uncaught_exception()
