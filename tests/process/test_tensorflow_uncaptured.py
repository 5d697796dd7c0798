"""Ways to train with TensorFlow that are not captured, or in part: the run continues, and doctor names them."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import LEADLINE, ON_TENSORFLOW, environment, finish, script

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "tensorflow" / "bin" / "python")
WAYS = {
    "restored": "restored from a SavedModel",
    "session": "sessions of TensorFlow 1",
    "printing": "the function contains PrintV2",
}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("way", WAYS)
def test_the_run_goes_on_and_doctor_names_what_is_not_captured(way: str, tmp_path: Path) -> None:
    calm = environment(**ON_TENSORFLOW)
    words = [PYTHON, script("tensorflow_uncaptured.py"), way]
    leadline = [PYTHON, *LEADLINE[1:]]
    bare = finish(words, tmp_path, env=calm)
    watched = finish([*leadline, "run", "--out", str(tmp_path / "runs"), "--", *words], tmp_path, env=calm)
    assert (watched.status, watched.lines[-1]) == (0, bare.lines[-1]), watched.err
    examined = finish([*leadline, "doctor", "--", *words], tmp_path, env=calm)
    assert WAYS[way] in " ".join(examined.out.split()), examined.out
    if way != "printing":
        assert any("no training step was seen" in line for line in watched.said)
