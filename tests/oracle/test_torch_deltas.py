"""Changes since the previous capture, on a device against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_tensors import FLOATS, LAYOUTS, OTHERS, SHAPES, SPECIAL, as_numpy, make_tensor, with_layout

from leadline.frameworks.torch.kernels.deltas import Deltas
from leadline.frameworks.torch.kernels.order_statistics import PreviousValues, begin
from leadline.statistics import arrays
from leadline.statistics.definitions import SAMPLE_ELEMENTS

NAMES = ("change_l2", "close_1e-05_1e-08", "close_0.1_0.5", "close_0_0", "close_1e-05_1e-08_nan", "close_2_10")
DEVICE_BYTES = 1 << 20


class Warnings(list):
    def deltas(self, device_bytes: int = DEVICE_BYTES) -> Deltas:
        return Deltas(device_bytes, self.append)


def compare(deltas: Deltas, named: dict[str, torch.Tensor], names: tuple[str, ...] = NAMES) -> dict[str, np.ndarray]:
    """Return the statistics of each tensor, ``(len(names),)``."""
    with torch.no_grad():
        numbers, finish = begin(list(named.values()), names, PreviousValues(deltas, list(named)))
        results = finish(numbers.numpy()).reshape(len(names), len(named))
    return dict(zip(named, results.T, strict=True))


@given(
    SHAPES,
    st.sampled_from((*FLOATS, *OTHERS)),
    st.tuples(SPECIAL, SPECIAL),
    st.integers(0, 99),
    st.tuples(LAYOUTS, LAYOUTS),
    st.sampled_from(["same", "some", "all"]),
)
@settings(max_examples=200, deadline=None)
def test_every_type_shape_and_layout(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    special: tuple[str, str],
    seed: int,
    layouts: tuple[str, str],
    change: str,
) -> None:
    if not dtype.is_floating_point and not dtype.is_complex:
        special = ("whole", "whole")
    if "expanded" in layouts:
        layouts = ("expanded", "expanded")
    before = make_tensor(shape, dtype, special[0], seed)
    after = before.clone() if change == "same" else make_tensor(shape, dtype, special[1], seed + 7)
    if change == "some" and after.numel():
        after.view(-1)[::2] = before.view(-1)[::2]
    deltas = Warnings().deltas()
    first = compare(deltas, {"x": with_layout(before, layouts[0])})["x"]
    assert np.isnan(first).all()
    results = compare(deltas, {"x": with_layout(after, layouts[1])})["x"]
    one, other = (as_numpy(with_layout(tensor, layouts[0])) for tensor in (before, after))
    expected = [arrays.compute(name, other, one) for name in NAMES]
    np.testing.assert_allclose(results, expected, rtol=1e-6, err_msg=str((one, other)))


def test_previous_values_are_kept_by_name() -> None:
    deltas = Warnings().deltas()
    compare(deltas, {"a": torch.zeros(4), "b": torch.ones(4)})
    compare(deltas, {"a": torch.ones(4)})
    results = compare(deltas, {"b": torch.full((4,), 3.0), "a": torch.full((4,), 2.0), "c": torch.ones(4)})
    assert (results["a"][0], results["b"][0]) == (2.0, 4.0)
    assert np.isnan(results["c"]).all()


def test_a_change_of_shape_starts_again() -> None:
    deltas = Warnings().deltas()
    compare(deltas, {"a": torch.zeros(4)})
    assert np.isnan(compare(deltas, {"a": torch.ones(2, 2)})["a"]).all()
    assert compare(deltas, {"a": torch.full((2, 2), 2.0)})["a"][0] == 2.0


def test_previous_values_are_copies() -> None:
    deltas, weight = Warnings().deltas(), torch.zeros(4)
    compare(deltas, {"a": weight})
    weight += 1
    assert compare(deltas, {"a": weight})["a"][0] == 2.0


def test_values_captured_in_inference_mode_can_be_compared_outside() -> None:
    deltas = Warnings().deltas()
    with torch.inference_mode():
        compare(deltas, {"a": torch.zeros(4)})
        assert compare(deltas, {"a": torch.ones(4)})["a"][0] == 2.0
    assert compare(deltas, {"a": torch.full((4,), 3.0)})["a"][0] == 4.0
    with torch.inference_mode():
        assert compare(deltas, {"a": torch.full((4,), 4.0)})["a"][0] == 2.0


def test_beyond_the_memory_limit_samples_are_compared_and_reported() -> None:
    warnings = Warnings()
    deltas = warnings.deltas(device_bytes=40_000)
    generator = torch.Generator().manual_seed(0)
    small, large = torch.zeros(1000), torch.zeros(200, 1000)
    assert np.isnan(compare(deltas, {"small": small})["small"]).all()
    compare(deltas, {"large": large})
    assert warnings == [
        "changes since the previous capture are estimated from samples: copies of 1 tensors need 800,000 bytes "
        "on the device, more than device_bytes allows"
    ]
    kept_bytes = sum(
        snapshot.values.numel() * snapshot.values.element_size() for snapshot in deltas._snapshots.values()
    )
    assert kept_bytes <= 40_000
    moved = torch.randn(large.shape, generator=generator)
    moved[:, :300] = 0
    results = compare(deltas, {"large": moved, "small": small + 1})
    assert results["small"][0] == pytest.approx(np.sqrt(1000))
    assert results["large"][0] == pytest.approx(float(moved.norm()), rel=0.1)
    assert results["large"][3] == pytest.approx(0.3, abs=4 * 0.5 / np.sqrt(SAMPLE_ELEMENTS))
    assert len(warnings) == 1


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sparse_tensors_are_not_compared_and_reported() -> None:
    warnings = Warnings()
    deltas = warnings.deltas()
    sparse = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.tensor([1.0]), (3,))
    for _ in range(2):
        results = compare(deltas, {"s": sparse, "d": torch.ones(3)})
        assert np.isnan(results["s"]).all()
    assert results["d"][0] == 0.0
    assert set(warnings) == {"s is not compared with its previous capture: the tensor is sparse"}


def test_without_names_there_are_no_previous_values() -> None:
    with torch.no_grad():
        numbers, finish = begin([torch.ones(3)], ("change_l2", "median"))
    change, median = finish(numbers.numpy())
    assert np.isnan(change)
    assert median == 1.0


@given(
    st.lists(
        st.tuples(
            st.sampled_from([(), (4,), (2, 3), (3, 2), (0,), (200, 100)]),
            st.sampled_from((torch.float32, torch.bfloat16, torch.int32, torch.complex64)),
            st.integers(0, 9),
        ),
        min_size=1,
        max_size=10,
    ),
    st.data(),
)
@settings(max_examples=60, deadline=None)
def test_many_tensors_of_which_some_are_new(specs: list, data: st.DataObject) -> None:
    def capture(offset: int, indices: range | list[int]) -> dict[str, torch.Tensor]:
        return {
            str(index): make_tensor(specs[index][0], specs[index][1], "none", specs[index][2] + offset)
            for index in indices
        }

    everything = range(len(specs))
    known = data.draw(st.lists(st.sampled_from(everything), unique=True, min_size=1))
    deltas = Warnings().deltas()
    before, after = capture(0, known), capture(1, everything)
    compare(deltas, before)
    for name, results in compare(deltas, after).items():
        if name not in before:
            assert np.isnan(results).all()
        else:
            expected = [arrays.compute(statistic, as_numpy(after[name]), as_numpy(before[name])) for statistic in NAMES]
            np.testing.assert_allclose(results, expected, rtol=1e-6)
