"""``leadline diagnose``: verdicts on logs of faulty and of healthy trainings, and what it leaves behind."""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from leadline.cli.app import application
from leadline.logs.write_run import collections_of, is_supervised
from leadline.mcp.answers import diagnose as mcp_diagnose

NOISE = random.Random(7)


def falling(step: int) -> float:
    return 2.5 * math.exp(-step / 60) + 0.05 + 0.02 * NOISE.random()


def learned(step: int) -> float:
    return 1.2 + 1.3 * math.exp(-step / 60)


def overfitted(step: int) -> float:
    return learned(step) + max(0, step - 100) * 0.006


def gaining(step: int) -> float:
    return 5.0 - learned(step)


def rising(step: int) -> float:
    return 2.0 * math.exp(step / 89) + 0.1 * NOISE.random()


def breaking(step: int) -> float:
    return math.nan if step > 250 else falling(step)


def table(folder: Path, **columns: Any) -> str:
    lines = [",".join(("step", *columns))]
    lines += [",".join(map(str, (step, *(of(step) for of in columns.values())))) for step in range(0, 400, 2)]
    path = folder / "metrics.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def diagnosed(*words: str, status: int = 0, text: str | None = None) -> str:
    result = CliRunner().invoke(application("diagnose"), ["diagnose", *words], input=text, standalone_mode=False)
    assert result.exception is None, result.exception
    assert (result.return_value or 0) == status
    return result.stdout


@pytest.mark.parametrize("is_file", [True, False])
def test_what_the_driver_of_verl_logs_is_judged_by_its_roles(tmp_path: Path, is_file: bool) -> None:
    """Its console prints ``step:1 - name:value``, through Ray; its file has an object in each line."""
    lines = []
    for step in range(1, 120):
        values = {"actor/entropy": 2 * math.exp(-step / 20), "critic/score/mean": 0.3, "actor/pg_loss": 0.01}
        shown = [
            f"actor/entropy:np.float64({values['actor/entropy']!r})",
            "critic/score/mean:0.3",
            "actor/pg_loss:0.01",
        ]
        text = f"(TaskRunner pid=7) step:{step} - {' - '.join(shown)}"
        lines.append(json.dumps({"step": step, "data": values}) if is_file else text)
    path = tmp_path / ("verl.jsonl" if is_file else "verl.log")
    path.write_text("\n".join(lines) + "\n")
    result = json.loads(diagnosed("--json", str(path)))
    fired = {rule["name"]: rule["findings"] for rule in result["rules"] if rule["findings"]}
    assert list(fired) == ["entropy_collapse"]
    assert "actor/entropy fell from 1.9 to " in fired["entropy_collapse"][0]["message"]


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"train_loss": rising}, "diverging_loss"),
        ({"train_loss": breaking}, "exploding_tensor"),
        ({"train_loss": falling, "val_loss": overfitted}, "generalization_gap"),
        ({"train_loss": falling, "val_loss": learned}, None),
        ({"train_loss": falling}, None),
        ({"loss": rising, "episode_reward_mean": gaining}, None),
        ({"d_loss": falling, "g_loss": rising}, None),
    ],
)
def test_a_log_is_judged(tmp_path: Path, columns: dict[str, Any], named: str | None) -> None:
    result = json.loads(diagnosed("--json", "--fail-on-issues", table(tmp_path, **columns), status=int(bool(named))))
    fired = {rule["name"] for rule in result["rules"] if rule["findings"]}
    assert (named in fired) if named else not fired
    assert not [rule for rule in result["rules"] if rule["status"] == "Error"]
    assert {"vanishing_gradient", "no_gradient"} & set(result["not_applicable"])
    assert not {rule["name"] for rule in result["rules"]} & set(result["not_applicable"])
    assert os.listdir(tmp_path) == ["metrics.csv"]


def test_a_few_evaluations_do_not_hide_a_loss_that_rises(tmp_path: Path) -> None:
    history: list[dict[str, Any]] = [{"step": step, "loss": rising(step)} for step in range(1, 400, 2)]
    history[40:40] = [{"step": history[40]["step"], "eval_loss": 1.0}]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    result = json.loads(diagnosed("--json", str(tmp_path)))
    assert [rule["name"] for rule in result["rules"] if rule["findings"]] == ["diverging_loss"]


