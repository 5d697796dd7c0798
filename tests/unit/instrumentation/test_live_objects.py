"""The search for live objects finds all of them, and no other thread notices it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from leadline.instrumentation.live_objects import live_instances


class Animal:
    pass


class Cat(Animal):
    pass


class Impostor:
    @property
    def __class__(self) -> type:
        raise AssertionError("its class is not asked for")


def test_objects_of_a_class_and_of_its_subclasses_are_found() -> None:
    impostor, animal, cats = Impostor(), Animal(), [Cat() for _ in range(3)]
    found = live_instances(Animal)
    assert {id(one) for one in found} == {id(one) for one in (animal, *cats)}
    assert type(impostor) is Impostor
    assert live_instances(type("Unborn", (), {})) == []


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns as often as possible, also in functions that are audited."""
    sys.addaudithook(lambda event, arguments: None)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_a_metaclass_that_compares_classes_does_not_matter() -> None:
    class Equal(type):
        def __eq__(cls, other: object) -> bool:
            return True

    class Odd(metaclass=Equal):
        pass

    odd, cat = Odd(), Cat()
    assert live_instances(Animal) == [cat]
    assert type(odd) is Odd


@pytest.mark.usefixtures("restless")
def test_threads_that_build_tuples_do_not_fail() -> None:
    errors: list[SystemError] = []
    is_over = threading.Event()

    def build() -> None:
        while not is_over.is_set():
            try:
                tuple(number for number in range(200))
            except SystemError as error:
                errors.append(error)

    threads = [threading.Thread(target=build) for _ in range(2)]
    cat = Cat()
    for thread in threads:
        thread.start()
    for _ in range(10):
        assert live_instances(Animal) == [cat]
    is_over.set()
    for thread in threads:
        thread.join()
    assert errors == []
