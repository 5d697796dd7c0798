"""Numbers as people say them."""

from __future__ import annotations

import pytest

from leadline.records.formatting import (
    counted,
    duration,
    listed,
    model,
    number,
    printable,
    share,
    short_path,
    signal_name,
    size,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 m 0 s"),
        (372, "6 m 12 s"),
        (3599.6, "1 h 0 m"),
        (11100, "3 h 5 m"),
        (187200, "2 d 4 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (41_000_000, "41 MB"),
        (999_600, "1.0 MB"),
        (1_240_000_000, "1.2 GB"),
        (5_000_000_000_000_000, "5000 TB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("ratio", "text"), [(0, "0.0 %"), (0.0002, "under 0.1 %"), (0.007, "0.7 %"), (0.0996, "10 %"), (1, "100 %")]
)
def test_shares(ratio: float, text: str) -> None:
    assert share(ratio) == text


def test_singular_and_plural() -> None:
    assert counted(1, "step") == "1 step"
    assert counted(3750, "step") == "3,750 steps"
    assert counted(0, "process", "processes") == "0 processes"
    assert number(1234567) == "1,234,567"


def test_lists() -> None:
    assert [listed(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]


def test_paths_inside_the_folder_are_relative() -> None:
    assert short_path("/a/b/runs/x", "/a/b") == "./runs/x"
    assert short_path("/c/x", "/a/b") == "/c/x"


def test_signals_without_a_name() -> None:
    assert signal_name(9) == "SIGKILL"
    assert signal_name(40) == "signal 40"


def test_a_model_is_shown_with_its_parameter_tensors_if_it_has_any() -> None:
    texts = [model("Net", 62), model("Net", 1), model("Booster", 0)]
    assert texts == ["Net (62 parameter tensors)", "Net (1 parameter tensor)", "Booster"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain café", "plain café"),
        ("\x1b[31mred\x07", "?[31mred?"),
        ("a\nb\x9b\ud800", "a?b??"),
        ("\u202eleft", "?left"),
    ],
)
def test_control_characters_are_not_printed(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable("line\n\x1b", keep="\n") == "line\n?"
