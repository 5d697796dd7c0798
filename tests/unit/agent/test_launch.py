"""Detection of whether Leadline can be loaded into the command's Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from leadline.agent.launch import (
    find_interpreter,
    is_python,
    is_this_interpreter,
    isolating_flag,
    job_environment,
    resolve,
    why_unstartable,
)


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ("script.py", None),
        ("-u script.py -I", None),
        ("-I script.py", "-I"),
        ("-uE script.py", "-E"),
        ("-S -m train", "-S"),
        ("-m train -I", None),
        ("-c pass -E", None),
        ("-W ignore -I script.py", "-I"),
        ("-WIgnore script.py", None),
        ("-X dev -s script.py", None),
        ("-XI script.py", None),
        ("-Bcimport -I", None),
        ("- -I", None),
        ("--version -I", None),
        ("", None),
    ],
)
def test_isolating_options_are_detected(options: str, flag: str | None) -> None:
    assert isolating_flag(["python", *options.split()]) == flag


@pytest.mark.parametrize(
    ("program", "is_one"),
    [("python", True), ("/x/python3.12", True), ("python3", True), ("pythonista", False), ("pypy3", False)],
)
def test_python_interpreters_are_recognized_by_name(program: str, *, is_one: bool) -> None:
    assert is_python(program) is is_one


def script(folder: Path, first_line: str) -> str:
    path = folder / "tool"
    path.write_text(first_line + "\n")
    path.chmod(0o700)
    return str(path)


def test_the_interpreter_of_a_script(tmp_path: Path) -> None:
    assert find_interpreter(script(tmp_path, f"#!{sys.executable}")) == sys.executable
    assert find_interpreter(script(tmp_path, f"#!/usr/bin/env {sys.executable}")) == sys.executable
    assert find_interpreter(script(tmp_path, "#!/bin/sh")) is None
    assert find_interpreter(script(tmp_path, "#!")) is None
    assert find_interpreter(script(tmp_path, "plain")) is None
    assert find_interpreter("no-such-command-at-all") is None


def test_this_interpreter_under_another_name(tmp_path: Path) -> None:
    folder = Path(sys.executable).parent
    others = [each for each in (folder / "python", folder / "python3") if each.exists()]
    assert all(is_this_interpreter(str(each)) for each in others)
    elsewhere = tmp_path / "python"
    elsewhere.symlink_to(sys.executable)
    assert not is_this_interpreter(str(elsewhere))


def test_a_python_file_is_run_by_this_python() -> None:
    assert resolve(["train.py", "-x"]) == [sys.executable, "train.py", "-x"]
    assert resolve(["python", "train.py"]) == ["python", "train.py"]


def test_the_environment_of_the_job() -> None:
    made = job_environment({"A": "1"}, "/run", "node", is_reachable=True)
    assert (made["A"], made["LEADLINE_RUN"], made["LEADLINE_NODE"]) == ("1", "/run", "node")
    assert made["PYTHONPATH"].endswith(os.path.join("leadline", "training", "bootstrap", "site"))
    assert "PYTHONPATH" not in job_environment({}, "/run", "node", is_reachable=False)


def test_programs_that_cannot_be_started(tmp_path: Path) -> None:
    assert why_unstartable("sh") is None
    assert why_unstartable("no-such-command-at-all") == "no such command: no-such-command-at-all"
    (tmp_path / "plain").write_text("")
    assert why_unstartable(str(tmp_path / "plain")) == f"not executable: {tmp_path}/plain"
    assert why_unstartable(str(tmp_path)) == f"no such command: {tmp_path}"
