"""Confusion, precision, recall, F1, ROC and AUC equal those of scikit-learn to the last digit of a float."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leadline.analysis import scores
from leadline.statistics.boosting import confusion, predicted_classes

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venvs" / "trees" / "bin" / "python"
SCRIPT = ROOT / "tests" / "process" / "scripts" / "boosted_truth.py"
CLASSIFIERS = ("binary:logistic", "binary:logitraw", "multi:softprob", "multi:softmax")
NAMES = (*CLASSIFIERS, *(f"drawn_{seed}" for seed in range(6)))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("truth")
    ended = subprocess.run([PYTHON, SCRIPT, folder], capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    with np.load(folder / "answers.npz") as arrays:
        known = {name: arrays[name] for name in arrays.files}
    truth = json.loads((folder / "truth.json").read_text())
    return {
        name: case | {"labels": known[f"{name}/labels"], "predictions": known[f"{name}/predictions"]}
        for name, case in truth.items()
    }


def matrix_of(case: dict[str, Any], name: str) -> scores.Floats:
    classes = case["predictions"].shape[1] if case["predictions"].ndim > 1 else None
    predicted = predicted_classes(case["predictions"], name if ":" in name else None)
    found = confusion(case["labels"], predicted, classes)
    assert found is not None
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_confusion_matrix_equals_scikit_learns(cases: dict[str, Any], name: str) -> None:
    expected = np.array(cases[name]["confusion"])
    found = matrix_of(cases[name], name)
    assert found[: len(expected), : len(expected)].tolist() == expected.tolist()
    assert found.sum() == expected.sum() == len(cases[name]["labels"])


@pytest.mark.parametrize("name", NAMES)
def test_precision_recall_and_f1_equal_scikit_learns(cases: dict[str, Any], name: str) -> None:
    matrix = matrix_of(cases[name], name)
    for average, found in scores.averages(matrix).items():
        assert (found.precision, found.recall, found.f1) == pytest.approx(cases[name][average], abs=1e-12), average
    single = scores.by_class(matrix)
    for at, expected in enumerate(cases[name]["by_class"]):
        assert (single[at].precision, single[at].recall, single[at].f1) == pytest.approx(expected, abs=1e-12)
        if matrix[at].sum():
            assert scores.recall_by_class(matrix)[at] == pytest.approx(expected[1])


@pytest.mark.parametrize("name", [name for name in NAMES if name != "multi:softmax"])
def test_roc_curves_and_auc_equal_scikit_learns(cases: dict[str, Any], name: str) -> None:
    labels, given = cases[name]["labels"], cases[name]["predictions"]
    curves = scores.roc_of_classes(labels, given) if given.ndim > 1 else {"1": scores.roc(labels == 1, given)}
    expected = cases[name]["curves"]
    assert set(curves) == set(expected)
    for key, curve in curves.items():
        np.testing.assert_allclose(curve.false_positive, expected[key]["false"], atol=1e-12)
        np.testing.assert_allclose(curve.true_positive, expected[key]["true"], atol=1e-12)
        assert curve.auc == pytest.approx(expected[key]["auc"], abs=1e-12)


def test_errors_by_bin_add_up_to_the_mean_error(cases: dict[str, Any]) -> None:
    labels, given = cases["reg"]["labels"], cases["reg"]["predictions"]
    edges = scores.bin_edges(labels)
    counts = np.histogram(labels, edges)[0]
    errors = scores.error_by_bin(labels, given, edges)
    assert len(errors) == 10
    known = counts > 0
    assert np.isnan(errors[~known]).all()
    total = (errors[known] * counts[known]).sum() / counts.sum()
    assert total == pytest.approx(cases["reg"]["error"], rel=1e-6)
