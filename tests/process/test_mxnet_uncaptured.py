"""Ways to train with MXNet that are not captured, or in part: the run continues, and doctor names them."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import LEADLINE, MXNET, environment, finish, needs_mxnet, script

WAYS = {
    "module": "Module: its steps are not captured; pass its outputs and gradients to leadline.Hook",
    "by_hand": "no training step: a step is a call of step or update of a gluon.Trainer",
    "hybridized": "hybridsequential0: it is hybridized: only its own inputs and outputs are captured",
}

pytestmark = [pytest.mark.slow, needs_mxnet]


@pytest.mark.parametrize("way", WAYS)
def test_doctor_names_what_is_not_captured(way: str, tmp_path: Path) -> None:
    words = [MXNET, script("mxnet_uncaptured.py"), way]
    examined = finish([*LEADLINE, "doctor", "--", *words], tmp_path, env=environment())
    said = " ".join(examined.out.split())
    assert WAYS[way] in said, examined.out
    assert "only leadline.Hook and system metrics are captured" not in said


def test_the_run_of_a_module_goes_on_with_a_note(tmp_path: Path) -> None:
    words = [MXNET, script("mxnet_uncaptured.py"), "module"]
    ended = finish([*LEADLINE, "run", "--out", str(tmp_path / "runs"), "--", *words], tmp_path, env=environment())
    assert ended.status == 0, ended.err
    said = " ".join(ended.err.split())
    assert WAYS["module"] in said or "no training step was seen" in said, ended.err
