"""Callbacks that watch a metric the wrong way round."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from leadline.frameworks.kit.watched_metrics import checks_of, of_callbacks


class EarlyStopping(SimpleNamespace):
    """A callback of Keras or Lightning."""


@pytest.mark.parametrize(
    ("metric", "mode", "check"),
    [
        ("val_loss", "max", "watched_upwards"),
        ("val_accuracy", "min", "watched_downwards"),
        ("val/f1", "min", "watched_downwards"),
        ("val_loss", "min", None),
        ("val_loss", "auto", None),
        ("val_accuracy", "max", None),
        ("throughput_of_parts", "max", None),
    ],
)
def test_a_direction_that_the_name_contradicts_is_found(metric: str, mode: str, check: str | None) -> None:
    found = checks_of(of_callbacks([EarlyStopping(monitor=metric, mode=mode), object()]))
    assert found == ({f"EarlyStopping/{metric}/{check}": 1.0} if check else {})


@pytest.mark.parametrize("callbacks", [None, (), object(), [SimpleNamespace(monitor=None, mode=3)]])
def test_nothing_is_expected_of_callbacks(callbacks: object) -> None:
    assert list(of_callbacks(callbacks)) == []
