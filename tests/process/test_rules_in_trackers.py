"""Rule states logged to the trackers of the script: its own metrics and the training are unchanged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from launching import LEADLINE, PATIENCE, Ended, environment, finish, script, show
from test_loggers import OFFLINE, PYTHON

NAME = "leadline/between"
EVENTS = [["board", NAME, 3, [1.0]], ["board", NAME, 11, [0.0]]]
METRICS = [[NAME, "1.0", 3], [NAME, "0.0", 11]]
KINDS: dict[str, dict[str, list[Any]]] = {
    "tensorboard": {"tensorboard": EVENTS},
    "tensorboardx": {"tensorboard": EVENTS},
    "wandb": {"wandb": [1.0]},
    "wandb_by_steps": {"wandb": [1.0]},
    "wandb_plainly": {"wandb": [1.0]},
    "mlflow": {"mlflow": METRICS},
    "mlflow_client": {"mlflow": METRICS},
    "several": {"tensorboard": EVENTS, "wandb": [1.0]},
    "none": {},
}
"""Rows of rule states by training; states logged to wandb after its last row are only in its summary."""
TITLES = {"tensorboard": "TensorBoard /", "wandb": "wandb run ", "mlflow": "MLflow run "}
NOWHERE = "the script has no live wandb, MLflow or TensorBoard run"
LIBRARIES = ("wandb", "mlflow", "tensorboard", "tensorboardX", "comet_ml")


def launch(kinds: Sequence[str], folder: Path, *options: str) -> Ended:
    words = [PYTHON, script("tracked.py"), str(folder), *kinds]
    if options:
        own = ("--out", str(folder / "runs"), "--budget", "off", "--no-default-rules")
        words = [PYTHON, *LEADLINE[1:], "run", *own, *options, "--", *words]
    env = environment(**OFFLINE, HOME=str(folder))
    ended = finish(words, folder, env=env, patience=len(kinds) * PATIENCE)
    assert ended.status == 0, ended.err
    return ended


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all trainings without Leadline; return the folder of their diaries."""
    folder = tmp_path_factory.mktemp("bare")
    launch([*KINDS, "hanging"], folder)
    return folder


def diary(folder: Path, kind: str) -> dict[str, Any]:
    return dict(json.loads((folder / f"{kind}.json").read_text()))


def taken_apart(kept: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the rows of the script and the rows of Leadline."""
    theirs = {
        "wandb": [{key: value for key, value in row.items() if key != NAME} for row in kept["wandb"]],
        "tensorboard": [row for row in kept["tensorboard"] if row[1] != NAME],
        "mlflow": [row for row in kept["mlflow"] if row[0] != NAME],
    }
    ours = {
        "wandb": [row[NAME] for row in kept["wandb"] if NAME in row],
        "tensorboard": [row for row in kept["tensorboard"] if row[1] == NAME],
        "mlflow": [row for row in kept["mlflow"] if row[0] == NAME],
    }
    return theirs, {library: rows for library, rows in ours.items() if rows}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_rule_states_are_logged_to_the_trackers_and_rows_of_the_script_are_unchanged(
    tmp_path: Path, bare: Path, kind: str
) -> None:
    ended = launch([kind], tmp_path, "--rule", f"{script('between.py')}:Between", "--on", "between=tracker")
    without, told = diary(bare, kind), diary(tmp_path, kind)
    theirs, ours = taken_apart(told)
    assert told["digest"] == without["digest"]
    assert theirs == taken_apart(without)[0]
    assert ours == KINDS[kind]
    if "wandb" in ours:
        assert told["summary"] == without["summary"] | {NAME: 0.0}
    assert not {name.partition(".")[0] for name in {*told["imported"]} - {*without["imported"]}} & {*LIBRARIES}
    metrics = {*ended.run.tensor_names(collection="metrics")}
    assert not {name for name in metrics if "between" in name}
    for outcome in outcomes(ended):
        assert all(TITLES[library] in outcome for library in ours), outcome
        assert outcome.startswith("logged to ") if ours else outcome.endswith(NOWHERE)


def outcomes(ended: Ended) -> list[str]:
    """Return the outcomes of the notifications of the rule."""
    notices = ("between/opened/3", "between/closed/3")
    found = {action["notice"]: action for action in show(ended.run.path)["actions"] if action["notice"] in notices}
    assert {action["state"] for action in found.values()} <= {"done", "failed"}
    return [str(found[notice]["outcome"]) for notice in notices]


@pytest.mark.slow
def test_a_hanging_server_does_not_change_the_training_and_delays_its_end_only_briefly(
    tmp_path: Path, bare: Path
) -> None:
    rule = f"{script('between.py')}:Between"
    ended = launch(["hanging"], tmp_path, "--rule", rule, "--on", "between=tracker:mlflow")
    assert diary(tmp_path, "hanging")["digest"] == diary(bare, "hanging")["digest"]
    (document,) = ended.run.worker_documents().values()
    assert (document.off, document.lost, document.notes) == (None, None, ())
    assert "failed: the script ended while its tracker did not respond" in outcomes(ended)
