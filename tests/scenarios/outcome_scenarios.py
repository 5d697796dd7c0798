"""Runs with one outcome each: NaN, a spike, healthy, input-bound, stopped by hand, crashed, boosted trees."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from timelines import merge_by_time, training
from tree_scenarios import loss

from leadline.records.manifest import ActionSpec, RuleSpec
from leadline.records.series import TensorInfo
from leadline.testing.runs import SECOND_NS, START_NS, Capture, Part, RunWriter

RULES: Final = ("exploding_tensor", "loss_spike", "input_bound")
NOTIFICATION: Final = "notification.txt"
ACTION: Final = f'''
import os
from leadline.actions import Action, Outcome

class Tell(Action, frozen=True, kw_only=True):
    """Writes the message of a notification into the run directory."""

    def run(self, context):
        with open(os.path.join(context.run, "{NOTIFICATION}"), "w") as file:
            file.write(context.notification.message)
        return Outcome("told")
'''
_COMPUTE: Final = {"data": 1.0, "forward": 40.0, "backward": 50.0, "optimizer": 9.0}
_WAITING: Final = {"data": 64.0, "forward": 12.0, "backward": 20.0, "optimizer": 4.0}


def _losses(values: Sequence[float]) -> list[Part]:
    return [Capture(step, {"loss": {"value": value}}) for step, value in enumerate(values)]


def _falling(steps: int, start: float = 2.3) -> list[float]:
    """Return losses that fall with a little noise."""
    return [start * 0.999**step * (1.01 if step % 2 else 1.0) for step in range(steps)]


def _timed(steps: int, phases: dict[str, float]) -> list[Part]:
    timeline = training([phases] * steps, has_captures=False)
    losses = [
        Capture(step, {"loss": {"value": value}}, time_ns=START_NS + (step + 1) * SECOND_NS // 10)
        for step, value in enumerate(_falling(steps))
    ]
    return merge_by_time(timeline, losses)


def _writer(folder: Path, name: str, rules: Sequence[str] = RULES) -> RunWriter:
    action = ActionSpec("job", "tell.py:Tell", ("Completed", "Failed", "Stopped"), folder=str(folder))
    return RunWriter(folder / name, rules=[RuleSpec(rule, rule) for rule in rules], actions=[action])


def _end(writer: RunWriter, status: str = "Completed", *, exit_status: int = 0, stopped_by: str | None = None) -> str:
    writer.end(status, exit_status)
    writer.set_status(status, exit_status=exit_status, stopped_by=stopped_by, ended_ns=START_NS + 60 * SECOND_NS)
    return writer.path


def nan(folder: Path) -> str:
    """Write a run that a rule stopped for NaN, after a jump of the loss."""
    values = [*_falling(505), *[1.9e7] * 95, *[math.nan] * 3]
    return _end(
        _writer(folder, "nan", [*RULES, "nonfinite_origin"]).write_all(_losses(values)),
        "Stopped",
        exit_status=10,
        stopped_by="rule:exploding_tensor",
    )


def spike(folder: Path) -> str:
    """Write a run whose loss jumped and stayed there."""
    return _end(_writer(folder, "spike").write_all(_losses([*_falling(300), *[50.0] * 20])))


def recovered(folder: Path) -> str:
    """Write a run without a gradient at first, which has one from step 20 on."""
    infos = {
        name: TensorInfo(name, (collection,), (4, 4))
        for name, collection in (("a.weight", "weights"), ("gradient/a.weight", "gradients"))
    }
    norms = [0.0] * 20 + [0.5] * 20
    parts = [
        Capture(step, {"gradient/a.weight": {"abs_max": norm}, "a.weight": {"update_ratio": norm}}, infos=infos)
        for step, norm in enumerate(norms)
    ]
    return _end(_writer(folder, "recovered", ["no_gradient"]).write_all(parts))


def healthy(folder: Path) -> str:
    """Write a run without a problem, whose time goes into computing."""
    return _end(_writer(folder, "healthy").write_all(_timed(100, _COMPUTE)))


def input_bound(folder: Path) -> str:
    """Write a run that waits for its data most of the time."""
    return _end(_writer(folder, "input_bound").write_all(_timed(100, _WAITING)))


def stopped_by_hand(folder: Path) -> str:
    """Write a run that its user stopped."""
    writer = _writer(folder, "stopped").write_all(_timed(80, _COMPUTE))
    return _end(writer, "Stopped", exit_status=10, stopped_by="user")


def crashed(folder: Path) -> str:
    """Write a run whose script raised at step 37."""
    writer = _writer(folder, "crashed").write_all(_losses(_falling(37)))
    path = _end(writer, "Failed", exit_status=1)
    writer.write_worker("rank0-1", state="ended", error="RuntimeError: mat1 and mat2 shapes cannot be multiplied")
    return path


def boosted(folder: Path) -> str:
    """Write a run of a booster."""
    rounds = [loss(step, train=value, valid=1.1 * value) for step, value in enumerate(_falling(100, 0.7))]
    writer = _writer(folder, "boosted").write_all(rounds)
    path = _end(writer)
    writer.write_worker("rank0-1", state="ended", framework="xgboost")
    return path


SCENARIOS: Final[dict[str, tuple[Callable[[Path], str], str]]] = {
    "nan": (
        nan,
        r"Stopped at step 602 by exploding_tensor: loss is NaN \(found at step 600\)\. First sign at step 50\d: loss "
        r"jumped from 1\.\d+ to 1\.9e7 and stayed above \S+ for 5 steps\. Try: the last checkpoint before it "
        r"with half the learning rate, or clip gradients\.",
    ),
    "spike": (
        spike,
        r"Completed: 320 steps; 1 problem found by loss_spike: loss jumped from 1\.\d+ to 50 and stayed above \S+ for "
        r"5 steps \((found at )?step 30\d\)\. Try: the last checkpoint .*",
    ),
    "recovered": (
        recovered,
        r"Completed: 40 steps; 1 problem found by no_gradient: every gradient of 1 parameter is exactly 0 at "
        r"each of 3 captured steps \(0 to 2\), steps 2 to 19\. Try: .*",
    ),
    "healthy": (healthy, r"Completed: 100 steps, no problem found in values and losses \(3 rules clear\)\."),
    "input_bound": (
        input_bound,
        r"Completed: 100 steps; input-bound: 64 % of the step time is waiting for data.*; "
        r"no problem found in values and losses \(2 rules clear\)\. Try: reading the next batches.*",
    ),
    "stopped_by_hand": (
        stopped_by_hand,
        r"Stopped at step 79 by hand; no rule found a problem in values and losses \(3 rules clear\)\.",
    ),
    "crashed": (
        crashed,
        r"Failed with exit status 1 at step 37: RuntimeError: mat1 and mat2 shapes cannot be multiplied; no rule "
        r"found a problem in values and losses \(2 rules clear, 1 undecided\)\.",
    ),
    "boosted": (boosted, r"Completed: 100 steps, no problem found in values and losses \(2 rules clear.*\)\."),
}
"""For each name the function that writes the run, and a pattern of its outcome."""
