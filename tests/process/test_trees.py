"""Unmodified trainings of boosters: bit-identical models, and captured values equal to those of the framework."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launching import LEADLINE, Ended, environment, finish, script
from recorded import recorded

import leadline
from leadline.config.presets import FIRST_STEPS
from leadline.reader.run import Run
from leadline.records.documents import WorkerDocument

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "trees" / "bin" / "python")
OF_XGBOOST = (
    "binary",
    "multiclass",
    "softmax",
    "regression",
    "early_stopping",
    "dart",
    "own_objective",
    "continued",
    "ranking",
    "linear",
    "folds",
    "estimators",
    "by_hand",
)
OF_LIGHTGBM = (
    "lightgbm_binary",
    "lightgbm_multiclass",
    "lightgbm_regression",
    "lightgbm_early_stopping",
    "lightgbm_continued",
    "lightgbm_dart",
    "lightgbm_folds",
    "lightgbm_estimators",
)
CLASSES = {
    "binary": 2,
    "early_stopping": 2,
    "continued": 2,
    "dart": 2,
    "multiclass": 3,
    "softmax": 3,
    "lightgbm_binary": 2,
    "lightgbm_early_stopping": 2,
    "lightgbm_multiclass": 3,
}
EARLIER = {"continued": 5, "lightgbm_continued": 5}
"""Rounds of the earlier training that is continued, which evaluates no metrics."""
ROUNDS_WITHOUT_TRUTH = 5 + 10 + 10 + (8 + 1) + 7 + 5 + 15 + 10 + 8
"""Rounds without notes: continued, linear model, folds, estimators, manual loop; the same for LightGBM, and dart."""
ALSO_TRAINED = 3
"""Additional trainings: the continued ones, and a forest besides a classifier."""
CAPTURE = [
    "--capture",
    "predictions:every=5,raw=true",
    "--capture",
    "labels:every=5,raw=true",
    "--capture",
    "average_shap:every=5",
    "--capture",
    "full_shap:every=10",
    "--capture",
    "trees:every=5",
]

RULE = '''
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired
from leadline.rules.rule import Rule


class Early(Rule):
    """Fires from the third round on."""

    def needs(self):
        return Needs.of("losses", "value")

    def evaluate(self, window):
        return Fired("the third round is over") if window.step >= 3 else Clear()
'''


def launch(folder: Path, *kinds: str, options: tuple[str, ...] | list[str] = ()) -> Ended:
    words = [PYTHON, script("boosters.py"), str(folder), *kinds]
    words = [PYTHON, *LEADLINE[1:], "run", "--out", str(folder / "runs"), "--budget", "off", *options, "--", *words]
    return finish(words, folder, env=environment())


def note(folder: Path, kind: str) -> dict[str, Any]:
    return dict(json.loads((folder / f"{kind}.json").read_text()))


@pytest.fixture(scope="module")
def unwatched() -> Path:
    """Run all trainings without Leadline, one after the other in one process; return the folder."""
    ended, folder = recorded([PYTHON, script("boosters.py"), ".", *OF_XGBOOST, *OF_LIGHTGBM])
    assert ended.status == 0, ended.err
    return folder


def document(run: Run) -> WorkerDocument:
    (found,) = run.worker_documents().values()
    assert (found.off, found.lost) == (None, None)
    return found


@pytest.fixture(scope="module")
def watched() -> Path:
    """The same, each in a run of its own; the runs are below ``runs``."""
    words = [PYTHON, script("boosters_in_turn.py"), ".", *OF_XGBOOST, *OF_LIGHTGBM]
    ended, folder = recorded(words, given=json.dumps(CAPTURE), LEADLINE_ROOT="runs")
    assert ended.status == 0, ended.err
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*OF_XGBOOST, *OF_LIGHTGBM])
def test_a_training_is_bit_identical_and_captured_correctly(watched: Path, unwatched: Path, kind: str) -> None:
    told = note(watched, kind)
    assert told == note(unwatched, kind)  # includes the bytes of the model and the state of random generators
    run = leadline.open_run(watched / "runs" / kind)
    library = "lightgbm" if kind.startswith("lightgbm") else "xgboost"
    assert document(run).framework.startswith(library)
    check_scores(run, told.get("scores", {}))
    first = EARLIER.get(kind, 0)
    if "rounds" in told:
        steps = range(first, first + len(told["rounds"]))
        assert [step for step in run.steps(mode="train") if step >= first] == list(steps)
        assert document(run).steps == {"train": len(steps) + first}
        check_rounds(run, dict(zip(steps, told["rounds"], strict=True)), kind)


def check_scores(run: Run, scores: Mapping[str, Mapping[str, list[float]]]) -> None:
    for name, metrics in scores.items():
        for metric, values in metrics.items():
            assert numbers(run, f"{name}-{metric}") == pytest.approx(values), f"{name}-{metric}"


def numbers(run: Run, name: str, statistic: str = "value") -> list[float]:
    rows = run.tensor(name).statistics(statistic).to_pylist()
    return [row["value"] for row in sorted(rows, key=lambda row: row["step"])]


def check_rounds(run: Run, rounds: Mapping[int, dict[str, Any]], kind: str) -> None:
    for step, truth in rounds.items():
        if step % 5:
            continue
        for importance, by_feature in truth["importances"].items():
            check_importance(run, importance, by_feature, step)
        np.testing.assert_allclose(run.tensor("predictions").value(step), truth["predictions"], rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(run.tensor("labels").value(step), truth["labels"])
        if "shap" in truth:
            names = [*(f"average_shap/f{at}" for at in range(6)), "average_shap/bias"]
            found = [run.tensor(name).statistic("value", step) for name in names]
            np.testing.assert_allclose(found, truth["shap"], rtol=1e-4, atol=1e-6)
        if "trees" in truth:
            check_trees(run, truth["trees"], step)
        if kind in CLASSES:
            check_classes(run, truth, step, CLASSES[kind])


def check_importance(run: Run, kind: str, truth: Mapping[str, float], step: int) -> None:
    total = sum(truth.values())
    names = [name for name in run.tensor_names(collection="feature_importance") if name.split("/")[1] == kind]
    assert len(names) == 6
    for name in names:
        expected = truth.get(name.split("/")[2], 0.0)
        found = run.tensor(name).statistic("value", step)
        assert found == pytest.approx(expected / total if total else 0.0, rel=1e-5), (name, step)


def check_trees(run: Run, dumped: list[list[list[str]]], step: int) -> None:
    """Check that the table equals the text dump of XGBoost, which is not the format that Leadline reads."""
    expected = [(tree, *node) for tree, nodes in enumerate(dumped) for node in nodes]
    expected.sort(key=lambda row: (row[0], int(row[2])))
    found = {
        name: run.tensor(f"trees/{name}").value(step)
        for name in ("Tree", "Node", "ID", "Feature", "Split", "Yes", "No", "Missing", "Gain", "Cover", "Depth")
    }
    assert len(found["Node"]) == len(expected)
    for at, (tree, tabs, node, feature, split, yes, no, missing, gain, cover, leaf, leaf_cover) in enumerate(expected):
        row = {name: column[at] for name, column in found.items()}
        assert (row["Tree"], row["Node"], row["Depth"]) == (tree, int(node), len(tabs))
        assert row["ID"] == (tree << 32) + int(node)
        if not feature:
            assert (row["Feature"], row["Yes"], row["No"], row["Missing"]) == (-1, -1, -1, -1)
            assert math.isnan(row["Split"])
            assert (row["Gain"], row["Cover"]) == pytest.approx((float(leaf), float(leaf_cover)), rel=1e-5)
        else:
            assert f"f{row['Feature']}" == feature
            ways = tuple((tree << 32) + int(child) for child in (yes, no, missing))
            assert (row["Yes"], row["No"], row["Missing"]) == ways
            told = (float(split), float(gain), float(cover))
            assert (row["Split"], row["Gain"], row["Cover"]) == pytest.approx(told, rel=1e-5)


def check_classes(run: Run, truth: dict[str, Any], step: int, classes: int) -> None:
    """Check the small tables of a classifier against a plain loop."""
    labels, predictions = [int(label) for label in truth["labels"]], np.array(truth["predictions"])
    if predictions.ndim > 1:
        predicted = predictions.argmax(axis=1)
    else:
        predicted = predictions.astype(int) if classes > 2 else (predictions > 0.5).astype(int)
    expected = np.zeros((classes, classes))
    for actual, given in zip(labels, predicted, strict=True):
        expected[actual, given] += 1
    np.testing.assert_array_equal(run.tensor("labels").statistic_array("confusion", step), expected)
    np.testing.assert_array_equal(run.tensor("labels").statistic_array("class_counts", step), expected.sum(axis=1))


@pytest.mark.slow
def test_the_worker_document_describes_the_model(tmp_path: Path) -> None:
    ended = launch(tmp_path, "multiclass", options=["--capture", "full_shap:steps=3"])
    assert ended.status == 0, ended.err
    found = document(ended.run)
    assert found.evaluated_on == "held"
    assert list(found.features) == [f"f{at}" for at in range(6)]
    given = {"objective": "multi:softprob", "num_class": 3.0, "max_depth": 3.0, "eval_metric": "mlogloss,merror"}
    assert given.items() <= found.hyperparameters.items()
    assert ended.run.tensor("hyperparameters/max_depth").statistic("value", 0) == 3.0
    assert any("watching Booster (6 features, multi:softprob)" in line for line in ended.said)
    assert ended.run.tensor("full_shap").value(3).shape == (400, 3, 7)
    sets = {name: ended.run.tensor(name).collections for name in ("train-merror", "held-mlogloss")}
    assert sets == {"train-merror": ("losses", "training_set"), "held-mlogloss": ("losses", "validation_set")}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "calls"), [("binary", 14), ("early_stopping", None)])
def test_callbacks_of_the_script_are_called_as_without_leadline(
    tmp_path: Path, unwatched: Path, kind: str, calls: Any
) -> None:
    ended = launch(tmp_path, kind)
    assert ended.status == 0, ended.err
    found = note(tmp_path, kind)["calls"]
    assert found == note(unwatched, kind)["calls"]
    assert (found[0], found[-1]) == ("begin", "end")
    assert calls is None or len(found) == calls


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name", "mark"),
    [("folds", "train-logloss", "training_set"), ("lightgbm_folds", "valid-binary_logloss", "validation_set")],
)
def test_mean_and_standard_deviation_of_folds_are_captured(tmp_path: Path, kind: str, name: str, mark: str) -> None:
    ended = launch(tmp_path, kind)
    assert ended.status == 0, ended.err
    told = note(tmp_path, kind)["folds"]
    stem, spread = (name, "std") if kind == "folds" else (name.replace("-", " "), "stdv")
    assert numbers(ended.run, f"{name}-mean") == pytest.approx(told[f"{stem}-mean"])
    assert numbers(ended.run, f"{name}-std") == pytest.approx(told[f"{stem}-{spread}"])
    collections = {suffix: ended.run.tensor(f"{name}-{suffix}").collections for suffix in ("mean", "std")}
    assert collections == {"mean": ("losses", mark), "std": ("metrics", mark)}


@pytest.mark.slow
def test_several_trainings_of_one_process_share_one_step_count(tmp_path: Path, unwatched: Path) -> None:
    ended = launch(tmp_path, *OF_XGBOOST, *OF_LIGHTGBM)
    assert ended.status == 0, ended.err
    for kind in (*OF_XGBOOST, *OF_LIGHTGBM):
        assert note(tmp_path, kind) == note(unwatched, kind), kind
    told = [note(tmp_path, kind) for kind in (*OF_XGBOOST, *OF_LIGHTGBM)]
    scored = sum(len(diary.get("rounds", ())) for diary in told)
    assert document(ended.run).steps["train"] == scored + ROUNDS_WITHOUT_TRUTH
    begun = ended.run.timeline(name="training").to_pylist()
    assert len(begun) == len(OF_XGBOOST) + len(OF_LIGHTGBM) + ALSO_TRAINED


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["binary", "lightgbm_binary"])
def test_all_patches_are_removed_and_an_internal_failure_does_not_end_the_training(tmp_path: Path, kind: str) -> None:
    ended = finish([PYTHON, script("boosters_left.py"), str(tmp_path), kind], tmp_path, env=environment())
    assert ended.status == 0, ended.err
    told = json.loads(ended.lines[-1])
    assert told["replaced_while_watched"]
    assert told["left"] == []
    assert told["digests"]["bare"] == told["digests"]["watched"] == told["digests"]["failing"]
    assert "planted" in told["error"]
    assert told["left_after_failure"] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["binary", "estimators", "folds", "lightgbm_binary", "lightgbm_folds"])
def test_a_rule_stops_a_training_at_the_end_of_a_round(tmp_path: Path, kind: str) -> None:
    """The loop of the script is practically endless: it ends with status 10, after a round, with all steps stored."""
    (tmp_path / "early.py").write_text(RULE)
    options = ["--rule", f"{tmp_path / 'early.py'}:Early", "--on", "early=stop_training"]
    ended = launch(tmp_path, "endless", kind, options=options)
    assert ended.status == 10, ended.err
    assert not (tmp_path / f"{kind}.json").exists()
    steps = ended.run.steps(mode="train")
    assert steps == list(range(len(steps)))
    assert len(steps) > 3
    assert ended.show()["stopped_by"] == "rule:early"


@pytest.mark.slow
def test_values_read_from_the_native_library_equal_those_of_the_package(tmp_path: Path) -> None:
    ended = finish([PYTHON, script("boosters_asked.py")], tmp_path, env=environment())
    assert ended.status == 0, ended.err
    told = json.loads(ended.lines[-1])
    assert told == {"kinds": told["kinds"], "differing": [], "differing_without_library": []}
    assert told["kinds"] > 9


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["binary", "early_stopping", "lightgbm_binary", "regression"])
def test_the_last_round_is_always_captured(tmp_path: Path, kind: str) -> None:
    """Reports must describe the final model."""
    ended = launch(tmp_path, kind, options=["--no-default-rules", "--capture", "trees:steps=3"])
    assert ended.status == 0, ended.err
    rounds = len(note(tmp_path, kind)["rounds"])
    steps = sorted({*(step for step in FIRST_STEPS if step < rounds), *range(0, rounds, 5), rounds - 1})
    assert ended.run.tensor("predictions").steps() == steps
    name = next(iter(ended.run.tensor_names(collection="feature_importance")))
    assert ended.run.tensor(name).steps() == steps
    assert ended.run.tensor("trees/Gain").steps() == [3]
