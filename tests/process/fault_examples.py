"""The examples of faults: what the docstrings of ``scripts/faults_of_*.py`` say of command, finding and tensors."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"

_FINDING = re.compile(r"step (?P<step>\d+)  (?P<rule>\w+): (?P<message>.+)")
_NUMBER = re.compile(r"-?\d[\d.,]*(e[-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Example:
    """One planted fault, and what is expected of ``leadline run``."""

    rule: str
    commands: tuple[tuple[str, ...], ...]
    """Of each launch the options of ``leadline run``; the last is the one that finds the fault."""
    step: int
    message: str
    names: tuple[str, ...]
    """Tensors that the finding must name."""

    @property
    def options(self) -> tuple[str, ...]:
        return self.commands[-1]


def examples() -> dict[str, Example]:
    """All examples, by the name of the rule."""
    found = {}
    for path in sorted(SCRIPTS.glob("faults_of_*.py")):
        for each in ast.parse(path.read_text()).body:
            if isinstance(each, ast.FunctionDef) and [arg.arg for arg in each.args.kwonlyargs] == ["healthy"]:
                found[each.name] = _read(each.name, ast.get_docstring(each, clean=False) or "")
    return found


def spoken(message: str) -> str:
    """A message without its numbers: another processor's are a little different."""
    return _NUMBER.sub("#", message)


def _read(rule: str, docstring: str) -> Example:
    lines = inspect.cleandoc(re.sub(r"\n {8,}", " ", docstring)).splitlines()
    commands = [line for line in lines if line.startswith("leadline run ")]
    finding = next(match for line in lines if (match := _FINDING.fullmatch(line)))
    names = next((line for line in lines if line.startswith("names ")), "names")
    assert finding["rule"] == rule, f"{rule}: the finding is of {finding['rule']}"
    return Example(
        rule,
        tuple(_options(each) for each in commands),
        int(finding["step"]),
        finding["message"],
        tuple(re.findall(r"[^\s,]+", names)[1:]),
    )


def _options(command: str) -> tuple[str, ...]:
    words = shlex.split(command)
    return tuple(words[2 : words.index("faults.py")])
