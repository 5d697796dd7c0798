"""Profile windows of Gluon trainings: operators with steps and phases; the profiles of the script itself are whole."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from launching import LEADLINE, MXNET, Ended, environment, finish, needs_mxnet, script

FIRST, STEPS = 11, 4
"""The steps of the window: none of them is captured."""

pytestmark = [pytest.mark.slow, needs_mxnet]


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder = tmp_path_factory.mktemp("profiled")
    window = ("--profile", f"detailed:at={FIRST},for={STEPS}", "--profile", "detailed:at=20,for=1")
    words = [MXNET, *LEADLINE[1:], "run", "--out", str(folder / "runs"), "--no-default-rules", *window, "--"]
    job = [MXNET, script("mxnet_profiled.py"), str(folder / "own.json")]
    ended = finish([*words, *job], folder, env=environment(MXNET_EXEC_BULK_EXEC_TRAIN="0"))
    assert ended.status == 0, ended.err
    return ended


def test_each_step_has_its_operators_with_their_phases(profiled: Ended) -> None:
    calls = profiled.run.operator_calls().to_pylist()
    steps = {*range(FIRST, FIRST + STEPS), 20}
    assert {call["step"] for call in calls} == steps
    counts = Counter((call["step"], call["operator"], call["phase"]) for call in calls)
    for step in steps:
        assert counts[step, "FullyConnected", "forward"] == 2
        assert counts[step, "_backward_FullyConnected", "backward"] == 2
        assert counts[step, "Activation", "forward"] == 1
        assert counts[step, "adam_update", "optimizer"] == 4
    assert all(0 <= call["own_ns"] <= call["total_ns"] for call in calls)


def test_a_profile_of_the_script_itself_is_whole(profiled: Ended) -> None:
    events = json.loads((profiled.root.parent / "own.json").read_text())["traceEvents"]
    names = {event["name"] for event in events}
    assert "sqrt" in names
    assert "FullyConnected" not in names