def trainer_state(folder: Path, evaluations: Sequence[float], *, later: Sequence[float] = ()) -> str:
    """Write the state of a trainer that logs every 10 steps, evaluates every 20, and some evaluations after its end."""
    history: list[dict[str, Any]] = []
    for step in range(10, 20 * len(evaluations) + 1, 10):
        history.append({"step": step, "epoch": step / 20, "loss": round(0.65 * math.exp(-step / 40) + 0.02, 4)})
        if not step % 20:
            history.append({"step": step, "epoch": step / 20, "eval_loss": evaluations[step // 20 - 1]})
    end = {"step": 20 * len(evaluations), "epoch": float(len(evaluations))}
    history += [{**end, "train_runtime": 3.0, "train_loss": 0.2}, *({**end, "eval_loss": loss} for loss in later)]
    path = folder / "trainer_state.json"
    path.write_text(json.dumps({"log_history": history, "max_steps": 200}))
    return str(path)


@pytest.mark.parametrize("later", [[], [0.455]])
def test_a_textbook_overfit_of_six_evaluations_is_the_headline(tmp_path: Path, later: list[float]) -> None:
    path = trainer_state(tmp_path, [0.61, 0.5, 0.455, 0.48, 0.53, 0.592], later=later)
    document = json.loads(diagnosed("--json", path))
    outcome = document["outcome"]
    assert outcome["headline"].startswith(
        "Completed: 120 steps; overfitting since step 60: eval_loss 0.455 → 0.592 at step 120, while the mean "
    )
    assert outcome["advice"].startswith("the checkpoint of step 60, early stopping")
    assert (outcome["level"], outcome["word"], outcome["remarks"]) == ("advice", "advice", [])
    assert outcome["text"].count("overfitting") == 1
    assert outcome["best_evaluation"].startswith("best of 6 evaluations: step 60, eval_loss 0.455 (")
    assert document["planned_steps"] == 200
    answer = mcp_diagnose(path)
    assert (answer["verdict"], answer["planned_steps"]) == ("advice", 200)
    assert answer["text"] == outcome["text"]
    assert answer["first_sign"].startswith("overfitting since step 60: ")


@pytest.mark.parametrize(
    "evaluations",
    [[0.6, 0.5, 0.46, 0.45, 0.448, 0.447], [0.6, 0.5, 0.46, 0.452, 0.444, 0.451, 0.446, 0.453, 0.447, 0.45]],
)
def test_evaluations_that_flatten_are_no_headline(tmp_path: Path, evaluations: list[float]) -> None:
    assert json.loads(diagnosed("--json", trainer_state(tmp_path, evaluations)))["outcome"]["level"] == "clear"


def test_what_is_printed_names_the_log_its_steps_and_what_it_cannot_show(tmp_path: Path) -> None:
    text = "".join(
        f"Epoch {epoch}: train loss {falling(8 * epoch)}, val loss {overfitted(8 * epoch)}\n" for epoch in range(1, 41)
    )
    shown = " ".join(diagnosed("-", text=text).split())
    assert shown.startswith("printed text: 2 names in 40 rows, epoch 1 to 40; a step is one epoch here standard-input")
    assert "40 steps; overfitting since step" in shown
    assert "Completed" not in shown
    assert "run the training under it: leadline run train.py" in shown
    assert "no such run" not in shown


def test_a_log_is_kept_as_a_run_that_other_commands_show(tmp_path: Path) -> None:
    path = table(tmp_path, train_loss=rising)
    diagnosed(path, "--keep", str(tmp_path / "runs" / "mine"))
    shown = CliRunner().invoke(application("show"), ["show", str(tmp_path / "runs" / "mine"), "--json"])
    document = json.loads(shown.stdout)
    assert document["command"] == ["leadline", "diagnose", path]
    assert document["steps"] == {"train": 399}
    assert [rule["name"] for rule in document["rules"] if rule["findings"]] == ["diverging_loss"]
    again = CliRunner().invoke(application("diagnose"), ["diagnose", path, "--keep", str(tmp_path / "runs" / "mine")])
    assert "exists; choose another name" in str(again.exception)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train/loss", ("losses", "scalars", "logged")),
        ("eval_loss", ("losses", "scalars", "logged")),
        ("grad_norm", ("metrics", "gradient_norms", "role:gradient_norm")),
        ("accuracy", ("metrics",)),
        ("policy_loss", ("metrics",)),
    ],
)
def test_the_collections_of_a_number(name: str, expected: tuple[str, ...]) -> None:
    assert collections_of(name, is_supervised=True) == expected


@pytest.mark.parametrize("names", [{"loss", "rollout/ep_rew_mean", "reward"}, {"loss_D", "loss_G"}, {"critic_loss"}])
def test_games_and_searches_are_not_taken_for_supervised(names: set[str]) -> None:
    assert not is_supervised(names)
    assert is_supervised({"train_loss", "val_acc", "lr"})
