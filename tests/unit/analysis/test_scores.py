"""Scores of predictions in edge cases: few samples, no samples, non-finite values."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.analysis import scores

NAN = float("nan")


def test_averages_of_a_matrix_by_hand() -> None:
    matrix = np.array([[8.0, 2.0], [4.0, 6.0]])
    found = scores.averages(matrix)
    assert (found["micro"].precision, found["micro"].f1) == (0.7, 0.7)
    assert found["macro"].precision == pytest.approx((8 / 12 + 6 / 8) / 2)
    assert found["weighted"].recall == pytest.approx(0.7)


def test_an_absent_class_is_in_no_average() -> None:
    small = np.array([[8.0, 2.0], [4.0, 6.0]])
    wide = np.zeros((5, 5))
    wide[:2, :2] = small
    assert scores.averages(wide) == scores.averages(small)
    assert scores.averages(np.zeros((3, 3))) == {}
    assert scores.recall_by_class(wide)[:2].tolist() == [0.8, 0.6]
    assert np.isnan(scores.recall_by_class(wide)[2:]).all()


def test_a_curve_needs_both_classes() -> None:
    assert scores.roc(np.array([True, True]), np.array([0.1, 0.2])) is None
    assert scores.roc(np.array([False]), np.array([0.1])) is None
    assert scores.roc(np.array([]), np.array([])) is None
    perfect = scores.roc(np.array([0, 1]), np.array([0.1, 0.2]))
    assert perfect is not None
    assert (perfect.auc, perfect.false_positive.tolist(), perfect.true_positive.tolist()) == (1, [0, 0, 1], [0, 1, 1])
    tied = scores.roc(np.array([0, 1, 0, 1]), np.full(4, 0.5))
    assert tied is not None
    assert (tied.auc, len(tied.false_positive)) == (0.5, 2)


def test_nan_scores_are_ignored_and_infinity_is_the_highest() -> None:
    found = scores.roc(np.array([1, 0, 1]), np.array([np.inf, 0.0, NAN]))
    assert found is not None
    assert found.auc == 1.0


def test_a_simplified_curve_keeps_its_ends_and_area() -> None:
    random = np.random.default_rng(0)
    labels = random.random(20_000) < 0.5
    whole = scores.roc(labels, random.random(20_000) + labels * 0.3)
    assert whole is not None
    thin = scores.simplify_curve(whole, 200)
    assert len(thin.false_positive) <= 200
    assert thin.auc == whole.auc
    assert (thin.false_positive[0], thin.false_positive[-1], thin.true_positive[-1]) == (0.0, 1.0, 1.0)
    way, thin_way = (each.false_positive + each.true_positive for each in (whole, thin))
    off = np.abs(np.interp(way, thin_way, thin.true_positive) - whole.true_positive)
    assert off.max() < 0.01
    assert scores.simplify_curve(thin, 200) is thin


def test_bins_of_labels_have_equal_width() -> None:
    edges = scores.bin_edges(np.array([0.0, 10.0, NAN, 3.0]), 5)
    assert edges.tolist() == [0, 2, 4, 6, 8, 10]
    errors = scores.error_by_bin(np.array([0.0, 10.0, 3.0, NAN]), np.array([1.0, 12.0, NAN, 5.0]), edges)
    assert errors.tolist()[:1] == [1.0]
    assert errors.tolist()[-1:] == [2.0]
    assert np.isnan(errors[1:-1]).all()


def test_one_label_for_all_makes_one_bin_and_none_makes_none() -> None:
    edges = scores.bin_edges(np.array([3.0, 3.0]))
    assert scores.error_by_bin(np.array([3.0, 3.0]), np.array([3.0, 5.0]), edges).tolist() == [1.0]
    assert scores.bin_edges(np.array([NAN])).tolist() == []
