"""Trials that smdebug wrote, compared with what smdebug's own reader returned of them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leadline
from leadline.errors import NotCapturedError
from leadline.reader.run import Run
from leadline.trials.cache import imported_run
from leadline.trials.steps import leadline_statistic

DATA = Path(__file__).parents[2] / "data" / "smdebug"
TRIALS = ("pt1", "tf_tape", "xg1")


@pytest.fixture(scope="module", params=TRIALS)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEADLINE_CACHE", str(tmp_path_factory.mktemp("cache")))
        run = leadline.open_trial(DATA / request.param)
    return run, json.loads((DATA / f"{request.param}.expected.json").read_text())


def global_steps(run: Run, name: str) -> dict[int, tuple[str, int]]:
    """The mode, and the step within it, of each global step at which a tensor was saved."""
    tensor, found = run.tensor(name), {}
    document = json.loads((Path(run.path) / "trial.json").read_text())
    stamps = {(mode, mode_step): step for step, mode, mode_step in document["steps"][run.workers()[0]]}
    for mode in run.modes():
        found |= {stamps[mode, mode_step]: (mode, mode_step) for mode_step in tensor.steps(mode)}
    return found


def test_nothing_is_damaged(recorded: tuple[Run, dict[str, Any]]) -> None:
    run, _ = recorded
    assert run.damage == []
    assert run.verify() == []
    assert run.status == "Completed"


def test_names_workers_modes_and_steps(recorded: tuple[Run, dict[str, Any]]) -> None:
    run, expected = recorded
    assert sorted(run.tensor_names()) == sorted(expected["tensors"])
    assert run.workers() == expected["workers"]
    modes = {mode.upper(): run.steps(mode) for mode in run.modes()}
    if expected["modes"]:
        assert modes == expected["mode_steps"]
    else:  # the script set no mode: train steps
        assert modes == {"TRAIN": expected["steps"]}


def test_collections(recorded: tuple[Run, dict[str, Any]]) -> None:
    run, expected = recorded
    found = {name: sorted(members) for name, members in run.collections().items()}
    assert found == {name: sorted(members) for name, members in expected["collections"].items() if members}


def test_values(recorded: tuple[Run, dict[str, Any]]) -> None:
    run, expected = recorded
    compared = 0
    for name, tensor in expected["tensors"].items():
        steps = global_steps(run, name)
        assert sorted(steps) == tensor["steps"], name
        for step, value in tensor["values"].items():
            mode, mode_step = steps[int(step)]
            found = run.tensor(name).value(mode_step, mode=mode)
            compared += 1
            if "error" in value:
                # smdebug's reader loses raw tensors of which the shape is saved too; the file contains them
                assert float(found.mean()) == pytest.approx(tensor["reductions"][step]["mean"], rel=1e-5)
                assert float(abs(found).max()) == tensor["reductions"][step]["abs_max"]
                continue
            assert list(found.shape) == value["shape"], name
            assert str(found.dtype).lstrip("<") == value["dtype"].lstrip("<"), name
            np.testing.assert_array_equal(found.ravel()[:3], value["first"], err_msg=name)
            if "mean" in value:
                mean = found.astype(np.float64).mean()
                assert float(mean) == pytest.approx(value["mean"], rel=1e-12, nan_ok=True), name
    assert compared == sum(len(tensor["values"]) for tensor in expected["tensors"].values())


def test_reductions(recorded: tuple[Run, dict[str, Any]]) -> None:
    run, expected = recorded
    document = json.loads((Path(run.path) / "trial.json").read_text())
    sets, of_step = document["reduction_sets"], document["reductions"]["worker_0"]
    for name, tensor in expected["tensors"].items():
        steps = global_steps(run, name)
        for step, reductions in tensor["reductions"].items():
            mode, mode_step = steps[int(step)]
            stored = sets[of_step[step]].get(name, [])
            assert sorted(stored) == sorted(reductions), name
            for reduction, value in reductions.items():
                assert run.tensor(name).statistic(leadline_statistic(reduction), mode_step, mode=mode) == value


def test_the_time_of_a_step_is_that_of_its_last_record() -> None:
    rows = leadline.open_trial(DATA / "pt1").tensor("CrossEntropyLoss_output_0").statistics("value").to_pylist()
    assert [row["step"] for row in rows] == [0, 2, 4, 6, 8]
    for row in rows:
        (file,) = DATA.glob(f"pt1/events/{row['step']:012}/*.tfevents")
        assert row["time_ns"] / 10**9 == max(record_times(file.read_bytes()))


def record_times(data: bytes) -> Iterator[float]:
    """Yield the time of each record of an event file: the first field of its message, in seconds."""
    at = 0
    while at < len(data):
        yield struct.unpack_from("<d", data, at + 13)[0]
        at += struct.unpack_from("<Q", data, at)[0] + 16


def test_shapes_of_reduced_tensors() -> None:
    run = leadline.open_trial(DATA / "pt1")
    assert run.tensor("Net_conv1.weight").shape == (2, 1, 3, 3)
    assert run.tensor("Net_fc.weight").shape == (3, 72)


def test_hyperparameters_and_rounds_of_xgboost() -> None:
    from leadline.analysis.trees import read_model, read_predictions

    run = leadline.open_trial(DATA / "xg1")
    model = read_model(run)
    assert (model.objective, model.kind, model.steps) == ("binary:logistic", "binary", (0, 2))
    predictions = read_predictions(run, 2)
    assert predictions is not None
    assert predictions.labels.shape == (10,)
    assert run.tensor("trees/Feature").value(0).tolist() == ["f0", "Leaf", "Leaf"]


def test_texts_have_no_statistics() -> None:
    tensor = leadline.open_trial(DATA / "xg1").tensor("trees/ID")
    with pytest.raises(NotCapturedError, match="no mean of trees/ID"):
        tensor.statistic("mean", 0)
    with pytest.raises(NotCapturedError, match="texts"):
        tensor.statistic_array("histogram", 0)


def test_a_trial_is_imported_once(cache: Path) -> None:
    first, second = imported_run(str(DATA / "tf_tape")), imported_run(str(DATA / "tf_tape"))
    assert first == second
    assert Path(first).is_relative_to(cache)
    assert leadline.open_run(DATA / "tf_tape").path == first
