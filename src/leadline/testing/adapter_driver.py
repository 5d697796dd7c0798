"""Runs one training in a process of its own, for the contract of adapters; tells what came of it as JSON.

Arguments: a Python file, a folder, and what is done: ``bare``, ``watched``, ``disabled``, ``failing``, ``stopped``.

The file defines ``train()``, which gives the trained model's bytes; ``owners()``, the classes and modules of the
framework in which an adapter might leave something; and ``CAPTURE``, in the words of ``--capture``.
"""

from __future__ import annotations

import hashlib
import json
import random
import runpy
import sys
import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from leadline.errors import TrainingStopped
from leadline.hook import StandaloneRun
from leadline.records.request import Request
from leadline.records.series import StepStamp
from leadline.store.control import write_request
from leadline.training.recorder.step_recorder import Recorder

STOP_AT: Final = 3
"""The step at whose end the training is asked to stop."""
FAIL_AT: Final = 2
"""The step in which our own code fails."""


class Driver:
    """One training, and what surrounds it.

    Args:
        file: The training.
        folder: Where its run is written.
    """

    def __init__(self, file: str, folder: str) -> None:
        self._given: Mapping[str, Any] = runpy.run_path(file, run_name="training")
        self._folder = folder

    def bare(self) -> dict[str, Any]:
        """Nobody watches."""
        return self._train()

    def watched(self) -> dict[str, Any]:
        """Everything is captured."""
        before = self._traces()
        alone = self._begin()
        during = self._traces()
        told = self._train()
        is_whole = alone.close()
        return {**told, "run": alone.run, "is_whole": is_whole, "is_replaced": during != before, **self._left(before)}

    def disabled(self) -> dict[str, Any]:
        """It was switched off by the environment."""
        before = self._traces()
        alone = self._begin()
        return {**self._train(), **self._left(before), "is_watched": alone.session is not None}

    def failing(self) -> dict[str, Any]:
        """Our own code fails in the middle of it."""
        before = self._traces()
        original = Recorder._end

        def fail(recorder: Recorder, stamp: StepStamp, taken: Mapping[str, Any]) -> None:
            if recorder.clock.step == FAIL_AT:
                raise RuntimeError("planted")
            original(recorder, stamp, taken)

        setattr(Recorder, "_end", fail)  # noqa: B010 - a method of a class, which mypy would not have replaced
        alone = self._begin()
        told = {**self._train(), **self._left(before)}
        alone.close()
        return {**told, "run": alone.run}

    def stopped(self) -> dict[str, Any]:
        """Somebody asks it to stop at the end of a step."""
        before = self._traces()
        alone = self._begin()
        asked = Request(
            "1-stop", "stop", step=STOP_AT, reason="the contract asks", by="contract", time_ns=time.time_ns()
        )
        write_request(alone.run, asked)
        told: dict[str, Any] = {"stopped": ""}
        try:
            self._train()
        except TrainingStopped as stop:
            told["stopped"] = str(stop)
        alone.close()
        return {**told, "run": alone.run, **self._left(before)}

    # --- inside -------------------------------------------------------------------------------------------

    def _begin(self) -> StandaloneRun:
        return StandaloneRun(out=self._folder, name="run", preset="full", capture=self._given["CAPTURE"], budget="off")

    def _train(self) -> dict[str, Any]:
        random.seed(1)
        model = self._given["train"]()
        return {"digest": hashlib.sha256(bytes(model) + repr(random.getstate()).encode()).hexdigest()}

    def _traces(self) -> dict[str, int]:
        """What stands behind each name in which an adapter might leave something; of collections also how many."""
        return {
            f"{getattr(owner, '__name__', owner)} {name}": hash((id(value), _count(value)))
            for owner in self._given["owners"]()
            for name, value in list(vars(owner).items())
            if not isinstance(value, ModuleType)  # such come by being imported, whoever did it
        }

    def _left(self, before: Mapping[str, int]) -> dict[str, Any]:
        now = self._traces()
        return {"left": sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))}


def _count(value: object) -> int:
    return len(value) if isinstance(value, (dict, list, set)) else 0


def main(file: str, folder: str, deed: str) -> None:
    driver = Driver(file, folder)
    deeds: dict[str, Callable[[], dict[str, Any]]] = {
        "bare": driver.bare,
        "watched": driver.watched,
        "disabled": driver.disabled,
        "failing": driver.failing,
        "stopped": driver.stopped,
    }
    sys.stdout.write("\n" + json.dumps(deeds[deed]()) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
