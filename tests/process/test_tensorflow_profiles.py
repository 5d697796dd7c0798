"""Profile windows of trainings with TensorFlow: operators with their steps, phases and layers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from launching import LEADLINE, ON_TENSORFLOW, Ended, environment, finish, script

from leadline.profiles.traces import read_slices
from leadline.profiles.xla_profile import parse_space
from leadline.store import layout

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "tensorflow" / "bin" / "python")
FIRST, STEPS = 11, 4
"""The steps of the window: none of them is captured."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["fit", "fit_xla", "run_eagerly"])
def profiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Ended]:
    folder = tmp_path_factory.mktemp(request.param)
    window = ("--profile", f"detailed:at={FIRST},for={STEPS}")
    words = [PYTHON, *LEADLINE[1:], "run", "--out", str(folder / "runs"), "--no-default-rules", *window, "--"]
    words += [PYTHON, script("tensorflow_kinds.py"), ".", request.param]
    ended = finish(words, folder, env=environment(**ON_TENSORFLOW))
    assert ended.status == 0, ended.err
    return request.param, ended


def space_of(ended: Ended) -> Path:
    (path,) = Path(ended.run.path).glob(f"profiles/*/*/{layout.SPACE}")
    return path


def test_each_step_has_its_operators_with_phase_and_layer(profiled: tuple[str, Ended]) -> None:
    kind, ended = profiled
    calls = ended.run.operator_calls().to_pylist()
    assert {call["step"] for call in calls} == set(range(FIRST, FIRST + STEPS))
    assert Counter(call["step"] for call in calls if call["phase"] == "data") == dict.fromkeys(
        range(FIRST, FIRST + STEPS), 1
    )
    products = [call for call in calls if call["operator"].endswith("MatMul")]
    if kind == "run_eagerly":  # an operator outside of a function does not tell its layer
        assert len(products) == STEPS * 5
        return
    assert {"forward", "backward", "optimizer", "data"} <= {call["phase"] for call in calls}
    forward = Counter(call["module"] for call in products if call["phase"] == "forward")
    assert forward == {"sequential/first": STEPS, "sequential/last": STEPS}
    backward = Counter(call["module"] for call in calls if call["phase"] == "backward")
    assert {"sequential/first", "sequential/last"} <= set(backward)


def test_self_times_are_parts_of_the_steps(profiled: tuple[str, Ended]) -> None:
    _, ended = profiled
    calls = ended.run.operator_calls().to_pylist()
    assert all(0 <= call["own_ns"] <= call["total_ns"] for call in calls)
    (window,) = ended.run.profiles().to_pylist()
    assert sum(call["own_ns"] for call in calls) < 2 * (window["end_ns"] - window["start_ns"])  # on two cores
    slices = read_slices(str(space_of(ended).parent))
    assert len(slices) >= len(calls)


def test_the_file_is_read_as_tensorflow_reads_it(profiled: tuple[str, Ended], tmp_path: Path) -> None:
    _, ended = profiled
    path = space_of(ended)
    words = [PYTHON, script("tensorflow_xspace.py"), str(path)]
    expected = json.loads(finish(words, tmp_path, env=environment(**ON_TENSORFLOW)).lines[-1])
    found: dict[str, list[int]] = {}
    for line in parse_space(path.read_bytes()).lines:
        for event in line.events:
            entry = found.setdefault(f"{line.plane} {line.name} {event.name}", [0, 0, 0])
            entry[0] += 1
            entry[1] += event.duration_ns
            entry[2] += len(event.stats)
    assert found == expected
