"""Replacing functions and methods, and putting the originals back."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from leadline.frameworks.patches import Patches


def doubled(original: Callable[..., Any]) -> Callable[..., Any]:
    def double(*args: Any, **kwargs: Any) -> Any:
        return 2 * original(*args, **kwargs)

    return double


class Parent:
    __slots__ = ("factor",)

    def __init__(self, factor: int = 1) -> None:
        self.factor = factor

    def inherited(self, number: int) -> int:
        """Its own words."""
        return self.factor * number

    @classmethod
    def of_class(cls, number: int) -> tuple[str, int]:
        return cls.__name__, number

    @staticmethod
    def static(number: int) -> int:
        return number


def child() -> Any:
    class Child(Parent):
        __slots__ = ()

        def own(self, number: int, *, more: int = 0) -> int:
            return number + more

    return Child


def test_methods_are_replaced_and_restored() -> None:
    kind, patches = child(), Patches()
    before, signature = dict(vars(kind)), inspect.signature(kind.own)
    patches.replace(kind, "own", doubled)
    assert kind().own(3, more=1) == 8
    assert (kind.own.__name__, kind.own.__qualname__) == ("own", before["own"].__qualname__)
    assert inspect.signature(kind.own) == signature
    patches.restore()
    assert dict(vars(kind)) == before
    patches.restore()
    assert dict(vars(kind)) == before


def test_an_inherited_method_is_replaced_in_the_subclass_only() -> None:
    kind, patches = child(), Patches()
    before = dict(vars(kind))
    patches.replace(kind, "inherited", doubled)
    assert (kind(5).inherited(3), Parent(5).inherited(3)) == (30, 15)
    assert kind.inherited.__doc__ == "Its own words."
    patches.restore()
    assert dict(vars(kind)) == before


@pytest.mark.parametrize("is_child", [False, True])
def test_class_methods_and_static_methods_remain_such(is_child: bool) -> None:
    kind, patches = child() if is_child else Parent, Patches()
    before = dict(vars(kind))
    patches.replace(kind, "of_class", doubled)
    patches.replace(kind, "static", doubled)
    name = kind.__name__
    assert kind.of_class(1) == kind().of_class(1) == (name, 1, name, 1)
    assert kind.static(2) == kind().static(2) == 4
    patches.restore()
    assert dict(vars(kind)) == before
    assert (kind.of_class(1), kind.static(2)) == ((name, 1), 2)


def test_functions_of_a_module_are_replaced_under_all_their_names_by_one() -> None:
    def original(number: int) -> int:
        return number

    one, other, patches = ModuleType("one"), ModuleType("other"), Patches()
    one.function = other.function = original  # type: ignore[attr-defined]
    for module in (one, other):
        patches.replace(module, "function", doubled)
    assert one.function is other.function
    assert one.function(3) == 6
    patches.restore()
    assert one.function is other.function is original


def test_a_replacement_over_which_other_code_has_patched_stays_and_works() -> None:
    kind, patches = child(), Patches()
    patches.replace(kind, "own", doubled)
    ours = kind.own

    def theirs(self: Any, number: int) -> int:
        return int(-ours(self, number))

    kind.own = theirs
    patches.restore()
    assert vars(kind)["own"] is theirs
    assert kind().own(3) == -6


def test_a_wrapper_of_other_code_that_copies_our_attributes_is_not_ours() -> None:
    """``functools.wraps`` copies the attributes of a function, so that no attribute can be our mark."""
    import functools

    kind, patches = child(), Patches()
    patches.replace(kind, "own", doubled)
    theirs = kind.own = functools.wraps(kind.own)(lambda self, number: -number)
    patches.restore()
    assert vars(kind)["own"] is theirs


def test_a_method_replaced_twice_is_restored_to_the_first() -> None:
    kind, first, second = child(), Patches(), Patches()
    before = dict(vars(kind))
    for patches in (first, first, second):
        patches.replace(kind, "own", doubled)
    assert kind().own(1) == 8
    second.restore()
    assert kind().own(1) == 4
    first.restore()
    assert dict(vars(kind)) == before
    first.replace(kind, "own", doubled)
    assert kind().own(1) == 2
    first.restore()
    assert dict(vars(kind)) == before


def test_a_missing_method_is_an_error_unless_it_is_optional_or_has_a_default() -> None:
    kind, patches = child(), Patches()
    before = dict(vars(kind))
    with pytest.raises(AttributeError, match="'gone'"):
        patches.replace(kind, "gone", doubled)
    patches.replace(kind, "gone", doubled, is_optional=True)
    assert dict(vars(kind)) == before
    patches.replace(kind, "gone", doubled, default=lambda self, number: number + 1)
    assert kind().gone(3) == 8
    patches.restore()
    assert dict(vars(kind)) == before
