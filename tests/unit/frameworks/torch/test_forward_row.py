"""The row of a forward pass: small tensors, which are computed later, and others."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch
from fake_device import install

from leadline.frameworks.torch.capture import device_copy, forward_row
from leadline.frameworks.torch.capture.forward_row import ForwardRow
from leadline.frameworks.torch.kernels.deltas import Deltas
from leadline.frameworks.torch.kernels.stacks import STACKED_ELEMENTS
from leadline.records.series import SeriesLayout, TensorInfo

NAMES = ("max", "median", "sum")


def make_row() -> ForwardRow:
    return ForwardRow(Deltas(1 << 20, pytest.fail))


def add(
    row: ForwardRow,
    name: str,
    values: torch.Tensor,
    statistics: tuple[str, ...] = NAMES,
    *,
    is_on_host: bool = True,
) -> None:
    info = TensorInfo(name, ("layers",), tuple(values.shape))
    row.add(info, statistics, values, is_on_host=is_on_host)


def finish(row: ForwardRow) -> tuple[SeriesLayout, dict[tuple[str, str], float]]:
    finished = row.finish()
    assert finished is not None
    layout, values = finished
    assert isinstance(values, bytes)
    numbers = np.frombuffer(values)
    assert len(numbers) == len(layout.columns)
    names = [(layout.tensors[index].name, statistic) for index, statistic in layout.columns]
    return layout, dict(zip(names, numbers.tolist(), strict=True))


def test_values_are_those_at_the_time_of_the_call() -> None:
    row = make_row()
    small, large = torch.arange(6.0), torch.ones(STACKED_ELEMENTS + 1)
    for name in ("a", "b"):
        add(row, f"{name}_small", small)
        add(row, f"{name}_large", large)
        small += 1
        large += 1
    layout, values = finish(row)
    assert [info.name for info in layout.tensors] == ["a_small", "a_large", "b_small", "b_large"]
    assert (values["a_small", "sum"], values["b_small", "sum"]) == (15.0, 21.0)
    assert (values["a_small", "median"], values["b_small", "max"]) == (2.5, 6.0)
    assert values["b_large", "sum"] == 2 * len(large)


def test_tensors_with_different_statistics_are_in_one_row() -> None:
    row = make_row()
    add(row, "a", torch.tensor([1.0, 2.0]), ("sum",))
    add(row, "b", torch.tensor([3.0]), ("max", "min"))
    add(row, "c", torch.tensor([4.0, 5.0]), ("sum",))
    _, values = finish(row)
    assert values == {("a", "sum"): 3.0, ("b", "max"): 3.0, ("b", "min"): 3.0, ("c", "sum"): 9.0}


def test_equal_rows_share_a_layout() -> None:
    row, layouts = make_row(), []
    for shape in ((2,), (2,), (3,)):
        add(row, "a", torch.ones(shape))
        layouts.append(finish(row)[0])
    assert layouts[0] is layouts[1]
    assert layouts[2].tensors[0].shape == (3,)


def test_copies_are_computed_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward_row, "_COPIED_ELEMENTS", 10)
    row = make_row()
    for index in range(20):
        add(row, str(index), torch.full((4,), float(index)))
        assert row._copied_elements <= 10
    assert finish(row)[1]["19", "max"] == 19.0


def test_changes_are_compared_by_mode_and_name() -> None:
    row = make_row()
    for expected, value in ((None, 1.0), (3.0, 4.0)):
        add(row, "a", torch.full((1,), value), ("change_l2",))
        change = finish(row)[1]["a", "change_l2"]
        assert np.isnan(change) if expected is None else change == expected
    row.begin("eval")
    add(row, "a", torch.ones(1), ("change_l2",))
    assert np.isnan(finish(row)[1]["a", "change_l2"])


def test_nothing_is_kept_of_discarded_or_finished_rows() -> None:
    row, values = make_row(), torch.ones(4)
    add(row, "a", values)
    reference = weakref.ref(values)
    del values
    row.begin("train")
    assert row.finish() is None
    gc.collect()
    assert reference() is None
    assert not row._copies


def test_tensors_on_an_accelerator_are_computed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(monkeypatch)
    row, values = make_row(), torch.ones(4)
    add(row, "a", values, ("sum",), is_on_host=False)
    values.zero_()
    finished = row.finish()
    assert finished is not None
    pending = finished[1]
    assert not isinstance(pending, bytes)
    fake.arrive()
    assert np.frombuffer(pending.values()).tolist() == [4.0]
    assert fake.waits == 0


def test_autograd_and_autocasting_do_not_reach_the_computation() -> None:
    row, values = make_row(), torch.full((4,), 1.0 + 2.0**-20, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        add(row, "a", values.detach(), ("sum",))
        _, numbers = finish(row)
    assert numbers["a", "sum"] == 4 * (1.0 + 2.0**-20)


@pytest.mark.parametrize(
    "integers", [torch.tensor([3, -1, 1 << 40]), torch.ones(2, 3, dtype=torch.bool), torch.zeros(0, dtype=torch.uint8)]
)
def test_integers_are_not_searched_for_nan(monkeypatch: pytest.MonkeyPatch, integers: torch.Tensor) -> None:
    """Labels and tokens, which are captured at many steps, are finite; nothing is computed on a device either."""
    computed: list[object] = []
    monkeypatch.setattr(device_copy, "device_statistics", lambda *_: computed.append(1))
    device = install(monkeypatch)
    row = make_row()
    add(row, "labels", integers, ("nan_count", "nonfinite_count"), is_on_host=False)
    _, values = finish(row)
    assert values == {("labels", "nan_count"): 0.0, ("labels", "nonfinite_count"): 0.0}
    assert not computed
    assert device.fetched == 0
