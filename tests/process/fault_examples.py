"""Fault examples: command, finding and tensors from the docstrings of ``scripts/faults_of_*.py``."""

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
    """A planted fault and the expected result of ``leadline run``."""

    rule: str
    commands: tuple[tuple[str, ...], ...]
    """Options of ``leadline run`` for each launch; the fault is found in the last one."""
    step: int
    message: str
    names: tuple[str, ...]
    """Tensors that the finding must name."""

    @property
    def options(self) -> tuple[str, ...]:
        """The options with which the fault is found; without default rules where one of them finds the cause."""
        return self.commands[-1]

    @property
    def options_with_defaults(self) -> tuple[str, ...]:
        """The same, with the default rules."""
        return tuple(word for word in self.options if word != "--no-default-rules")


def examples() -> dict[str, Example]:
    """Return all examples by rule name."""
    found = {}
    for path in sorted(SCRIPTS.glob("faults_of_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and [arg.arg for arg in node.args.kwonlyargs] == ["healthy"]:
                found[node.name] = _read(node.name, ast.get_docstring(node, clean=False) or "")
    return found


def spoken(message: str) -> str:
    """Return a message without its numbers, which differ slightly between processors."""
    return _NUMBER.sub("#", message)


def _read(rule: str, docstring: str) -> Example:
    lines = inspect.cleandoc(re.sub(r"\n {8,}", " ", docstring)).splitlines()
    commands = [line for line in lines if line.startswith("leadline run ")]
    finding = next(match for line in lines if (match := _FINDING.fullmatch(line)))
    names = next((line for line in lines if line.startswith("names ")), "names")
    assert finding["rule"] == rule, f"{rule}: the finding is of {finding['rule']}"
    return Example(
        rule,
        tuple(_options(command) for command in commands),
        int(finding["step"]),
        finding["message"],
        tuple(name for name in names.removeprefix("names").strip().split(", ") if name),
    )


def _options(command: str) -> tuple[str, ...]:
    words = shlex.split(command)
    return tuple(words[2 : words.index("faults.py")])
