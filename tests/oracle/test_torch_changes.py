"""What changed since the previous capture, on a device against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_tensors import FLOATS, LAYOUTS, OTHERS, SHAPES, SPECIAL, arranged, as_numpy, make

from leadline.frameworks.torch.kernels.deltas import Deltas
from leadline.frameworks.torch.kernels.order_statistics import PreviousValues, begin
from leadline.statistics import arrays
from leadline.statistics.definitions import SAMPLE_ELEMENTS

NAMES = ("change_l2", "close_1e-05_1e-08", "close_0.1_0.5", "close_0_0", "close_1e-05_1e-08_nan", "close_1_10")
ROOM = 1 << 20


class Notes(list):
    def changes(self, device_bytes: int = ROOM) -> Deltas:
        return Deltas(device_bytes, self.append)


def compare(changes: Deltas, named: dict[str, torch.Tensor], names: tuple[str, ...] = NAMES) -> dict[str, np.ndarray]:
    """Statistics of each tensor, ``(len(names),)``."""
    with torch.no_grad():
        numbers, finish = begin(list(named.values()), names, PreviousValues(changes, list(named)))
        found = finish(numbers.numpy()).reshape(len(names), len(named))
    return dict(zip(named, found.T, strict=True))


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
    shape: tuple[int, ...], dtype: torch.dtype, special: tuple[str, str], seed: int, layouts: tuple[str, str], how: str
) -> None:
    if not dtype.is_floating_point and not dtype.is_complex:
        special = ("whole", "whole")
    if "expanded" in layouts:
        layouts = ("expanded", "expanded")
    before = make(shape, dtype, special[0], seed)
    after = before.clone() if how == "same" else make(shape, dtype, special[1], seed + 7)
    if how == "some" and after.numel():
        after.view(-1)[::2] = before.view(-1)[::2]
    changes = Notes().changes()
    first = compare(changes, {"x": arranged(before, layouts[0])})["x"]
    assert np.isnan(first).all()
    found = compare(changes, {"x": arranged(after, layouts[1])})["x"]
    one, other = (as_numpy(arranged(each, layouts[0])) for each in (before, after))
    expected = [arrays.compute(name, other, one) for name in NAMES]
    np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=str((one, other)))


def test_each_name_has_its_own_past() -> None:
    changes = Notes().changes()
    compare(changes, {"a": torch.zeros(4), "b": torch.ones(4)})
    compare(changes, {"a": torch.ones(4)})
    found = compare(changes, {"b": torch.full((4,), 3.0), "a": torch.full((4,), 2.0), "c": torch.ones(4)})
    assert (found["a"][0], found["b"][0]) == (2.0, 4.0)
    assert np.isnan(found["c"]).all()


def test_a_tensor_of_another_shape_begins_anew() -> None:
    changes = Notes().changes()
    compare(changes, {"a": torch.zeros(4)})
    assert np.isnan(compare(changes, {"a": torch.ones(2, 2)})["a"]).all()
    assert compare(changes, {"a": torch.full((2, 2), 2.0)})["a"][0] == 2.0


def test_what_is_remembered_is_no_view_of_the_tensor() -> None:
    changes, weight = Notes().changes(), torch.zeros(4)
    compare(changes, {"a": weight})
    weight += 1
    assert compare(changes, {"a": weight})["a"][0] == 2.0


def test_what_was_captured_in_inference_mode_can_be_compared_outside() -> None:
    changes = Notes().changes()
    with torch.inference_mode():
        compare(changes, {"a": torch.zeros(4)})
        assert compare(changes, {"a": torch.ones(4)})["a"][0] == 2.0
    assert compare(changes, {"a": torch.full((4,), 3.0)})["a"][0] == 4.0
    with torch.inference_mode():
        assert compare(changes, {"a": torch.full((4,), 4.0)})["a"][0] == 2.0


def test_beyond_the_memory_samples_are_compared_and_that_is_told() -> None:
    notes = Notes()
    changes = notes.changes(device_bytes=40_000)
    generator = torch.Generator().manual_seed(0)
    small, large = torch.zeros(1000), torch.zeros(200, 1000)
    assert np.isnan(compare(changes, {"small": small})["small"]).all()
    compare(changes, {"large": large})
    assert notes == [
        "changes since the previous capture are estimated from samples: copies of 1 tensors would take 800,000 bytes "
        "of the device, more than device_bytes leaves"
    ]
    held = sum(each.values.numel() * each.values.element_size() for each in changes._memories.values())
    assert held <= 40_000
    moved = torch.randn(large.shape, generator=generator)
    moved[:, :300] = 0
    found = compare(changes, {"large": moved, "small": small + 1})
    assert found["small"][0] == pytest.approx(np.sqrt(1000))
    assert found["large"][0] == pytest.approx(float(moved.norm()), rel=0.1)
    assert found["large"][3] == pytest.approx(0.3, abs=4 * 0.5 / np.sqrt(SAMPLE_ELEMENTS))
    assert len(notes) == 1


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sparse_tensors_are_absent_and_that_is_told() -> None:
    notes = Notes()
    changes = notes.changes()
    sparse = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.tensor([1.0]), (3,))
    for _ in range(2):
        found = compare(changes, {"s": sparse, "d": torch.ones(3)})
        assert np.isnan(found["s"]).all()
    assert found["d"][0] == 0.0
    assert set(notes) == {"s is not compared with its previous capture: it is sparse"}


def test_without_names_there_is_no_past() -> None:
    with torch.no_grad():
        numbers, finish = begin([torch.ones(3)], ("change_l2", "median"))
    change, median = finish(numbers.numpy())
    assert np.isnan(change)
    assert median == 1.0
