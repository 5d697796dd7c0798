"""Raw tensors in files are those that the library safetensors reads and writes, for every type."""

from __future__ import annotations

import contextlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.numpy import load_file
from safetensors.torch import save_file

from leadline.formats.safetensors import NAMES, STANDARD_NAMES, TYPES
from leadline.reader.tensors import read_header
from leadline.store import layout
from leadline.store.tensors import write_tensors

KEY = layout.tensor_key("train", 3, "w")
IN_NUMPY = sorted(dtype for dtype in STANDARD_NAMES if not dtype.startswith(("bfloat", "float8")))
VALUES = st.sampled_from(IN_NUMPY).flatmap(
    lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
in_one_folder = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@in_one_folder
@given(values=VALUES)
def test_the_library_and_our_reader_read_what_is_written(tmp_path: Path, values: np.ndarray) -> None:
    path = str(tmp_path / "1.safetensors")
    write_tensors(path, {KEY: (NAMES[values.dtype.name], values.shape, values.tobytes())}, {})
    (tensor,) = read_header(path, "rank0-1")
    for found in (load_file(path)[KEY], tensor.load()):
        assert (found.dtype, found.shape) == (values.dtype, values.shape)
        assert found.tobytes() == values.tobytes()


@pytest.mark.parametrize("dtype", [name for name in STANDARD_NAMES if hasattr(torch, name)])
def test_every_type_that_pytorch_writes_is_read_with_its_values(tmp_path: Path, dtype: str) -> None:
    bits = torch.arange(256, dtype=torch.uint8).repeat(8)
    tensor = (bits % 2 == 1) if dtype == "bool" else bits.view(getattr(torch, dtype))
    path = str(tmp_path / "1.safetensors")
    save_file({KEY: tensor}, path)
    (stored,) = read_header(path, "rank0-1")
    assert stored.dtype == NAMES[dtype]
    is_widened = TYPES[stored.dtype].widen is not None
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(stored.load(), (tensor.float() if is_widened else tensor).numpy())


def test_a_type_that_the_library_refuses_is_marked(tmp_path: Path) -> None:
    path = str(tmp_path / "1.safetensors")
    values = np.ones(2, np.complex128)
    write_tensors(path, {KEY: (NAMES["complex128"], values.shape, values.tobytes())}, {})
    assert read_header(path, "rank0-1")[0].load().tolist() == [1, 1]
    with pytest.raises(Exception, match="unknown variant `C128`"):
        load_file(path)
    assert NAMES.keys() - STANDARD_NAMES.keys() == {"complex128"}


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)
ENTRIES = st.fixed_dictionaries(
    {
        "dtype": st.one_of(st.sampled_from(sorted(TYPES)), JSON),
        "shape": st.one_of(st.lists(st.integers(-1, 4), max_size=2), JSON),
        "data_offsets": st.one_of(st.lists(st.integers(-1, 40), min_size=2, max_size=2), JSON),
    }
)


@in_one_folder
@given(header=st.dictionaries(st.sampled_from([KEY, "__metadata__", "x"]), st.one_of(ENTRIES, JSON), max_size=2))
def test_a_damaged_header_is_refused_or_its_tensors_are_read(tmp_path: Path, header: dict) -> None:
    text = json.dumps(header).encode()
    path = tmp_path / "1.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(32))
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        for tensor in read_header(str(path), "rank0-1"):
            if tensor.is_readable:
                assert tensor.load().shape == tensor.shape
