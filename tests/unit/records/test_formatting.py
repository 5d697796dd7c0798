"""Numbers as people say them."""

from __future__ import annotations

import math

import pytest

from leadline.records.formatting import (
    counted,
    duration,
    first_words,
    latency,
    listed,
    model,
    moment,
    number,
    printable,
    share,
    short_path,
    signal_name,
    significant,
    size,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.0004, "400 µs"),
        (0.6159, "616 ms"),
        (0.9996, "1.0 s"),
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
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0"),
        (0.123456, "0.123"),
        (-57.06, "-57.1"),
        (99.96, "100"),
        (3.0, "3"),
        (12345.6, "12,346"),
        (19_283_746.0, "1.93e7"),
        (1e-9, "1e-9"),
        (0.0000471, "4.71e-5"),
        (math.nan, "NaN"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
    ],
)
def test_numbers_have_three_significant_digits(value: float | None, text: str) -> None:
    assert significant(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.0, "0 s"),
        (3e-8, "30 ns"),
        (26.11e-6, "26.1 µs"),
        (0.2588, "259 ms"),
        (0.9997, "1 s"),
        (1.0479, "1.05 s"),
        (-0.002, "-2 ms"),
        (61.2, "1 m 1 s"),
    ],
)
def test_times_of_a_training_have_si_units(seconds: float | None, text: str) -> None:
    assert latency(seconds) == text


def test_a_moment_is_in_utc() -> None:
    assert moment(1_795_460_400_000_000_000) == "2026-11-23 19:00:00 UTC"
    assert moment(None) == "–"


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
    assert model("Net", 4, 1000, 1000) == "Net (4 parameter tensors)"
    assert model("Net", 4, 1_000_000, 8_000) == "Net (4 parameter tensors; 0.8 % of 1,000,000 elements trainable)"
    assert model("Net", 4, 1_000_000, 999_999) == "Net (4 parameter tensors; 999,999 of 1,000,000 elements trainable)"


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


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("a ten-thousandth of it", 22, "a ten-thousandth of it"),
        ("a ten-thousandth of it", 19, "a ten-thousandth of"),
        ("a ten-thousandth of it", 18, "a ten-thousandth"),
        ("thousandth", 4, "thou"),
        ("   thousandth", 5, "   th"),
    ],
)
def test_a_text_is_cut_between_words(text: str, most: int, shown: str) -> None:
    assert first_words(text, most) == shown
