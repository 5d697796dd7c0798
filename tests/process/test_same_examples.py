"""Hypothesis examples: under CI the same all day, whatever is imported; elsewhere random."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from launching import PATIENCE

CONFTEST = Path(__file__).parents[1] / "conftest.py"
DRAWS = """
import pathlib
from hypothesis import given, settings, strategies as st

drawn = []

@given(st.integers(), st.text(), st.floats())
@settings(max_examples=300)
def test_it(whole, text, number): drawn.append((whole, text, number))

def test_they_are_noted():
    profile = settings()
    told = f"{profile.derandomize} {profile.deadline} {profile.print_blob} {drawn!a}"
    pathlib.Path("drawn").write_text(told)
"""
OTHERS = "\n".join(f"number_{index} = {7919 * index}\ntext_{index} = 'a constant of {index}'" for index in range(300))


PLUGINS = "xdist.plugin,_hypothesis_pytestplugin"


def draw(folder: Path, *options: str, others: str = "", **environment: str) -> tuple[str, str]:
    """Return the profile and drawn examples of a test run that imports another module, and the run's output."""
    folder.mkdir()
    shutil.copy(CONFTEST, folder)
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {CONFTEST.parent}\n")
    (folder / "of_our_own.py").write_text(others)
    (folder / "test_draws.py").write_text(f"import of_our_own\n{DRAWS}")
    ours = ("CI", "HYPOTHESIS_SEED")
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST") and key not in ours}
    clean |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": PLUGINS}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=folder,
        env=clean | environment,
        timeout=PATIENCE,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return (folder / "drawn").read_text(), ended.stdout


@pytest.mark.slow
def test_examples_are_the_same_all_day_under_ci_only(tmp_path: Path) -> None:
    today, tomorrow = {"CI": "true", "HYPOTHESIS_SEED": "20261128"}, {"CI": "true", "HYPOTHESIS_SEED": "20261129"}
    first, said = draw(tmp_path / "one", **today)
    assert first.startswith("False None True ")
    assert "--hypothesis-seed=20261128" in said
    assert draw(tmp_path / "two", others=OTHERS, **today)[0] == first
    assert draw(tmp_path / "worker", "-n", "1", **today)[0] == first
    assert draw(tmp_path / "tomorrow", **tomorrow)[0] != first
    assert draw(tmp_path / "repeated", "--hypothesis-seed=20261128", **tomorrow)[0] == first
    elsewhere, said = draw(tmp_path / "elsewhere")
    assert elsewhere.startswith("False 0:00:00.200000 ")
    assert "--hypothesis-seed" not in said


@pytest.mark.slow
def test_the_seed_of_the_day_is_the_date(tmp_path: Path) -> None:
    before = datetime.now(UTC)
    said = draw(tmp_path / "run", CI="true")[1]
    days = (before, datetime.now(UTC))
    assert any(f"--hypothesis-seed={day:%Y%m%d}\n" in said for day in days)
