"""Methods with ours in their place, and back."""

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


def test_ours_take_their_place_and_give_it_back() -> None:
    kind = owner()
    before = dict(vars(kind))
    methods = MethodPatches(kind, {"own": doubled, "inherited": doubled})
    assert dict(vars(kind)) == before
    methods.replace()
    assert (kind().own(3), kind().inherited(4)) == (6, 8)
    assert kind.own.__name__ == "own"
    methods.put_back()
    assert (kind().own(3), kind().inherited(4)) == (3, 4)
    assert dict(vars(kind)) == before


def test_what_somebody_else_has_replaced_since_is_left() -> None:
    kind = owner()
    methods = MethodPatches(kind, {"own": doubled})
    methods.replace()
    theirs = lambda self, number: -number  # noqa: E731
    kind.own = theirs  # type: ignore[attr-defined]
    methods.put_back()
    assert vars(kind)["own"] is theirs


def test_a_method_that_is_not_there_is_told_before_anything_is_replaced() -> None:
    kind = owner()
    with pytest.raises(AttributeError, match="gone"):
        MethodPatches(kind, {"own": doubled, "gone": doubled})
    assert kind().own(3) == 3


def test_what_instances_find_elsewhere_has_a_stand_in() -> None:
    kind = owner()
    methods = MethodPatches(kind, {"gone": doubled}, {"gone": lambda self, number: number + 1})
    methods.replace()
    assert kind().gone(3) == 8
    methods.put_back()
    assert not hasattr(kind, "gone")
