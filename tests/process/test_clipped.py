"""Capture of gradient clipping causes no graph breaks or recompilation in compiled functions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launching import bare, script, watched


@pytest.mark.slow
def test_clipping_is_captured_in_eager_code_and_compiled_code_is_unchanged(tmp_path: Path) -> None:
    options = ("--capture", "gradient_norms:every=1", "--capture", "gradients:every=1")
    without = bare("clipped.py", "bare.json", folder=tmp_path)
    ended = watched(options, script("clipped.py"), "watched.json", folder=tmp_path)
    assert (without.status, ended.status) == (0, 0), without.err + ended.err
    expected, found = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("bare", "watched"))
    assert expected["stats"]["unique_graphs"] >= 2
    assert found == expected
    before = ended.run.tensor("gradient_norm_before_clipping")
    assert before.steps() == [2, 5, 8]  # clipping in compiled code is not captured
    for step in before.steps():
        assert before.statistic("value", step) == pytest.approx(expected["norms"][step])
    assert ended.run.tensor("gradient_norm").steps() == list(range(9))
