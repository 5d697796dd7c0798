"""Parsing of ``--profile``, and its errors."""

from __future__ import annotations

import pytest

from leadline.config.profile_windows import DEFAULT, parse_windows
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.records.profile_window import ProfileWindow


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("detailed", ProfileWindow("detailed", id="detailed")),
        ("detailed:at=120,for=2", ProfileWindow("detailed", step=120, steps=2, id="detailed-120")),
        ("detailed:memory=true", ProfileWindow("detailed", with_memory=True, id="detailed")),
        ("python", ProfileWindow("cprofile", id="cprofile-total")),
        (
            "cprofile:timer=cpu,at=90s,for=10s",
            ProfileWindow("cprofile", "cpu", after_seconds=90, seconds=10, id="cprofile-cpu"),
        ),
        ("pyinstrument:at=1.5min", ProfileWindow("pyinstrument", after_seconds=90, id="pyinstrument")),
        ("dataloader:for=1 min", ProfileWindow("dataloader", seconds=60, id="dataloader")),
        ("cprofile:at=start", ProfileWindow("cprofile", part="start", id="cprofile-total-start")),
        ("detailed:at=start", ProfileWindow("detailed", part="start", id="detailed-start")),
        ("detailed:at=1970-01-01T00:00:02+00:00", ProfileWindow("detailed", time_ns=2_000_000_000, id="detailed")),
    ],
)
def test_one_window(text: str, window: ProfileWindow) -> None:
    assert parse_windows([text]) == (window,)


def test_the_default_is_debuggers() -> None:
    windows = parse_windows(["default"])
    assert [(window.kind, window.step, window.steps) for window in windows] == [
        ("detailed", 5, 1),
        ("dataloader", 7, 1),
        ("cprofile", 9, 1),
        ("cprofile", 10, 1),
        ("cprofile", 11, 1),
    ]
    assert [window.timer for window in windows[2:]] == ["total", "cpu", "off_cpu"]
    assert len({window.id for window in windows}) == len(DEFAULT)


def test_window_ids_are_unique() -> None:
    assert [window.id for window in parse_windows(["detailed:at=5", "detailed:at=5,for=2"])] == [
        "detailed-5",
        "detailed-5-2",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("detaild", "did you mean 'detailed'?"),
        ("detailed:step=5", "no key of --profile detailed named 'step'"),
        ("detailed:timer=cpu", "timer is valid for cprofile only"),
        ("cprofile:timer=wall", "no timer named 'wall'"),
        ("cprofile:memory=true", "memory must be true or false, and needs a detailed window"),
        ("detailed:at=soon", "is not a step \\(120\\)"),
        ("detailed:for=0", "a window lasts 1 to 100 steps"),
        ("detailed:for=101", "a window lasts 1 to 100 steps"),
        ("detailed:for=3h", "a window lasts 1 to 100 steps"),
        ("detailed:at=end", "is valid for cprofile and pyinstrument only"),
        ("dataloader:at=start", "is valid for detailed, cprofile and pyinstrument only"),
        ("cprofile:at=end,for=2", "cannot be combined with for"),
        ("default:at=5", "default takes no keys"),
    ],
)
def test_invalid_options(text: str, message: str) -> None:
    with pytest.raises((ConfigurationError, UnknownNameError), match=message):
        parse_windows([text])


def test_descriptions() -> None:
    descriptions = [
        window.describe() for window in parse_windows(["cprofile:timer=cpu,at=9,for=2", "detailed", "python:at=start"])
    ]
    assert descriptions == [
        "cprofile (cpu) from step 9, 2 steps",
        "detailed from the next step, 1 step",
        "cprofile (total) at process start",
    ]
