"""Parameters: strict parsing of values from a command line or a file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from leadline.config.parameters import describe, display_name, parameter_types, read_parameters
from leadline.errors import ConfigurationError, UnknownNameError


class ManyKinds(msgspec.Struct, frozen=True):
    whole: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1
    number: Annotated[float, msgspec.Meta(gt=0)] | None = None
    flag: bool = False
    names: tuple[str, ...] | None = None
    numbers: tuple[float, ...] = ()
    word: Literal["a", "b"] = "a"
    text: str = ""


@pytest.mark.parametrize(
    ("name", "given", "read"),
    [
        ("whole", "7", 7),
        ("whole", 7, 7),
        ("number", "1e-3", 0.001),
        ("number", 2, 2.0),
        ("number", "none", None),
        ("flag", "TRUE", True),
        ("flag", False, False),
        ("names", "a, b", ("a", "b")),
        ("names", ["a"], ("a",)),
        ("numbers", "1,2.5", (1.0, 2.5)),
        ("word", "b", "b"),
        ("text", "3", "3"),
        ("number", " 3 ", 3.0),
        ("names", '["a,b", "c"]', ("a,b", "c")),
        ("names", "[a]", ("[a]",)),
        ("names", [], ()),
        ("names", "none", None),
    ],
)
def test_valid_values_are_read(name: str, given: Any, read: Any) -> None:
    value = read_parameters(ManyKinds, {name: given})[name]
    assert value == read
    assert type(value) is type(read)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("whole", "7.5", "many_kinds: whole must be an integer >= 1 and <= 9, not '7.5'"),
        ("whole", "10", "not '10'"),
        ("whole", "seven", "not 'seven'"),
        ("whole", True, "not True"),
        ("whole", 7.5, "not 7.5"),
        ("number", "0", "must be none or a number > 0"),
        ("number", "nan", "not 'nan'"),
        ("number", "1_0", "not '1_0'"),
        ("flag", "yes", "must be true or false"),
        ("flag", 1, "not 1"),
        ("names", "a,,b", "must be none or a list"),
        ("names", 3, "not 3"),
        ("numbers", "1,x", "not '1,x'"),
        ("word", "c", "must be one of 'a', 'b'"),
        ("text", 3, "must be a string"),
    ],
)
def test_invalid_values_are_rejected_in_one_line(name: str, given: Any, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_parameters(ManyKinds, {name: given})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="no parameter of many_kinds named 'wohle'; did you mean 'whole'"):
        read_parameters(ManyKinds, {"wohle": 1})


def test_every_kind_is_described() -> None:
    assert all(describe(kind) for kind in parameter_types(ManyKinds).values())
    assert display_name(type("CPUBottleneck", (), {})) == "cpu_bottleneck"
