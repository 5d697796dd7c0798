"""Only the module of the given command is imported, and short commands import no table libraries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from leadline.cli.app import COMMANDS, application

SCRIPT = """
import json, sys
from leadline.cli import main
sys.argv = ["leadline", *sys.argv[1:]]
try:
    main()
except SystemExit as ended:
    print(json.dumps([ended.code, sorted(each for each in sys.modules if each.startswith("leadline.cli.")), sorted(
        {"pyarrow", "numpy", "plotly", "starlette"} & sys.modules.keys())]))
"""


@pytest.mark.parametrize("command", ["ls", "run", "ui"])
def test_a_short_command_imports_neither_other_commands_nor_tables(tmp_path: Path, command: str) -> None:
    words = [sys.executable, "-c", SCRIPT, command, *([str(tmp_path)] if command == "ls" else ["--help"])]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    status, imported, tables = json.loads(done.stdout.splitlines()[-1])
    assert (status, tables) == (0, [])
    others = {f"leadline.cli.{spec.module}" for name, spec in COMMANDS.items() if name != command}
    assert others.isdisjoint(imported)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_loaded_alone(name: str) -> None:
    command = typer.main.get_command(application(name))
    assert list(command.commands) == [name]  # type: ignore[attr-defined]


@pytest.mark.parametrize("word", [None, "", "lss", "--help", "-1"])
def test_an_unknown_command_loads_all(word: str | None) -> None:
    assert list(typer.main.get_command(application(word)).commands) == list(COMMANDS)  # type: ignore[attr-defined]
