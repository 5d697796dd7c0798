"""The examples, alone and under ``leadline run``: same results, judged live."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from launching import LEADLINE, MXNET, environment, finish, needs_mxnet

ROOT = Path(__file__).parents[2]
TREES = str(ROOT / ".venvs" / "trees" / "bin" / "python")
EXAMPLES = {
    "numpy_loop.py": (
        sys.executable,
        {"train": 200, "eval": 10},
        {"weight": "weights", "gradient/weight": "gradients"},
    ),
    "mxnet_module.py": (MXNET, {"train": 80}, {"fc1_weight": "weights", "gradient/fc1_weight": "gradients"}),
    "sklearn_partial_fit.py": (TREES, {"train": 120, "eval": 3}, {"coef": "weights", "intercept": "biases"}),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[needs_mxnet] if "mxnet" in name else []) for name in EXAMPLES]
)
def test_an_example_is_captured_and_judged(tmp_path: Path, name: str) -> None:
    python, steps, members = EXAMPLES[name]
    script = str(ROOT / "examples" / name)
    bare = finish([python, script], tmp_path, env=environment(LEADLINE_DISABLED="1"))
    words = [python, *LEADLINE[1:], "run", "--out", str(tmp_path / "runs"), "--rule", "loss_not_decreasing", script]
    watched = finish(words, tmp_path, env=environment())
    assert (bare.status, watched.status) == (0, 0), bare.err + watched.err
    assert watched.out == bare.out
    run = watched.run
    assert {mode: len(run.steps(mode=mode)) for mode in run.modes()} == steps
    assert {tensor: run.tensor(tensor).collections for tensor in members} == {
        tensor: (of,) for tensor, of in members.items()
    }
    verdicts = {rule["name"]: rule["verdict"] for rule in watched.show()["rules"]}
    assert verdicts["loss_not_decreasing"] == "clear"
    assert not (tmp_path / "leadline-runs").exists()


def test_every_example_is_tested() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == EXAMPLES.keys()


@pytest.mark.slow
def test_a_rule_stops_a_loop_that_is_captured_only_by_a_hook(tmp_path: Path) -> None:
    script = tmp_path / "loop.py"
    script.write_text(LOOP)
    words = [*LEADLINE, "run", "--out", str(tmp_path / "runs"), "--on", "exploding_tensor=stop_training", str(script)]
    ended = finish(words, tmp_path, env=environment())
    assert ended.status == 10, ended.err
    assert "never" not in ended.out
    assert ended.show()["stopped_by"] == "rule:exploding_tensor"


LOOP = """
import leadline

hook = leadline.Hook()
for step in range(1_000_000):
    hook.log(loss=float("nan") if step == 20 else 1.0)
    hook.step()
print("never")
"""
