"""Capture of a compiled training causes no recompilation and no additional graphs, and sees whole models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from launching import bare, losses, only_run, script, watched

EVERYTHING = ("--capture", "all:every=1", "--capture", "all:every=3,raw=true")


def read(folder: Path, name: str) -> dict[str, Any]:
    return dict(json.loads((folder / f"{name}.json").read_text()))


def check_alike(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found["frames"] == found["early"]
    assert found["stats"] == expected["stats"]
    assert (found["digest"], found["losses"]) == (expected["digest"], expected["losses"])


def check_optimizer(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """The same graphs, and no more frames: with global hooks torch's own wrapper around step() is left where it calls
    them (which Dynamo counts as unimplemented), without at a graph break of its own."""
    assert expected["stats"]["unique_graphs"] >= 2
    assert found["frames"]["total"] <= expected["frames"]["total"]
    assert found["counters"]["graph_break"].keys() <= expected["counters"]["graph_break"].keys()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_model_and_optimizer_are_not_recompiled(tmp_path: Path, backend: str) -> None:
    without = bare("compiled.py", "bare.json", backend, folder=tmp_path)
    ended = watched(EVERYTHING, script("compiled.py"), "watched.json", backend, folder=tmp_path)
    assert (without.status, ended.status) == (0, 0), without.err + ended.err
    expected = read(tmp_path, "bare")
    check_alike(read(tmp_path, "watched"), expected)
    check_optimizer(read(tmp_path, "watched"), expected)
    run = ended.run
    assert set(run.tensor_names(collection="weights")) | set(run.tensor_names(collection="biases")) == set(
        expected["weights"]
    )
    assert losses(run) == dict(enumerate(expected["losses"]))
    for name, values in expected["weights"].items():
        assert run.tensor(name).value(9).reshape(-1).tolist() == values


@pytest.mark.slow
def test_with_the_standard_preset_all_counters_are_equal_and_models_are_seen_from_outside(tmp_path: Path) -> None:
    without = bare("compiled.py", "bare.json", "eager", "56", "model", folder=tmp_path)
    ended = watched((), script("compiled.py"), "watched.json", "eager", "56", "model", folder=tmp_path)
    assert (without.status, ended.status) == (0, 0), without.err + ended.err
    found, expected = read(tmp_path, "watched"), read(tmp_path, "bare")
    check_alike(found, expected)
    assert (found["counters"], found["frames"]) == (expected["counters"], expected["frames"])
    assert expected["stats"]["unique_graphs"] == 2  # the second for batches of another size
    run = ended.run
    assert run.tensor("0.weight").steps() == [0, 1, 2, 3, 4, 5, 10, 20, 50]
    assert set(run.tensor_names(collection="layers")) == {"Sequential_input_0", "Sequential_output_0"}
    (document,) = run.worker_documents().values()
    assert any("torch.compile" in note for note in document.notes)


@pytest.mark.slow
def test_models_that_are_compiled_in_any_way_have_inputs_losses_and_evaluations(tmp_path: Path) -> None:
    """Also a model that trains after them in the process, and is not compiled."""
    without = bare("compiled_models.py", "bare.json", folder=tmp_path)
    ended = watched((), script("compiled_models.py"), "watched.json", folder=tmp_path)
    assert (without.status, ended.status) == (0, 0), without.err + ended.err
    found, expected = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("watched", "bare"))
    assert [kind["digest"] for kind in found] == [kind["digest"] for kind in expected]
    with_compiled_optimizer = 3  # see check_optimizer
    for index, (kind, other) in enumerate(zip(found, expected, strict=True)):
        assert index == with_compiled_optimizer or kind["counters"] == other["counters"]
    run = ended.run
    assert [*losses(run).values()] == [loss for kind in expected for loss in kind["losses"]]
    inputs = [mean for kind in expected for mean in kind["inputs"]]
    seen = run.tensor("Net_input_0")
    for step in (0, 1, 5, 10, 20):
        assert seen.statistic("mean", step) == pytest.approx(inputs[step], abs=1e-6)
    evaluated = [loss for kind in expected for loss in kind["evaluated"]]
    loss = run.tensor("cross_entropy_output_0")
    own = [8, 9]  # a loss that the model computes inside is not read in evaluation
    assert loss.steps("eval") == [step for step in range(12) if step not in own]
    for step in loss.steps("eval"):
        assert loss.statistic("value", step, mode="eval") == pytest.approx(evaluated[step])
    assert {"blocks.0_input_0", "blocks.1_output_0"} <= set(run.tensor_names(collection="layers"))


def test_a_session_started_after_torch_compile_captures_no_activations(tmp_path: Path) -> None:
    without = bare("compiled.py", "bare.json", "eager", "12", "model", folder=tmp_path)
    ended = bare("compiled.py", "late.json", "eager", "12", "model", "late", folder=tmp_path)
    assert (without.status, ended.status) == (0, 0), without.err + ended.err
    found, expected = read(tmp_path, "late"), read(tmp_path, "bare")
    check_alike(found, expected)
    assert (found["counters"], found["frames"]) == (expected["counters"], expected["frames"])
    assert only_run(tmp_path / "runs").tensor_names(collection="layers") == []
