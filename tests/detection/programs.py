"""The programs of the detection suite: mistakes with their repaired twins, and healthy trainings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
from judged_runs import Told
from launching import ON_TENSORFLOW, PATIENCE, SCRIPTS, environment

HERE = Path(__file__).parent
MISTAKES = {path.stem: path for path in sorted(HERE.glob("mistakes/*/*.py"))}
"""The programs with a mistake by name; the folder is the class of the mistake."""
CHECK_MISTAKES = {f"{path.parent.name}/{path.stem}": path for path in sorted(HERE.glob("check_mistakes/*/*.py"))}
"""The programs whose mistake a probe of ``leadline check`` should name, by probe and name."""
HEALTHY = {path.stem: path for path in sorted(HERE.glob("healthy/*.py"))}
"""The healthy trainings by name; their argument is the number of steps."""

PUBLIC_CODE = {path.stem: path for path in sorted(HERE.glob("public_code/*.py"))}
"""Trainings in the manner of public code by name; their argument is the number of steps."""

KERAS_MISTAKES = {path.stem: path for path in sorted(HERE.glob("keras_mistakes/*/*.py"))}
"""The programs of Keras with a mistake by name."""
KERAS_HEALTHY = {path.stem: path for path in sorted(HERE.glob("keras_healthy/*.py"))}
"""The healthy trainings with Keras by name."""
KERAS_PYTHON = str(HERE.parents[1] / ".venvs" / "tensorflow" / "bin" / "python")
LIBRARIES = ("accelerate", "lightning", "peft", "stable_baselines3", "transformers", "trl")
LIBRARIES_PYTHON = str(HERE.parents[1] / ".venvs" / "loggers" / "bin" / "python")
"""The interpreter of programs that import one of the libraries."""
JAX_PYTHON = str(HERE.parents[1] / ".venvs" / "jax" / "bin" / "python")
KERAS_BACKENDS = ("tensorflow", "torch")

_TOGETHER = 6
"""Programs that run in one process, and whose results are kept together."""
_MISTAKEN = re.compile(r"^.*  # mistake$\n", re.MULTILINE)
_REPAIRED = re.compile(r"^( *)# repaired: ", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """A script to run."""

    name: str
    """The name of its run."""
    file: str
    source: str
    """Its text, which may differ from the file's."""
    arguments: tuple[str, ...] = ()
    seed: int = 0
    rules: tuple[str, ...] = ()
    """Rules in addition to the default rules."""
    is_checked: bool = False
    """Whether a copy is tested as ``leadline check --continue`` does, and no rule judges it."""


@dataclass(frozen=True)
class Result:
    """How a program ended, and what each rule found."""

    error: str | None
    """The traceback it ended with."""
    rules: dict[str, Told]

    @property
    def fired(self) -> dict[str, Told]:
        """The rules that fired."""
        return {name: told for name, told in self.rules.items() if told.findings}

    @property
    def remarked(self) -> dict[str, Told]:
        """The rules that remarked something at the end, without a finding."""
        return {name: told for name, told in self.rules.items() if told.remarks and not told.findings}


def mistaken(path: Path) -> Program:
    """Return a program with its mistake."""
    return Program(path.stem, str(path), path.read_text())


def repaired(path: Path) -> Program:
    """Return the repaired twin: without the lines of the mistake, and with those that are marked as repaired."""
    source = _REPAIRED.sub(r"\1", _MISTAKEN.sub("", path.read_text()))
    return Program(f"{path.stem}-repaired", str(path), source)


def healthy(path: Path, steps: int, seed: int) -> Program:
    """Return a healthy training of so many steps."""
    return Program(f"{path.stem}-{steps}-{seed}", str(path), path.read_text(), (str(steps),), seed)


def interpreter(source: str) -> str:
    """Return the interpreter that has the libraries of a program."""
    places = {LIBRARIES: LIBRARIES_PYTHON, ("keras",): KERAS_PYTHON, ("jax", "flax"): JAX_PYTHON}
    for libraries, python in places.items():
        if re.search(rf"^(?:import|from) (?:{'|'.join(libraries)})\b", source, re.MULTILINE):
            return python
    return sys.executable


def run(
    programs: Sequence[Program],
    folder: Path | None = None,
    *,
    processes: int = 2,
    backend: str = "",
    python: str | None = None,
) -> dict[str, Result]:
    """Run and judge programs, many in each process; return the results by name.

    Args:
        folder: Where the runs are kept; None: nowhere.
        backend: The backend of programs with Keras; empty: the programs are those of PyTorch.
        python: The interpreter of programs without Keras; None: that with the libraries that a program imports.
    """
    by_python: dict[str, list[Program]] = {}
    for program in programs:
        by_python.setdefault(KERAS_PYTHON if backend else python or interpreter(program.source), []).append(program)
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(processes) as threads:
        parts = [
            (sorted(part, key=_compiles), path)
            for path, chosen in by_python.items()
            for at in range(processes)
            if (part := chosen[at::processes])
        ]
        place = folder or Path(temporary)
        told = list(threads.map(lambda part: run_in_a_process(part[0], place, backend, part[1]), parts))
    results = {line["name"]: _result(line) for part in told for line in part}
    return {program.name: results[program.name] for program in programs}


def run_kept(chosen: Sequence[Program], kept: Path) -> dict[str, Result]:
    """Run and judge programs, and return the results by name; those that a file has are not repeated."""
    pythons = {program.name: interpreter(program.source) for program in chosen}
    results = read_results(kept)
    missing = [program for program in chosen if program.name not in results]
    for python in dict.fromkeys(pythons.values()):
        those = [program for program in missing if pythons[program.name] == python]
        for at in range(0, len(those), _TOGETHER):
            found = run(those[at : at + _TOGETHER], processes=1, python=python)
            results |= found
            with kept.open("a") as file:
                file.writelines(f"{json.dumps({'name': name, **asdict(one)})}\n" for name, one in found.items())
            for name, one in found.items():
                ended = (one.error or "").strip()[-200:]
                print(f"{name}  {', '.join(one.fired)}  {ended}", file=sys.stderr, flush=True)
    return {program.name: results[program.name] for program in chosen}


def read_results(kept: Path) -> dict[str, Result]:
    """Return the results of a file by name, the last of each program."""
    lines = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    return {line.pop("name"): msgspec.convert(line, Result) for line in lines}


def _compiles(program: Program) -> bool:
    """Return whether a program compiles its model: after that no modules are observed in its process."""
    return "torch.compile" in program.source


def _result(line: dict[str, Any]) -> Result:
    return Result(line["error"], {name: msgspec.convert(told, Told) for name, told in line["rules"].items()})


def run_in_a_process(
    programs: Sequence[Program], folder: Path, backend: str, python: str, **changes: str
) -> list[dict[str, Any]]:
    """Run programs one after the other in one process; return what it says of each.

    Args:
        changes: Of the environment.
    """
    path = os.pathsep.join([str(SCRIPTS), str(SCRIPTS.parent), str(HERE.parents[1] / "src")])
    of_keras = ON_TENSORFLOW if backend == "tensorflow" else {"KERAS_BACKEND": backend} if backend else {}
    ended = subprocess.run(
        [python, str(HERE / "run_programs.py"), str(folder)],
        input="".join(f"{json.dumps(asdict(program))}\n" for program in programs),
        capture_output=True,
        text=True,
        timeout=len(programs) * PATIENCE,
        env=environment(PYTHONPATH=path, **of_keras, **changes),
        cwd=folder,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return [json.loads(line) for line in ended.stdout.splitlines()]
