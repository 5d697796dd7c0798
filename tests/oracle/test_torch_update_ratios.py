"""Update ratios of many weights against numpy: small ones in one pass, large and complex ones alone, samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_tensors import FLOATS, LAYOUTS, SPECIAL, as_numpy, make_tensor, with_layout

from leadline.frameworks.torch.capture.tensor_specs import TensorSpec
from leadline.frameworks.torch.capture.weights_before import WeightsBefore
from leadline.frameworks.torch.kernels.stacks import STACKED_ELEMENTS
from leadline.records.series import TensorInfo
from leadline.statistics import arrays

DEVICE_BYTES = 64 << 20
SHAPES = st.sampled_from([(), (1,), (0, 3), (4, 3), (3, 4), (2, 3, 4), (2, 3, 2, 2), (40, 40)])


def specs_of(weights: list[torch.Tensor]) -> list[TensorSpec]:
    return [
        TensorSpec(TensorInfo(str(index), ("weights",)), weight, (), (), is_raw=False, has_update_ratio=True)
        for index, weight in enumerate(weights)
    ]


def ratios(weights: list[torch.Tensor], updated: list[torch.Tensor], device_bytes: int = DEVICE_BYTES) -> np.ndarray:
    """Return the update ratios of weights that are changed in place."""
    before = WeightsBefore(specs_of(weights), device_bytes)
    with torch.no_grad():
        before.snapshot()
        for weight, value in zip(weights, updated, strict=True):
            weight.copy_(value)
        row = before.ratios()
    assert isinstance(row, bytes)
    return np.frombuffer(row)


def check(weights: list[torch.Tensor], updated: list[torch.Tensor], rtol: float) -> None:
    expected = [
        arrays.update_ratio(as_numpy(weight), as_numpy(value)) if weight.numel() else float("nan")
        for weight, value in zip(weights, updated, strict=True)
    ]
    np.testing.assert_allclose(ratios(weights, updated), expected, rtol=rtol)


@given(
    st.lists(st.tuples(SHAPES, st.sampled_from(FLOATS[:4]), SPECIAL, SPECIAL, st.integers(0, 99), LAYOUTS), max_size=12)
)
@settings(max_examples=80, deadline=None)
def test_weights_of_all_types_layouts_and_special_values(specs: list) -> None:
    weights, updated = [], []
    for shape, dtype, before, after, seed, layout in specs:
        layout = "contiguous" if layout == "expanded" else layout  # cannot be changed in place
        weights.append(with_layout(make_tensor(shape, dtype, before, seed), layout))
        updated.append(make_tensor(shape, dtype, after, seed + 1))
    if weights:
        check(weights, updated, 1e-9)


def test_large_and_complex_weights() -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = [(STACKED_ELEMENTS + 5,), (200, 100), (3, 4), (STACKED_ELEMENTS,)]
    weights = [torch.randn(shape, generator=generator) for shape in shapes]
    weights.append(torch.randn(5, dtype=torch.complex64, generator=generator))
    check(weights, [weight * 1.01 for weight in weights], 1e-4)


def test_the_smallest_update_of_a_half_precision_weight_is_exact() -> None:
    weight = torch.full((8,), 1.0, dtype=torch.bfloat16)
    updated = torch.nextafter(weight, torch.full_like(weight, 2.0))
    check([weight], [updated], 1e-12)


def test_without_memory_the_ratio_of_a_sample_is_returned() -> None:
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(3, 3, generator=generator), torch.randn(100, 300, generator=generator)]
    updated = [weights[0] * 1.5, weights[1] + 0.01]
    expected = [
        arrays.update_ratio(as_numpy(weight), as_numpy(value)) for weight, value in zip(weights, updated, strict=True)
    ]
    computed = ratios([weight.clone() for weight in weights], updated, device_bytes=0)
    assert computed[0] == pytest.approx(expected[0])
    assert computed[1] == pytest.approx(expected[1], rel=0.1)


def test_weights_of_another_shape_are_copied_anew() -> None:
    weights = [torch.ones(2, 2), torch.ones(3)]
    before = WeightsBefore(specs_of(weights), DEVICE_BYTES)
    with torch.no_grad():
        before.snapshot()
        weights[0].data = torch.ones(4)
        before.snapshot()
        weights[0].mul_(1.5)
        row = before.ratios()
    assert isinstance(row, bytes)
    np.testing.assert_allclose(np.frombuffer(row), [0.5, 0.0])


def test_copies_of_small_weights_are_freed_after_the_update() -> None:
    weights = [torch.ones(2, 2), torch.ones(3)]
    before = WeightsBefore(specs_of(weights), DEVICE_BYTES)
    with torch.no_grad():
        before.snapshot()
        before.ratios()
    assert before._stacks == []
