"""Metrics that a script logs through other libraries: captured as scalars, without effect on libraries and training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from launching import LEADLINE, Ended, environment, finish, script

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
    "PYTHONWARNINGS": "default",
}
OWN_NAMES = {
    "mlflow": {"cross_entropy_output_0": "metrics/cross_entropy_output_0", "accuracy": "metrics/accuracy"},
}
"""Stored names of metrics whose name in the script is that of a loss or of Leadline's accuracy."""
BESIDES = {"accuracy", "epoch"}
"""Metrics missing in the diaries: Leadline's accuracy, and the Trainer's epoch, logged several times a step."""


def launch(kind: str, folder: Path, *options: str) -> Ended:
    words = [PYTHON, script("logged.py"), str(folder), kind]
    if options:
        words = [PYTHON, *LEADLINE[1:], "run", "--out", str(folder / "runs"), *options[1:], "--", *words]
    return finish(words, folder, env=environment(**OFFLINE, HOME=str(folder)))


def diary(folder: Path, kind: str) -> dict[str, Any]:
    return dict(json.loads((folder / f"{kind}.json").read_text()))


@pytest.fixture(scope="module")
def unwatched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all trainings without Leadline, one after the other in one process; return the folder."""
    folder = tmp_path_factory.mktemp("bare")
    ended = finish(
        [PYTHON, script("logged.py"), str(folder), *KINDS], folder, env=environment(**OFFLINE, HOME=str(folder))
    )
    assert ended.status == 0, ended.err
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_metrics_logged_to_a_library_are_captured(tmp_path: Path, unwatched: Path, kind: str) -> None:
    ended = launch(kind, tmp_path, "run", "--preset", "light")
    assert ended.status == 0, ended.err
    told = diary(tmp_path, kind)
    assert told["digest"] == diary(unwatched, kind)["digest"]
    captured = metrics(ended.run)
    names = OWN_NAMES.get(kind, {})
    assert captured.keys() - BESIDES == {names.get(name, name) for name in told["kept"]} - BESIDES
    for name, values in told["kept"].items():
        assert captured[names.get(name, name)] == pytest.approx(values, rel=1e-6), name
    (document,) = ended.run.worker_documents().values()
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
    ended = launch("tensorboardx", tmp_path, "run")
    assert ended.status == 0, ended.err
    imported = {name.partition(".")[0] for name in diary(tmp_path, "tensorboardx")["imported"]}
    assert not imported & {"wandb", "mlflow", "torchmetrics", "lightning", "pytorch_lightning", "transformers"}
    assert "torch.utils.tensorboard" not in diary(tmp_path, "tensorboardx")["imported"]


@pytest.mark.slow
@pytest.mark.parametrize("session", ["begins_first", "begins_last"])
def test_all_patches_of_the_libraries_are_removed(tmp_path: Path, session: str) -> None:
    """With imports before and after the start of the session, and with compiled and pickled objects."""
    env = environment(**OFFLINE, HOME=str(tmp_path))
    watched, bare = (
        finish([PYTHON, script("loggers_left.py"), kind, str(tmp_path)], tmp_path, env=env)
        for kind in (session, "bare")
    )
    assert (watched.status, bare.status) == (0, 0), watched.err + bare.err
    told = json.loads(watched.lines[-1])
    assert told["replaced"] == told["all"]
    assert told["left"] == []
    assert told["are_names_kept"]
    assert told["copies"] == [1.0, 1.0]
    assert told["compiled"] == json.loads(bare.lines[-1])["compiled"]
    assert not [finder for finder in told["finders"] if "leadline" in finder]


@pytest.mark.slow
def test_trainers_tell_the_steps_of_an_optimizer_that_counts_none(tmp_path: Path) -> None:
    env = environment(**OFFLINE, HOME=str(tmp_path), LEADLINE_DISABLED="1")
    ended = finish([PYTHON, script("counted_by_trainers.py"), str(tmp_path)], tmp_path, env=env)
    assert ended.status == 0, ended.err
    assert json.loads(ended.lines[-1]) == [*range(4), *range(4, 8), *range(4)]
