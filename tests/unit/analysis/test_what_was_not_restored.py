"""Learning rates and losses that were different after a run was resumed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from leadline.analysis.resumed import interruptions_with_changes
from leadline.reader.run import Run
from leadline.records import describe
from leadline.records.documents import WorkerDocument
from leadline.records.incarnations import Incarnation, Incarnations, Interruption, ValueChange, WorkerStart
from leadline.records.series import TensorInfo
from leadline.statistics.bits import fingerprints
from leadline.store import layout
from leadline.store.documents import to_json, write_document
from leadline.testing.runs import ArrayStatistics, Capture, RunWriter

RESUMED = 20
CASES = {
    "all as before": (0.01, 0.3, ()),
    "another rate": (0.1, 0.3, (ValueChange("Adam/lr", 0.01, 0.1, 10, 20, 1),)),
    "another loss": (0.011, 0.01, (ValueChange("loss", 0.3, 0.01, 19, 20, 5),)),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_far_from_what_it_had_been_is_named(tmp_path: Path, case: str) -> None:
    rate, loss, expected = CASES[case]
    writer = RunWriter(str(tmp_path / "run"))
    infos = {"loss": TensorInfo("loss", ("losses",)), "Adam/lr": TensorInfo("Adam/lr", ("hyperparameters",))}
    for step in range(40):
        is_first, outlier = step < RESUMED, 9.0 if step in (RESUMED - 3, RESUMED) else 1.0
        values = {"loss": {"value": (0.3 if is_first else loss) * outlier}}
        if step % 10 == 0:
            values["Adam/lr"] = {"value": 0.01 if is_first else rate}
        writer.write(Capture(step, values, infos=infos))
    found = interrupted(writer)
    assert found.has_new_state
    assert found.changes == expected


@pytest.mark.parametrize(
    ("begins_at", "is_one_batch", "repeated"), [(0, False, 0), (2, False, 2), (20, False, None), (0, True, None)]
)
def test_a_batch_of_the_beginning_that_comes_again_is_named(
    tmp_path: Path, begins_at: int, is_one_batch: bool, repeated: int | None
) -> None:
    """The data of the second process begin at a batch of the first one, or at another; or one batch is all there is."""
    writer = RunWriter(str(tmp_path / "run"))
    infos = {"loss": TensorInfo("loss", ("losses",)), "Net_input_0": TensorInfo("Net_input_0", ("inputs",), (4, 3))}
    for step in (*range(6), 10, RESUMED, 30):
        number = 0 if is_one_batch else step if step < RESUMED else begins_at + step - RESUMED
        batch = np.random.default_rng(number).normal(size=(4, 3))
        writer.write(Capture(step, {"loss": {"value": 1.0}}, infos=infos))
        arrays = {"Net_input_0": {"fingerprints": fingerprints(batch).tolist()}}
        writer.write(ArrayStatistics(step, arrays, infos=infos))
    found = interrupted(writer)
    assert found.repeated_step == repeated
    assert ("the data started over" in describe.interruption(found)) == (repeated is not None)


def interrupted(writer: RunWriter) -> Interruption:
    """End the run of a training that was resumed at its step 20, and return the interruption."""
    writer.end()
    start = WorkerStart(1, RESUMED, {"train": RESUMED}, has_new_state=True)
    writer.write_worker("rank0-1", state="ended", starts=[to_json(start)])
    document = Incarnations(starts=(Incarnation(1, started_ns=2_000_000_000, ended_ns=0, steps=RESUMED),))
    write_document(os.path.join(writer.path, layout.INCARNATIONS), to_json(document))
    (found,) = interruptions_with_changes(Run(writer.path))
    return found


def test_a_change_is_described_with_the_steps_that_were_captured() -> None:
    change = ValueChange("Adam/lr", 0.002, 0.016, 350, 400)
    assert describe._value_change(change) == "Adam/lr 0.002 at step 350, 0.016 at step 400 (8 times that)"
    start = WorkerStart(1, 400, {"train": 400}, has_new_state=True)
    assert (
        describe.resumed(WorkerDocument(starts=(start,))) == "resumed at step 400: the optimizer state was not restored"
    )
    assert describe.resumed(WorkerDocument()) == ""
