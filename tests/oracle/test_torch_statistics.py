"""The device form of every statistic against its numpy form, over types, shapes, layouts, NaN and infinity."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.frameworks.torch.elements import CHUNK_ELEMENTS
from leadline.frameworks.torch.statistics import device_statistics
from leadline.statistics import arrays
from leadline.statistics.definitions import BASIC

NAMES = frozenset(BASIC) | {"variance", "rms"}
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
OTHERS = (torch.int64, torch.int8, torch.uint8, torch.bool, torch.complex64)


def as_numpy(tensor: torch.Tensor) -> np.ndarray:
    dense = tensor.to_dense() if tensor.layout is torch.sparse_coo else tensor
    return (dense.float() if dense.dtype in FLOATS[2:] else dense).numpy()


def check(tensors: list[torch.Tensor]) -> None:
    with torch.no_grad():
        computed = device_statistics(tensors, NAMES)
    for index, tensor in enumerate(tensors):
        array = as_numpy(tensor)
        scale = float(np.abs(array.astype(np.complex128)).sum()) if array.size else 0.0
        for name in NAMES:
            expected = arrays.compute(name, array)
            # a sum of both signs is known only up to the size of what was summed
            room = 1e-6 * scale if name in ("sum",) else 1e-6 * scale / max(array.size, 1) if name == "mean" else 0.0
            np.testing.assert_allclose(
                computed[name][index],
                expected,
                rtol=3e-5,
                atol=room if np.isfinite(room) else 0.0,
                err_msg=f"{name} of {tensor.dtype} {tuple(tensor.shape)}",
            )


SHAPES = st.lists(st.integers(0, 7), max_size=4).map(tuple)
SPECIAL = st.sampled_from(["none", "nan", "inf", "both infinities", "all nan", "zeros", "constant", "tiny", "huge"])


def make(shape: tuple[int, ...], dtype: torch.dtype, special: str, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(shape, generator=generator, dtype=torch.float64)
    flat = values.view(-1)
    if special == "zeros":
        flat.zero_()
    elif special == "constant":
        flat.fill_(1.5)
    elif special == "tiny":
        flat.mul_(1e-25)
    elif special == "huge":
        flat.mul_(1e25)
    elif special == "all nan":
        flat.fill_(float("nan"))
    elif special == "nan" and flat.numel():
        flat[seed % flat.numel()] = float("nan")
    elif special == "inf" and flat.numel():
        flat[seed % flat.numel()] = float("inf")
    elif special == "both infinities" and flat.numel():
        flat[0], flat[-1] = float("inf"), float("-inf")
    return values.to(dtype)


@given(st.lists(st.tuples(SHAPES, st.sampled_from(FLOATS), SPECIAL, st.integers(0, 99)), min_size=1, max_size=6))
@settings(max_examples=150, deadline=None)
def test_floats_of_every_shape_and_kind_of_value(wishes: list) -> None:
    check([make(*wish) for wish in wishes])


@given(SHAPES, st.sampled_from(OTHERS), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_whole_numbers_booleans_and_complex(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> None:
    check([(make(shape, torch.float64, "none", seed) * 3).to(dtype)])


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch warns that sparse checks are off
@pytest.mark.parametrize("values", [[1.0, -2.0], [1.0, 5.0], [], [float("nan"), 1.0], [-1.0, -1.0]])
def test_sparse_tensors_have_their_implicit_zeros(values: list[float]) -> None:
    indices = torch.arange(len(values))[None] * 2
    check([torch.sparse_coo_tensor(indices, torch.tensor(values), (9,))])


@pytest.mark.parametrize(
    "layout",
    [
        lambda x: x.t(),
        lambda x: x[::2],
        lambda x: x[:, 1:5],
        lambda x: x.view(4, 4, 4, -1).to(memory_format=torch.channels_last),
        lambda x: x[None].expand(3, -1, -1),
        lambda x: x[0, 0],
    ],
)
def test_layouts(layout) -> None:
    check([layout(torch.randn(16, 16, generator=torch.Generator().manual_seed(1)))])


def test_large_tensors_are_put_together_from_chunks() -> None:
    generator = torch.Generator().manual_seed(2)
    whole = torch.randn(2 * CHUNK_ELEMENTS + 17, generator=generator) * 3 + 100
    broken = whole.clone()
    broken[CHUNK_ELEMENTS + 5] = float("nan")
    drifting = torch.linspace(-1, 1, 3 * CHUNK_ELEMENTS)
    check([whole, broken, drifting, torch.randn(5, generator=generator)])


def test_variance_of_a_nearly_constant_tensor_is_not_lost() -> None:
    values = 1 + 1e-3 * torch.randn(100_000, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        computed = device_statistics([values], frozenset({"std"}))["std"][0]
    assert computed == pytest.approx(arrays.compute("std", values.numpy()), rel=1e-3)


def test_half_types_neither_overflow_nor_round() -> None:
    values = torch.ones(100_000, dtype=torch.float16)
    with torch.no_grad():
        computed = device_statistics([values], frozenset({"sum", "l1", "l2", "nonfinite_count"}))
    assert computed["sum"][0] == 100_000
    assert computed["l1"][0] == 100_000
    assert computed["nonfinite_count"][0] == 0


def test_the_random_state_and_the_tensors_stay_as_they_were() -> None:
    tensors = [torch.randn(100), torch.randn(CHUNK_ELEMENTS + 1)]
    before, state = [each.clone() for each in tensors], torch.get_rng_state()
    with torch.no_grad():
        device_statistics(tensors, NAMES)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(one, other) for one, other in zip(before, tensors, strict=True))
