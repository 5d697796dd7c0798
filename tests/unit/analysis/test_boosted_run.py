"""Cached model data of boosted trees: each round is read once, even in a growing run."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
from tree_scenarios import answers

from leadline.analysis import trees
from leadline.analysis.boosted_run import BoostedRun, RoundCache
from leadline.reader.run import Run
from leadline.testing.runs import Part, RunWriter

LABELS = np.repeat([0, 1], 10)


def parts(steps: range, *, is_class: bool = True) -> list[Part]:
    return [part for step in steps for part in answers(step, LABELS, LABELS * 0.8 + 0.01 * step, is_class=is_class)]


def opened(folder: Path, objective: str, run_parts: list[Part]) -> tuple[RunWriter, Run]:
    writer = RunWriter(folder / "run").write_all(run_parts)
    writer.write_worker("rank0-1", framework="xgboost 3.2.0", hyperparameters={"objective": objective})
    return writer, Run(writer.path)


def test_a_round_that_is_cache_is_not_read_again(tmp_path: Path) -> None:
    writer, run = opened(tmp_path, "binary:logistic", parts(range(0, 11, 5)))
    cache = RoundCache()
    first = BoostedRun(run, cache).matrices
    writer.write_all(parts(range(15, 26, 5)))
    run.refresh()
    with mock.patch.object(trees, "read_predictions", wraps=trees.read_predictions) as read:
        again = BoostedRun(run, cache)
        assert list(again.matrices) == [0, 5, 10, 15, 20, 25]
    steps = [each.args[1] for each in read.call_args_list]
    assert sorted(steps) == [15, 20, 25, 25]  # the last also to know the kind of model
    assert {step: again.matrices[step].tolist() for step in first} == {
        step: each.tolist() for step, each in first.items()
    }


def test_errors_of_a_growing_regression_equal_those_without_cache(tmp_path: Path) -> None:
    writer, run = opened(tmp_path, "reg:squarederror", parts(range(0, 11, 5), is_class=False))
    cache = RoundCache()
    assert BoostedRun(run, cache).errors_by_bin()[0] == [0, 5, 10]
    writer.write_all(parts(range(15, 26, 5), is_class=False))
    run.refresh()
    steps, errors, edges = BoostedRun(run, cache).errors_by_bin()
    fresh_steps, fresh_errors, fresh_edges = BoostedRun(run).errors_by_bin()
    assert (steps, edges.tolist()) == (fresh_steps, fresh_edges.tolist())
    np.testing.assert_array_equal(errors, fresh_errors)
    np.testing.assert_allclose(errors[0][[0, -1]], [0.0, 0.2], atol=1e-6)


def test_a_regression_has_no_matrices_and_no_curves(tmp_path: Path) -> None:
    _, run = opened(tmp_path, "reg:squarederror", parts(range(0, 6, 5), is_class=False))
    found = BoostedRun(run)
    assert (found.matrices, found.matrix, found.curves()) == ({}, None, {})


def test_a_run_without_predictions_has_no_results(tmp_path: Path) -> None:
    _, run = opened(tmp_path, "binary:logistic", [])
    found = BoostedRun(run)
    assert (found.last, found.matrix, found.curves()) == (None, None, {})
    assert found.errors_by_bin()[0] == []
