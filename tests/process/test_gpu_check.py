"""The checks for a GPU run to their end without one: what needs it is skipped by name, everything else works."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from launching import environment, finish

pytestmark = [
    pytest.mark.real_starts,
    pytest.mark.slow,
    pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU: run scripts/gpu-check"),
]

SCRIPT = str(Path(__file__).parents[2] / "scripts" / "gpu-check")
NEED_GPU = {"tests", "synchronization", "memory", "gpu-rules", "graphs", "jax"}
ROWS = {"5 ms, quiet step", "5 ms, preset standard without activations", "5 ms, raw, every 10"}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    folder = tmp_path_factory.mktemp("checked")
    ended = finish([SCRIPT, "--quick", "--out", "out.json"], folder, env=environment(PYTHON=sys.executable))
    assert ended.status == 0, ended.out + ended.err
    return json.loads((folder / "out.json").read_text()), ended.out


def parts(document: dict[str, Any], status: str) -> set[str]:
    return {part["name"] for part in document["parts"] if part["status"] == status}


def test_every_part_is_named_and_only_what_needs_a_gpu_is_skipped(checked: tuple[dict[str, Any], str]) -> None:
    document, out = checked
    assert parts(document, "ok") == {"card", "nan-stopped", "eager", "amp", "compiled"}
    assert parts(document, "skipped") == NEED_GPU
    assert {part["reason"] for part in document["parts"] if part["status"] == "skipped"} == {"needs a GPU"}
    assert len(document["parts"]) == 11
    assert all(any(line.split()[0] == part["name"] for line in out.splitlines()) for part in document["parts"])
    assert out.endswith("failed: none\n")


def test_the_file_names_date_machine_and_software(checked: tuple[dict[str, Any], str]) -> None:
    document, _ = checked
    assert document["date"].endswith("+00:00")
    assert document["quick"] is True
    assert document["machine"]["cores"] >= 1
    assert "commit" in document["machine"]
    assert document["card"]["torch"] == torch.__version__
    assert "name" not in document["card"]


def test_each_row_has_a_ratio_with_its_interval_and_everything_is_stored(checked: tuple[dict[str, Any], str]) -> None:
    document, _ = checked
    for mode in ("eager", "amp", "compiled"):
        (part,) = (part for part in document["parts"] if part["name"] == mode)
        training = part["figures"].pop("5 ms")
        assert training["batch"] >= 1
        assert training["elements"] > 10_000
        assert set(part["figures"]) == ROWS
        for row in part["figures"].values():
            assert 0 < row["low"] <= row["median"] <= row["high"]
            assert (row["unit"], row["n"]) == ("x", 2)
            assert row["found"] == row["expected"] > 0


def test_the_nan_was_found_at_its_step_and_stopped(checked: tuple[dict[str, Any], str]) -> None:
    document, _ = checked
    (part,) = (part for part in document["parts"] if part["name"] == "nan-stopped")
    figures = part["figures"]
    assert figures["exit_status"] == 10
    assert figures["found_step"] == figures["bad_step"] == 30
    assert figures["trained_steps"] > 30
