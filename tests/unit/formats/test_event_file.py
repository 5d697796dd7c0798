"""Event files: tensors that are written are read again, and damaged records are refused."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from leadline.formats.event_file import DTYPES, message_of, read_file, record_of, scalar_record, version_record

TIME_NS = 1_795_000_000_123_456_789
VALUES = st.sampled_from(sorted(DTYPES.values())).flatmap(
    lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)


def record(values: np.ndarray, name: str = "w", step: int = 7) -> bytes:
    return record_of(name, values, step=step, time_ns=TIME_NS, mode=1, mode_step=3)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=20), VALUES, st.integers(0, 2**40)), max_size=4)
)
def test_what_is_written_is_read_again(written: list[tuple[str, np.ndarray, int]]) -> None:
    data = b"".join(record(values, name, step) for name, values, step in written)
    for found, (name, values, step) in zip(read_file(data), written, strict=True):
        assert (found.name, found.step, found.mode, found.mode_step) == (name, step, 1, 3)
        assert abs(found.time_ns - TIME_NS) < 1000
        assert found.values.dtype == values.dtype
        np.testing.assert_array_equal(found.values, values)


@settings(deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9), max_size=4))
def test_texts_are_read_again(texts: list[str]) -> None:
    (found,) = read_file(record(np.array(texts, np.str_)))
    assert found.values.tolist() == texts


@given(VALUES, st.integers(0, 400), st.integers(0, 255))
@settings(deadline=None, max_examples=300)
def test_another_byte_is_refused_or_changes_the_tensor_only(values: np.ndarray, at: int, byte: int) -> None:
    """smdebug's records have no checksum of their message: there, nothing else must be raised."""
    data = bytearray(record(values))
    data[at % len(data)] = byte
    with contextlib.suppress(ValueError):
        assert len(list(read_file(bytes(data)))) == 1


@settings(deadline=None)
@given(st.binary(max_size=100))
def test_any_bytes_are_refused_or_empty(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert list(read_file(data)) == []


@pytest.mark.parametrize("data", [version_record(TIME_NS), scalar_record("loss", 0.5, step=3, time_ns=TIME_NS)])
def test_no_byte_of_a_record_with_checksums_may_change(data: bytes) -> None:
    assert message_of(data) == data[12:-4]
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        with pytest.raises(ValueError, match="its record"):
            message_of(bytes(changed))
