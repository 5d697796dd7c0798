"""Runs one training in a process of its own, for the adapter contract; prints the result as JSON.

Arguments: a Python file, a folder, and the scenario: ``bare``, ``watched``, ``selected``, ``disabled``,
``failing``, ``stopped``.

The file defines ``train()``, which returns the bytes of the trained model; ``owners()``, the classes and modules of
the framework that an adapter might modify; and ``CAPTURE``, a list of ``--capture`` options.
"""

from __future__ import annotations

import hashlib
import json
import random
import runpy
import sys
import time
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final, TypedDict

from leadline.errors import TrainingStopped
from leadline.hook import StandaloneRun
from leadline.records.request import Stop
from leadline.records.series import StepStamp
from leadline.store.control import write_request
from leadline.training.recorder.step_output import StepOutput

STOP_AT: Final = 3
"""The global step at whose end the training is requested to stop."""
SELECTED: Final = "mine:regex=gradient_norm$,every=1"
"""A custom collection of a number that an adapter computes."""
FAIL_AT: Final = 2
"""The train step in which our own code fails."""


class ScenarioResult(TypedDict, total=False):
    """What a scenario has found; each has a part of it."""

    digest: str
    """Of the trained model and the state of random numbers."""
    run: str
    is_complete: bool
    """Whether everything was written."""
    is_replaced: bool
    """Whether the adapter has replaced something while it captured."""
    is_captured: bool
    left: list[str]
    """What the adapter has left behind."""
    stopped: str
    """The message of the stop."""


class Driver:
    """Runs one training in each scenario.

    Args:
        file: The training.
        folder: The runs directory.
    """

    def __init__(self, file: str, folder: str) -> None:
        self._training: Mapping[str, Any] = runpy.run_path(file, run_name="training")
        self._folder = folder

    def bare(self) -> ScenarioResult:
        """Train without capture."""
        return self._train()

    def watched(self) -> ScenarioResult:
        """Train with full capture."""
        before = self._traces()
        standalone = self._begin()
        during = self._traces()
        result = self._train()
        is_complete = standalone.close()
        return {
            **result,
            "run": standalone.run,
            "is_complete": is_complete,
            "is_replaced": during != before,
            **self._left(before),
        }

    def selected(self) -> ScenarioResult:
        """Train while nothing but the norms of all gradients is captured, as a custom collection."""
        standalone = StandaloneRun(out=self._folder, name="run", preset=None, capture=[SELECTED], budget="off")
        result = self._train()
        standalone.close()
        return {**result, "run": standalone.run}

    def disabled(self) -> ScenarioResult:
        """Train with capture disabled by the environment."""
        before = self._traces()
        standalone = self._begin()
        return {**self._train(), **self._left(before), "is_captured": standalone.session is not None}

    def failing(self) -> ScenarioResult:
        """Train while our own code fails in the middle of it."""
        before = self._traces()
        original = StepOutput.end_step

        def fail(output: StepOutput, stamp: StepStamp, *args: Any, **options: Any) -> None:
            if stamp.mode == "train" and stamp.mode_step == FAIL_AT:
                raise RuntimeError("planted")
            original(output, stamp, *args, **options)

        setattr(StepOutput, "end_step", fail)  # noqa: B010 - a method of a class, which mypy would not have replaced
        standalone = self._begin()
        result: ScenarioResult = {**self._train(), **self._left(before)}
        standalone.close()
        return {**result, "run": standalone.run}

    def stopped(self) -> ScenarioResult:
        """Request a stop at the end of a step."""
        before = self._traces()
        standalone = self._begin()
        request = Stop("1-stop", step=STOP_AT, reason="the contract requests it", by="contract", time_ns=time.time_ns())
        write_request(standalone.run, request)
        result: ScenarioResult = {"stopped": ""}
        try:
            self._train()
        except TrainingStopped as stop:
            result["stopped"] = str(stop)
        standalone.close()
        return {**result, "run": standalone.run, **self._left(before)}

    # --- inside -------------------------------------------------------------------------------------------

    def _begin(self) -> StandaloneRun:
        return StandaloneRun(
            out=self._folder, name="run", preset="full", capture=self._training["CAPTURE"], budget="off"
        )

    def _train(self) -> ScenarioResult:
        random.seed(1)
        model = self._training["train"]()
        return {"digest": hashlib.sha256(bytes(model) + repr(random.getstate()).encode()).hexdigest()}

    def _traces(self) -> dict[str, int]:
        """Return a hash of each value that an adapter might modify; of collections also their size."""
        return {
            f"{getattr(owner, '__name__', owner)} {name}": hash((id(value), _count(value)))
            for owner in self._training["owners"]()
            for name, value in list(vars(owner).items())
            if not isinstance(value, ModuleType)  # modules appear by being imported
        }

    def _left(self, before: Mapping[str, int]) -> ScenarioResult:
        now = self._traces()
        return {"left": sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))}


def _count(value: object) -> int:
    return len(value) if isinstance(value, (dict, list, set)) else 0


def main(file: str, folder: str, scenario: str) -> None:
    result = getattr(Driver(file, folder), scenario)()
    sys.stdout.write("\n" + json.dumps(result) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
