"""Metrics that a script logs through other libraries: captured as scalars, without effect on libraries and training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from launching import LEADLINE, Ended, environment, finish, script

import leadline
from leadline.reader.run import Run

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "loggers" / "bin" / "python")
KINDS = (
    "tensorboard",
    "tensorboardx",
    "wandb",
    "mlflow",
    "torchmetrics",
    "lightning",
    "pytorch_lightning",
    "transformers",
    "accelerate",
)
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "WANDB_MODE": "offline",
    "DO_NOT_TRACK": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
OWN_NAMES = {
    "mlflow": {"cross_entropy_output_0": "metrics/cross_entropy_output_0", "accuracy": "metrics/accuracy"},
}
"""Stored names of metrics whose name in the script is that of a loss or of Leadline's accuracy."""
BESIDES = {"accuracy", "epoch"}
"""Metrics missing in the diaries: Leadline's accuracy, and the Trainer's epoch, logged several times a step."""


def finished(folder: Path, name: str, *arguments: str) -> Ended:
    """Run a script, whose first argument is the folder, until it has ended well."""
    words = [PYTHON, script(name), str(folder), *arguments]
    ended = finish(words, folder, env=environment(**OFFLINE, HOME=str(folder)))
    assert ended.status == 0, ended.err
    return ended


def diary(folder: Path, kind: str) -> dict[str, Any]:
    return dict(json.loads((folder / f"{kind}.json").read_text()))


@pytest.fixture(scope="module")
def unwatched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all trainings without Leadline, one after the other in one process; return the folder."""
    folder = tmp_path_factory.mktemp("bare")
    finished(folder, "logged.py", *KINDS)
    return folder


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Do the same with Leadline: each training is a run of its own, and its library is imported while it is captured.

    The libraries that several use are imported before all of these but the first.
    """
    folder = tmp_path_factory.mktemp("watched")
    finished(folder, "logged.py", "--watched", *KINDS)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_metrics_logged_to_a_library_are_captured(watched: Path, unwatched: Path, kind: str) -> None:
    told = diary(watched, kind)
    assert told["digest"] == diary(unwatched, kind)["digest"]
    check(leadline.open_run(watched / "leadline-runs" / kind), told["kept"], OWN_NAMES.get(kind, {}))


def check(run: Run, kept: dict[str, list[float]], names: dict[str, str]) -> None:
    """Check that a run has exactly the metrics that the library has kept, and no complaint."""
    captured = metrics(run)
    assert captured.keys() - BESIDES == {names.get(name, name) for name in kept} - BESIDES
    for name, values in kept.items():
        assert captured[names.get(name, name)] == pytest.approx(values, rel=1e-6), name
    (document,) = run.worker_documents().values()
    assert (document.off, document.lost, document.notes) == (None, None, ())


def metrics(run: Run) -> dict[str, list[float]]:
    """Return the metrics by name, ordered by step; check that no step has two values of one name."""
    found: dict[str, list[float]] = {}
    names = set(run.tensor_names(collection="metrics"))
    rows = [row for row in run.scalars().to_pylist() if row["name"] in names]
    assert len({(row["name"], row["step"]) for row in rows}) == len(rows)
    for row in rows:
        found.setdefault(row["name"], []).append(row["value"])
    return found


@pytest.mark.slow
def test_leadline_imports_no_logging_library(tmp_path: Path, unwatched: Path) -> None:
    words = ["run", "--out", str(tmp_path / "runs"), "--preset", "light", "--", PYTHON, script("logged.py")]
    env = environment(**OFFLINE, HOME=str(tmp_path))
    ended = finish([PYTHON, *LEADLINE[1:], *words, str(tmp_path), "tensorboardx"], tmp_path, env=env)
    assert ended.status == 0, ended.err
    told = diary(tmp_path, "tensorboardx")
    imported = {name.partition(".")[0] for name in told["imported"]}
    assert not imported & {"wandb", "mlflow", "torchmetrics", "lightning", "pytorch_lightning", "transformers"}
    assert "torch.utils.tensorboard" not in told["imported"]
    assert told["digest"] == diary(unwatched, "tensorboardx")["digest"]
    check(ended.run, told["kept"], {})


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what remains of two sessions, the second of which begins after the libraries were imported."""
    return dict(json.loads(finished(tmp_path_factory.mktemp("left"), "loggers_left.py").lines[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("session", ["begins_first", "begins_last"])
def test_all_patches_of_the_libraries_are_removed(left: dict[str, Any], session: str) -> None:
    """With imports before and after the start of the session, and with compiled and pickled objects."""
    told = left[session]
    assert told["replaced"] == told["all"]
    assert told["left"] == []
    assert told["are_names_kept"]
    assert told["copies"] == [1.0, 1.0]
    assert told["compiled"] == left["bare"]
    assert not [finder for finder in told["finders"] if "leadline" in finder]


@pytest.mark.slow
def test_trainers_tell_the_steps_of_an_optimizer_that_counts_none(left: dict[str, Any]) -> None:
    assert left["steps"] == [*range(4), *range(4, 8), *range(4)]
