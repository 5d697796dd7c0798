"""Hypothesis examples: under CI the same on every run, whatever is imported; elsewhere random."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
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


def draw(folder: Path, *, others: str = "", **environment: str) -> str:
    """Return the profile and drawn examples of a test run that imports another module."""
    folder.mkdir()
    shutil.copy(CONFTEST, folder)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "of_our_own.py").write_text(others)
    (folder / "test_draws.py").write_text(f"import of_our_own\n{DRAWS}")
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST") and key != "CI"}
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q"],
        cwd=folder,
        env=clean | environment,
        timeout=PATIENCE,
        check=True,
    )
    return (folder / "drawn").read_text()


@pytest.mark.slow
def test_examples_are_the_same_on_every_run_of_ci_only(tmp_path: Path) -> None:
    first = draw(tmp_path / "one", CI="true")
    assert first.startswith("True None True ")
    assert draw(tmp_path / "two", CI="true", others=OTHERS) == first
    assert draw(tmp_path / "three").startswith("False 0:00:00.200000 ")
