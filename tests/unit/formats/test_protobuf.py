"""Protobuf messages: what is written is read again, and damaged ones are refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.formats.protobuf import (
    bytes_field,
    content,
    double,
    double_field,
    fields,
    float_field,
    integer_field,
    packed_integers,
    signed,
)
from leadline.profiles.xla_profile import parse_space

NUMBERS = st.integers(1, 2**29 - 1)
FIELDS = st.lists(
    st.tuples(
        NUMBERS,
        st.one_of(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=300), st.floats(allow_nan=False)),
    ),
    max_size=8,
)


def encoded(number: int, value: int | bytes | float) -> bytes:
    if isinstance(value, int):
        return integer_field(number, value)
    return bytes_field(number, value) if isinstance(value, bytes) else double_field(number, value)


@settings(deadline=None)
@given(FIELDS)
def test_what_is_written_is_read_again(written: list[tuple[int, int | bytes | float]]) -> None:
    message = b"".join(encoded(number, value) for number, value in written)
    readers = {int: signed, bytes: content, float: double}
    found = list(fields(message))
    assert [number for number, _ in found] == [number for number, _ in written]
    values = [readers[type(value)](field) for (_, field), (_, value) in zip(found, written, strict=True)]
    assert values == [value for _, value in written]


@settings(deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.integers(0, 100))
def test_packed_integers_are_read_up_to_a_damage(written: list[int], size: int) -> None:
    packed = b"".join(integer_field(1, number)[1:] for number in written)
    assert list(packed_integers(packed)) == written
    found = []
    with contextlib.suppress(ValueError):
        found.extend(packed_integers(packed[:size]))
    assert found == written[: len(found)]


@settings(deadline=None)
@given(FIELDS, st.integers(0, 5000))
def test_a_truncated_message_has_the_fields_before_its_end(written: list, size: int) -> None:
    message = b"".join(encoded(number, value) for number, value in written)
    found = []
    with contextlib.suppress(ValueError):
        found.extend(fields(message[:size]))
    assert found == list(fields(message))[: len(found)]


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        for _, value in fields(data):
            for read in (signed, content, double):
                with contextlib.suppress(ValueError):
                    read(value)
    with contextlib.suppress(ValueError):
        parse_space(data)


@pytest.mark.parametrize("data", [b"\x0b", b"\x0a\x05abc", b"\x08" + b"\xff" * 11, b"\x09abc", b"\x08"])
def test_damage_is_named(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"its message is damaged at byte \d"):
        list(fields(data))


def test_a_length_is_not_read_where_a_text_is_expected() -> None:
    """A number would be taken for the size of the text, with as many bytes of memory."""
    with pytest.raises(ValueError, match="not a whole XSpace: a part of its message has another type"):
        parse_space(bytes_field(1, integer_field(2, 1 << 50)))


def test_a_float_takes_four_bytes() -> None:
    ((number, value),) = fields(float_field(2, b"\x00\x00\x80\x3f"))
    assert (number, content(value)) == (2, b"\x00\x00\x80\x3f")
