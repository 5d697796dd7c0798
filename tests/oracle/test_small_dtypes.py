"""8-bit float types and bfloat16 as read from a run, against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import leadline
from leadline.testing.runs import Capture, RawTensors, RunWriter


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("F8_E4M3", torch.float8_e4m3fn), ("F8_E5M2", torch.float8_e5m2), ("BF16", torch.bfloat16)],
)
def test_all_values_of_the_dtype(tmp_path, name: str, dtype: torch.dtype) -> None:
    bits = torch.arange(256 if dtype.itemsize == 1 else 65536)
    bits = bits.to(torch.uint8) if dtype.itemsize == 1 else bits.to(torch.uint16)
    writer = RunWriter(tmp_path / "run")
    stored = {"x": (name, (2, len(bits) // 2), bits.numpy().tobytes())}
    writer.write_all([RawTensors(0, stored), Capture(1)]).end()
    tensor = leadline.open_run(writer.path).tensor("x")
    expected = bits.view(dtype).view(2, -1).float().numpy()
    values = tensor.value(0)
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, expected)
    assert tensor.statistic("nan_count", 0) == np.isnan(expected).sum()
