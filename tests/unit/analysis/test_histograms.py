"""Histograms on a common axis: counts are preserved."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.analysis.histograms import read_histograms
from leadline.reader.run import open_run
from leadline.testing.runs import ArrayStatistics, Capture, Part, RawTensors, RunWriter


def opened(tmp_path, parts: list[Part]):
    return open_run(RunWriter(tmp_path / "run").write_all(parts).end().path)


def stored(step: int, values: np.ndarray) -> list[Part]:
    raw = RawTensors(step, {"w": ("F32", values.shape, values.astype("<f4").tobytes())})
    return [raw, Capture(step, {"w": {"abs_mean": 1.0}})]


def test_histograms_of_raw_tensors_equal_numpy(tmp_path) -> None:
    chance = np.random.default_rng(0)
    given = {step: chance.normal(0, 1 + step, 5000) for step in (0, 5, 9)}
    run = opened(tmp_path, [part for step, values in given.items() for part in stored(step, values)])
    found = read_histograms(run.tensor("w"), bins=20)
    assert found.steps == (0, 5, 9)
    assert found.edges[0] == pytest.approx(min(each.min() for each in given.values()), rel=1e-5)
    assert found.edges[-1] == pytest.approx(max(each.max() for each in given.values()), rel=1e-5)
    for row, values in zip(found.counts, given.values(), strict=True):
        assert row.sum() == pytest.approx(5000)
        exact, _ = np.histogram(values, found.edges)
        assert np.abs(np.cumsum(row) - np.cumsum(exact)).max() < 0.06 * 5000  # counts are spread evenly over a bin


def test_captured_histograms_are_read(tmp_path) -> None:
    counts = [0.0] * 64
    counts[0] = 30.0
    counts[63] = 10.0
    run = opened(tmp_path, [ArrayStatistics(3, {"w": {"histogram": np.array([-1.0, 1.0, *counts])}})])
    found = read_histograms(run.tensor("w"), bins=64)
    assert found.shares()[0, [0, 63]] == pytest.approx([0.75, 0.25])


def test_a_constant_is_in_one_bin(tmp_path) -> None:
    run = opened(tmp_path, stored(0, np.full(7, 2.0)))
    found = read_histograms(run.tensor("w"), bins=3)
    assert found.counts.tolist() == [[0, 7, 0]]
    assert (found.edges[0], found.edges[-1]) == (1.5, 2.5)


def test_a_constant_beside_others_keeps_its_place(tmp_path) -> None:
    run = opened(tmp_path, [*stored(0, np.array([0.0, 10.0])), *stored(1, np.full(4, 10.0))])
    found = read_histograms(run.tensor("w"), bins=5)
    assert found.counts[1].tolist() == [0, 0, 0, 0, 4]


def test_without_a_finite_element_there_is_no_histogram(tmp_path) -> None:
    run = opened(tmp_path, stored(0, np.array([np.nan, np.inf])))
    assert read_histograms(run.tensor("w")).steps == ()


def test_steps_are_sampled_evenly(tmp_path) -> None:
    run = opened(tmp_path, [part for step in range(40) for part in stored(step, np.array([0.0, 1.0]))])
    found = read_histograms(run.tensor("w"), points=5)
    assert found.steps == (0, 10, 20, 29, 39)
