"""Capture of a compiled training causes no recompilation and no additional graphs."""

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
def test_with_the_standard_preset_all_counters_are_equal_and_no_activations_are_captured(tmp_path: Path) -> None:
    without = bare("compiled.py", "bare.json", "eager", "56", "model", folder=tmp_path)
    ended = watched((), script("compiled.py"), "watched.json", "eager", "56", "model", folder=tmp_path)
    assert (without.status, ended.status) == (0, 0), without.err + ended.err
    found, expected = read(tmp_path, "watched"), read(tmp_path, "bare")
    check_alike(found, expected)
    assert (found["counters"], found["frames"]) == (expected["counters"], expected["frames"])
    assert expected["stats"]["unique_graphs"] == 2  # the second for batches of another size
    run = ended.run
    assert run.tensor("0.weight").steps() == [0, 1, 2, 3, 4, 5, 10, 20, 50]
    assert run.tensor_names(collection="layers") == []
    (document,) = run.worker_documents().values()
    assert any("torch.compile" in note for note in document.notes)


def test_a_session_started_after_torch_compile_captures_no_activations(tmp_path: Path) -> None:
    without = bare("compiled.py", "bare.json", "eager", "12", "model", folder=tmp_path)
    ended = bare("compiled.py", "late.json", "eager", "12", "model", "late", folder=tmp_path)
    assert (without.status, ended.status) == (0, 0), without.err + ended.err
    found, expected = read(tmp_path, "late"), read(tmp_path, "bare")
    check_alike(found, expected)
    assert (found["counters"], found["frames"]) == (expected["counters"], expected["frames"])
    assert only_run(tmp_path / "runs").tensor_names(collection="layers") == []
