"""Preparation of the command for its launch: its interpreter, its environment, and whether Leadline can be loaded."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from typing import Final

from leadline.agent.signals import SignalGate
from leadline.process.interpreter import users_environment
from leadline.training.bootstrap import SITE

_PYTHON: Final = re.compile(r"python[0-9.]*")
_CHECK_SECONDS: Final = 5.0
_FLAGS_WITH_VALUE: Final = "WX"
_ISOLATING: Final = {"I": "-I", "E": "-E", "S": "-S"}


def resolve(command: list[str]) -> list[str]:
    """Return the command as it is launched: a ``.py`` file runs in the interpreter of the agent."""
    return [sys.executable, *command] if command[0].endswith(".py") else command


def why_unstartable(program: str) -> str | None:
    """Return why a program cannot be started, as far as that is known beforehand; None: no reason."""
    if shutil.which(program) is not None:
        return None
    exists = os.path.isfile(program) if os.sep in program else shutil.which(program, mode=os.F_OK) is not None
    return f"not executable: {program}" if exists else f"no such command: {program}"


def job_environment(environment: Mapping[str, str], run: str, node: str, *, is_reachable: bool) -> dict[str, str]:
    """Return the environment of the job, with the run directory and the path of the bootstrap."""
    result = users_environment(environment) | {"LEADLINE_RUN": run, "LEADLINE_NODE": node}
    if is_reachable:
        result["PYTHONPATH"] = os.pathsep.join(path for path in (SITE, result.get("PYTHONPATH")) if path)
    return result


def why_unreachable(command: list[str], gate: SignalGate) -> str | None:
    """Return why Leadline cannot be loaded into the command's Python, and what to do; None: it can be loaded."""
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
    """Return whether a program is a Python interpreter by its name."""
    return _PYTHON.fullmatch(os.path.basename(program)) is not None


def runs_python(pid: int) -> bool:
    """Return whether a process runs a Python interpreter."""
    try:
        return is_python(os.readlink(f"/proc/{pid}/exe"))
    except OSError:  # it has ended
        return False


def find_interpreter(program: str) -> str | None:
    """Return the Python that runs a program: the program itself, or that of its shebang line; None: unknown."""
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
    """Return whether a path is the running interpreter, compared with its folder: environments may share a binary."""

    def location(interpreter: str) -> tuple[str, str]:
        return os.path.realpath(os.path.dirname(interpreter)), os.path.realpath(interpreter)

    return location(path) == location(sys.executable)


def isolating_flag(command: list[str]) -> str | None:
    """Return the option of a Python command that makes it ignore the environment; None: it has none."""
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
    """Return whether a Python can import Leadline; one that does not answer within 5 s is assumed to."""
    environment = {key: value for key, value in users_environment().items() if key != "LEADLINE_RUN"}
    try:
        command = [interpreter, "-P", "-c", "import leadline.training.session.api"]
        child = gate.spawn(command, environment | {"LEADLINE_DISABLED": "1"})
    except OSError:
        return True  # the error shows when the command itself is started
    code = child.wait_for(_CHECK_SECONDS)
    child.close()
    return not code
