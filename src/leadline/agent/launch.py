"""Starting the command: where its interpreter is, whether Leadline reaches it, and with which environment."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Mapping
from typing import Final

from leadline.agent.signals import SignalGate, spawn
from leadline.training.bootstrap import SITE

_PYTHON: Final = re.compile(r"python[0-9.]*")
_CHECK_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.01
_FLAGS_WITH_VALUE: Final = "WX"
_ISOLATING: Final = {"I": "-I", "E": "-E", "S": "-S"}


def resolve(command: list[str]) -> list[str]:
    """The command as it is started: a ``.py`` file runs in this very interpreter."""
    return [sys.executable, *command] if command[0].endswith(".py") else command


def why_unstartable(program: str) -> str | None:
    """Why a program cannot be started, as far as that shows before it is tried."""
    if shutil.which(program) is not None:
        return None
    is_there = os.path.isfile(program) if os.sep in program else shutil.which(program, mode=os.F_OK) is not None
    return f"not executable: {program}" if is_there else f"no such command: {program}"


def job_environment(environment: Mapping[str, str], run: str, node: str, *, is_reachable: bool) -> dict[str, str]:
    """The environment of the job: where the run is, and where the bootstrap is found."""
    result = dict(environment) | {"LEADLINE_RUN": run, "LEADLINE_NODE": node}
    if is_reachable:
        result["PYTHONPATH"] = os.pathsep.join(each for each in (SITE, environment.get("PYTHONPATH")) if each)
    return result


def why_unreachable(command: list[str], gate: SignalGate) -> str | None:
    """Why Leadline cannot look into the command's Python, and what to do; None where nothing is against it."""
    interpreter = find_interpreter(command[0])
    if interpreter is None:
        return None
    flag = isolating_flag(command) if is_python(command[0]) else None
    if flag is not None:
        return (
            f"Python's option {flag} keeps Leadline out of the training; "
            "leave it out, or call leadline.watch() in the script"
        )
    if is_this_interpreter(interpreter) or can_import(interpreter, gate):
        return None
    return f"{interpreter} cannot import leadline; install it there with: {interpreter} -m pip install leadline"


def is_python(program: str) -> bool:
    """Whether a program is a Python by its name."""
    return _PYTHON.fullmatch(os.path.basename(program)) is not None


def find_interpreter(program: str) -> str | None:
    """The Python that runs a program: itself, or the one of its first line; None where that is not known."""
    path = shutil.which(program)
    if path is None:
        return None
    if is_python(path):
        return os.path.abspath(path)
    with open(path, "rb") as file:
        first = file.readline(512)
    if not first.startswith(b"#!"):
        return None
    words = first[2:].decode(errors="replace").split()
    if len(words) > 1 and os.path.basename(words[0]) == "env":
        words = words[1:]
    return shutil.which(words[0]) if words and is_python(words[0]) else None


def is_this_interpreter(path: str) -> bool:
    """Whether it is the Python that runs us; two environments may share a binary, but not its folder."""

    def place(each: str) -> tuple[str, str]:
        return os.path.realpath(os.path.dirname(each)), os.path.realpath(each)

    return place(path) == place(sys.executable)


def isolating_flag(command: list[str]) -> str | None:
    """The option of a Python command that keeps its environment from being read, if it has one."""
    options = iter(command[1:])
    for option in options:
        if not option.startswith("-") or option.startswith("--") or option in ("-", "-c", "-m"):
            return None
        for position, letter in enumerate(option[1:], 1):
            if letter in _ISOLATING:
                return _ISOLATING[letter]
            if letter in "cm":
                return None
            if letter in _FLAGS_WITH_VALUE:
                if position == len(option) - 1:
                    next(options, None)
                break
    return None


def can_import(interpreter: str, gate: SignalGate) -> bool:
    """Whether a Python can load Leadline; a Python that does not answer in time is believed."""
    environment = {key: value for key, value in os.environ.items() if key != "LEADLINE_RUN"}
    try:
        pid = spawn(
            [interpreter, "-c", "import leadline.training.session.session"],
            environment | {"LEADLINE_DISABLED": "1"},
            gate,
            is_quiet=True,
            closes_output=True,
        )
    except OSError:
        return True  # starting the command itself will say what is wrong
    end = time.monotonic() + _CHECK_SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(_POLL_SECONDS)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return True
