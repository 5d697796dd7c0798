"""What every framework adapter promises, as tests to inherit from."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

import pytest

import leadline
from leadline.reader.run import Run
from leadline.testing import adapter_driver

PATIENCE_SECONDS: Final = 300.0
_KEPT: Final = TemporaryDirectory(prefix="leadline-contract-")
"""Runs are written once for all tests of a contract."""


class AdapterContract:
    """The promises of a framework adapter; inherit, and say which training shows them.

    **Steps** - each train step is one, from 0 on, in order; what evaluates has its own mode.
    **Names** - tensors are called as documented, and are members of the collections that are documented.
    **The same to the bit** - a training that is watched has the same result, and the same random state, as one that is
    not; so has one in the middle of which our own code fails.
    **Switching off** - with ``LEADLINE_DISABLED`` nothing is written and nothing is replaced.
    **Leaving nothing** - what was replaced in the framework is put back.
    **Failing open** - a failure of ours is told, and nothing else ends.
    **Stopping** - ``TrainingStopped`` comes out of the script's own call, at the end of the step that was asked for.

    Attributes:
        python: The interpreter that has the framework.
        training: A file as ``leadline.testing.adapter_driver`` wants it; it trains longer than ``STOP_AT`` steps.
        framework: How the worker's document begins to name it.
        steps: Steps by mode.
        members: Some of what must be captured: names, and one collection of each.
    """

    python: ClassVar[str]
    training: ClassVar[Path]
    framework: ClassVar[str]
    steps: ClassVar[Mapping[str, int]]
    members: ClassVar[Mapping[str, str]]

    @classmethod
    def told(cls, deed: str) -> dict[str, Any]:
        """What came of the training."""
        return _drive(cls.python, str(cls.training), deed)

    @classmethod
    def run_of(cls, deed: str) -> Run:
        """The run that it left."""
        return leadline.open_run(cls.told(deed)["run"])

    @classmethod
    def collections(cls) -> dict[str, set[str]]:
        """Which collections were captured in which modes: what the table of support is made from."""
        run = cls.run_of("watched")
        found: dict[str, set[str]] = {}
        for name in run.tensor_names():
            tensor = run.tensor(name)
            for collection in tensor.collections:
                found.setdefault(collection, set()).update(mode for mode in run.modes() if tensor.steps(mode=mode))
        return found

    def test_steps_are_counted_mode_by_mode(self) -> None:
        run = self.run_of("watched")
        assert {mode: len(run.steps(mode=mode)) for mode in run.modes()} == dict(self.steps)
        every = sorted(step for mode in run.modes() for step in run.steps(mode=mode))
        assert every == list(range(sum(self.steps.values())))

    def test_names_and_collections(self) -> None:
        run = self.run_of("watched")
        found = {name: run.tensor(name).collections for name in self.members}
        assert {name: collection for name, collection in self.members.items() if collection not in found[name]} == {}

    def test_everything_is_on_disk_and_nothing_went_off(self) -> None:
        assert self.told("watched")["is_whole"]
        (document,) = self.run_of("watched").worker_documents().values()
        assert (document["off"], document["lost"]) == (None, None)
        assert document["framework"].startswith(self.framework)

    @pytest.mark.parametrize("deed", ["watched", "disabled", "failing"])
    def test_the_result_is_the_same_to_the_bit(self, deed: str) -> None:
        assert self.told(deed)["digest"] == self.told("bare")["digest"]

    def test_switched_off_it_does_nothing(self) -> None:
        told = self.told("disabled")
        assert not told["is_watched"]
        assert told["left"] == []
        assert list((Path(_KEPT.name) / _folder(str(self.training), "disabled")).iterdir()) == []

    @pytest.mark.parametrize("deed", ["watched", "failing", "stopped"])
    def test_nothing_of_ours_is_left(self, deed: str) -> None:
        assert self.told(deed)["left"] == []

    def test_a_failure_of_ours_is_told(self) -> None:
        (document,) = self.run_of("failing").worker_documents().values()
        assert "planted" in document["off"]["error"]
        assert document["off"]["step"] == adapter_driver.FAIL_AT

    def test_it_stops_at_the_end_of_the_step_that_was_asked_for(self) -> None:
        told = self.told("stopped")
        assert f"at step {adapter_driver.STOP_AT}: the contract asks" in told["stopped"]
        run = leadline.open_run(told["run"])
        assert max(step for mode in run.modes() for step in run.steps(mode=mode)) == adapter_driver.STOP_AT


@lru_cache(maxsize=64)
def _drive(python: str, training: str, deed: str) -> dict[str, Any]:
    folder = Path(_KEPT.name) / _folder(training, deed)
    folder.mkdir()
    words = [python, "-m", adapter_driver.__name__, training, str(folder), deed]
    env = {name: value for name, value in os.environ.items() if not name.startswith("LEADLINE")}
    env |= {"OMP_NUM_THREADS": "1"} | ({} if deed not in ("bare", "disabled") else {"LEADLINE_DISABLED": "1"})
    ended = subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def _folder(training: str, deed: str) -> str:
    return f"{Path(training).stem}-{deed}"
