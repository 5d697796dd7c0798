"""Watching neither recompiles a compiled training nor cuts it into more graphs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launching import bare, losses, script, watched


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_model_and_optimizer_compile_as_often_as_without(tmp_path: Path, backend: str) -> None:
    options = ("--capture", "all:every=1", "--capture", "all:every=3,raw=true")
    without = bare("compiled.py", "bare.json", backend, folder=tmp_path)
    ended = watched(options, script("compiled.py"), "watched.json", backend, folder=tmp_path)
    assert (without.status, ended.status) == (0, 0), without.err + ended.err
    expected, found = (json.loads((tmp_path / f"{each}.json").read_text()) for each in ("bare", "watched"))
    assert expected["stats"]["unique_graphs"] >= 2
    assert found["stats"] == expected["stats"]
    # torch's own wrapper around step() is not traced where global hooks exist: fewer frames, the same graphs
    assert found["frames"]["total"] <= expected["frames"]["total"]
    assert found["frames"] == found["early"]
    assert found["digest"] == expected["digest"]
    run = ended.run
    assert set(run.tensor_names(collection="weights")) | set(run.tensor_names(collection="biases")) == set(
        expected["weights"]
    )
    assert losses(run) == dict(enumerate(expected["losses"]))
    for name, values in expected["weights"].items():
        assert run.tensor(name).value(9).reshape(-1).tolist() == values
