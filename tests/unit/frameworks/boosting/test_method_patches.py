"""Patching and restoring methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from leadline.frameworks.boosting.patches import MethodPatches


def doubled(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, number: 2 * original(self, number)


class Parent:
    def inherited(self, number: int) -> int:
        return number


def owner() -> type:
    class Owner(Parent):
        def own(self, number: int) -> int:
            return number

    return Owner


def test_methods_are_patched_and_restored() -> None:
    kind = owner()
    before = dict(vars(kind))
    methods = MethodPatches(kind, {"own": doubled, "inherited": doubled})
    assert dict(vars(kind)) == before
    methods.apply()
    assert (kind().own(3), kind().inherited(4)) == (6, 8)
    assert kind.own.__name__ == "own"
    methods.restore()
    assert (kind().own(3), kind().inherited(4)) == (3, 4)
    assert dict(vars(kind)) == before


def test_a_method_that_other_code_has_patched_since_is_left() -> None:
    kind = owner()
    methods = MethodPatches(kind, {"own": doubled})
    methods.apply()
    other = lambda self, number: -number  # noqa: E731
    kind.own = other  # type: ignore[attr-defined]
    methods.restore()
    assert vars(kind)["own"] is other


def test_a_missing_method_raises_before_anything_is_patched() -> None:
    kind = owner()
    with pytest.raises(AttributeError, match="gone"):
        MethodPatches(kind, {"own": doubled, "gone": doubled})
    assert kind().own(3) == 3


def test_a_method_that_the_class_does_not_define_uses_its_default() -> None:
    kind = owner()
    methods = MethodPatches(kind, {"gone": doubled}, {"gone": lambda self, number: number + 1})
    methods.apply()
    assert kind().gone(3) == 8
    methods.restore()
    assert not hasattr(kind, "gone")
