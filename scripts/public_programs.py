"""Run public programs bare and watched, and write what differs as a table in Markdown.

    python scripts/public_programs.py FOLDER PROGRAMS.toml PAGE.md [--only NAME,NAME]

``FOLDER`` holds what you have fetched; the programs are not part of Leadline. ``PROGRAMS.toml`` has one table
``[[program]]`` for each:

    name = "mnist"
    source = "https://github.com/OWNER/REPOSITORY/tree/COMMIT"
    command = [".venvs/torch/bin/python", "mnist/main.py", "--epochs", "1"]   # the script as from FOLDER
    steps = 938             # its own count of training steps; left out: not known
    seconds = 300           # the time that it may take, 600 if left out

An interpreter with a slash is found from the current directory. Compared is what a program prints, without times and
rates: *equal* means that each printed digit is. A row of the page has also the steps that Leadline counted, its
verdict, and the processor time of all processes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TIMES = re.compile(
    r"\d+(\.\d+)?(e-?\d+)? ?(ms|us|µs|s|it/s|s/it|sec|secs|seconds|min)\b(/\w+)?|\d+:\d\d(:\d\d)?(\.\d+)?"
    r"|\d{4}-\d\d-\d\d|\x1b\[[0-9;]*m|[^\r\n]*\r(?=.)"
)
"""Times and rates, colours, and what a progress bar has overwritten."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A program that has ended."""

    status: int | str
    printed: str
    processor_seconds: float


def run(command: list[str], folder: Path, seconds: float) -> Ended:
    """Run a program in a folder; its status is *too long* if it takes longer than it may."""
    began = _processor_seconds()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ended("too long", "", _processor_seconds() - began)
    return Ended(done.returncode, _TIMES.sub("", done.stdout), _processor_seconds() - began)


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def row(program: dict[str, Any], folder: Path) -> str:
    """Run a program both ways, and return its row."""
    interpreter, script, *arguments = program["command"]
    link = f"[{program['name']}]({program['source']})"
    if not (folder / script).is_file():
        return f"| {link} | not fetched | | | |"
    python = str(Path(interpreter).absolute()) if "/" in interpreter else interpreter
    place, seconds = (folder / script).parent, program.get("seconds", 600)
    words = [Path(script).name, *arguments]
    with tempfile.TemporaryDirectory() as runs:
        bare = run([python, *words], place, seconds)
        watch = [python, "-m", "leadline", "run", "--out", runs, "--name", "watched", "--", python]
        watched = run([*watch, *words], place, seconds)
        shown = subprocess.run(
            [python, "-m", "leadline", "show", "--json", str(Path(runs) / "watched")],
            capture_output=True,
            text=True,
            check=False,
        )
        document = json.loads(shown.stdout) if not shown.returncode else {}
    counted = document.get("steps", {}).get("train", 0)
    right = program.get("steps")
    steps = f"{counted:,}" + ("" if right is None else ", right" if counted == right else f" of {right:,}")
    verdict = document.get("outcome", {}).get("headline", "no run").replace("|", "\\|")
    processor = f"{bare.processor_seconds:.1f} → {watched.processor_seconds:.1f}"
    return f"| {link} | {_same(bare, watched)} | {steps} | {verdict} | {processor} |"


def _same(bare: Ended, watched: Ended) -> str:
    if bare.status == "too long" or watched.status == "too long":
        return "too long"
    if bare.status != watched.status:
        return f"status {bare.status} and {watched.status}"
    if bare.printed == watched.printed:
        return "equal" if bare.status == 0 else f"equal, status {bare.status}"
    pairs = zip(bare.printed.splitlines(), watched.printed.splitlines(), strict=False)
    line = next((at for at, (one, other) in enumerate(pairs, 1) if one != other), None)
    return f"differs in line {line}" if line else "differs in its length"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("programs", type=Path)
    parser.add_argument("page", type=Path)
    parser.add_argument("--only", help="names of programs, separated by commas")
    options = parser.parse_args()
    programs = tomllib.loads(options.programs.read_text())["program"]
    if options.only:
        programs = [program for program in programs if program["name"] in options.only.split(",")]
    lines = [
        "# Public programs",
        "",
        f"Bare and watched with Leadline's defaults on {time.strftime('%d %B %Y')}, by `scripts/public_programs.py`.",
        "",
        "| program | printed | steps | verdict | processor s |",
        "|---|---|---|---|---|",
    ]
    for program in programs:
        lines.append(row(program, options.folder.absolute()))
        sys.stdout.write(f"{lines[-1]}\n")
        sys.stdout.flush()
        options.page.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
