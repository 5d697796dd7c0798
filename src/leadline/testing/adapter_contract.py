"""Contract tests of framework adapters, to inherit from."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Final, cast

import pytest

import leadline
from leadline.reader.run import Run
from leadline.records.loss_facts import FACTS
from leadline.records.names import CHECKS
from leadline.records.recorded_facts import (
    RECORDED_CHECKS,
    RECORDED_FACTS,
    UNRECORDED_COLLECTIONS,
    recorded_framework,
)
from leadline.testing import adapter_driver
from leadline.testing.adapter_driver import ScenarioResult

TIMEOUT_SECONDS: Final = 300.0
_FOLDER: Final = TemporaryDirectory(prefix="leadline-contract-")
"""The folder of the runs, each written once for all tests of a contract."""


class AdapterContract:
    """The promises of a framework adapter; inherit, and name a training that tests them.

    **Steps** - train steps are numbered from 0, in order; evaluation has its own mode.
    **Names** - tensors have the documented names and collections.
    **Custom collections** - a regular expression selects what the adapter computes of several tensors, too: the norm of
    all gradients.
    **Bit-identical** - a captured training has the same result and the same random state as one without capture, also
    if our own code fails in the middle of it.
    **Disabling** - with ``LEADLINE_DISABLED`` nothing is written and nothing is replaced.
    **Leaves nothing** - everything replaced in the framework is restored.
    **Fails open** - a failure of ours is reported, and affects nothing else.
    **Stopping** - ``TrainingStopped`` is raised from the script's own call, at the end of the requested step.

    Attributes:
        python: The interpreter that has the framework.
        training: A file for ``leadline.testing.adapter_driver``; it trains for more than ``STOP_AT`` steps.
        framework: The beginning of its name in the worker document.
        steps: Steps by mode.
        members: Tensors that must be captured, with one collection of each.
    """

    python: ClassVar[str]
    training: ClassVar[Path]
    framework: ClassVar[str]
    steps: ClassVar[Mapping[str, int]]
    members: ClassVar[Mapping[str, str]]

    @classmethod
    def result(cls, scenario: str) -> ScenarioResult:
        """Return the result of the training in a scenario."""
        return _drive(cls.python, str(cls.training), scenario)

    @classmethod
    def run_of(cls, scenario: str) -> Run:
        """Return the run of a scenario."""
        return leadline.open_run(cls.result(scenario)["run"])

    @classmethod
    def collections(cls) -> dict[str, set[str]]:
        """Return the modes in which each collection was captured, for the table of supported collections."""
        run = cls.run_of("watched")
        modes: dict[str, set[str]] = {}
        for name in run.tensor_names():
            tensor = run.tensor(name)
            for collection in tensor.collections:
                modes.setdefault(collection, set()).update(tensor.modes())
        return modes

    def test_each_mode_counts_its_own_steps(self) -> None:
        run = self.run_of("watched")
        counts = self.steps.items()
        assert {mode: run.steps(mode=mode) for mode in run.modes()} == {
            mode: list(range(count)) for mode, count in counts
        }
        assert set(run.series()["step"].to_pylist()) == set(range(sum(self.steps.values())))

    def test_names_and_collections(self) -> None:
        run = self.run_of("watched")
        actual = {name: run.tensor(name).collections for name in self.members}
        assert {name: collection for name, collection in self.members.items() if collection not in actual[name]} == {}

    def test_collections_that_are_not_recorded_are_absent(self) -> None:
        (document,) = self.run_of("watched").worker_documents().values()
        never = UNRECORDED_COLLECTIONS.get(recorded_framework(document.framework), frozenset())
        assert never.isdisjoint(self.collections())

    def test_a_custom_collection_selects_the_norm_of_all_gradients(self) -> None:
        has_norms = "gradient_norms" in self.collections()
        run = self.run_of("selected")
        assert run.tensor_names(collection="mine") == (["gradient_norm"] if has_norms else [])
        assert [run.tensor(name).steps() for name in run.tensor_names(collection="mine")] == [
            list(range(self.steps["train"]))
        ] * has_norms

    def test_everything_is_on_disk_and_capture_stays_enabled(self) -> None:
        assert self.result("watched")["is_complete"]
        (document,) = self.run_of("watched").worker_documents().values()
        assert (document.off, document.lost) == (None, None)
        assert [note for note in document.notes if " not captured " in note and ".py:" in note] == []
        assert document.framework.startswith(self.framework)

    @pytest.mark.parametrize("scenario", ["watched", "selected", "disabled", "failing"])
    def test_the_result_is_bit_identical(self, scenario: str) -> None:
        assert self.result(scenario)["digest"] == self.result("bare")["digest"]

    def test_disabled_it_does_nothing(self) -> None:
        result = self.result("disabled")
        assert not result["is_captured"]
        assert result["left"] == []
        assert list((Path(_FOLDER.name) / _folder(str(self.training), "disabled")).iterdir()) == []

    @pytest.mark.parametrize("scenario", ["watched", "failing", "stopped"])
    def test_it_leaves_nothing(self, scenario: str) -> None:
        assert self.result(scenario)["left"] == []

    def test_a_failure_of_ours_is_reported(self) -> None:
        (document,) = self.run_of("failing").worker_documents().values()
        assert document.off is not None
        assert "planted" in document.off.error
        assert document.off.step == adapter_driver.FAIL_AT

    def test_it_stops_at_the_end_of_the_requested_step(self) -> None:
        result = self.result("stopped")
        run = leadline.open_run(result["run"])
        assert max(run.series()["step"].to_pylist()) == adapter_driver.STOP_AT
        assert f"at step {max(run.steps())}: the contract requests it" in result["stopped"]


class LossFactsContract:
    """The promise of an adapter about loss calls: it records the facts that ``RECORDED_FACTS`` names, and no others.

    The checks that it records are those that ``RECORDED_CHECKS`` names.

    Attributes:
        python: The interpreter that has the framework.
        training: A file for ``leadline.testing.adapter_driver``, with losses that show each of these facts.
        framework: The key of ``leadline.records.recorded_facts.RECORDED_FACTS``.
    """

    python: ClassVar[str]
    training: ClassVar[Path]
    framework: ClassVar[str]

    @pytest.mark.slow
    def test_the_facts_of_the_table_are_recorded(self) -> None:
        run = leadline.open_run(_drive(self.python, str(self.training), "watched")["run"])
        recorded = {name.rpartition("/")[2] for name in run.tensor_names(collection=CHECKS)} & set(FACTS)
        declared = RECORDED_FACTS[self.framework]
        assert recorded == declared, f"missing: {sorted(declared - recorded)}, further: {sorted(recorded - declared)}"

    @pytest.mark.slow
    def test_every_recorded_check_is_in_the_table(self) -> None:
        run = leadline.open_run(_drive(self.python, str(self.training), "watched")["run"])
        (document,) = run.worker_documents().values()
        assert recorded_framework(document.framework) == self.framework
        recorded = {name.rpartition("/")[2] for name in run.tensor_names(collection=CHECKS)} & RECORDED_CHECKS.keys()
        assert {check for check in recorded if self.framework not in RECORDED_CHECKS[check][1]} == set()
        assert "rss_bytes" in recorded


@lru_cache(maxsize=64)
def _drive(python: str, training: str, scenario: str) -> ScenarioResult:
    folder = Path(_FOLDER.name) / _folder(training, scenario)
    folder.mkdir()
    command = [python, "-m", adapter_driver.__name__, training, str(folder), scenario]
    env = {name: value for name, value in os.environ.items() if not name.startswith("LEADLINE")}
    env |= {"OMP_NUM_THREADS": "1"} | ({} if scenario not in ("bare", "disabled") else {"LEADLINE_DISABLED": "1"})
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return cast(ScenarioResult, json.loads(done.stdout.splitlines()[-1]))


def _folder(training: str, scenario: str) -> str:
    return f"{Path(training).stem}-{scenario}"
