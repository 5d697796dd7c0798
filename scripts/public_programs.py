"""Run public programs bare and watched, and write what differs as a table in Markdown.

    python scripts/public_programs.py FOLDER PAGE.md [--programs PROGRAMS.toml] [--only NAME,NAME]

``FOLDER`` holds what you have fetched, a folder OWNER+NAME for each repository; the programs are not part of
Leadline. ``PROGRAMS.toml`` (`scripts/public/programs.toml` if left out) has one table ``[[program]]`` for each:

    name = "mnist"
    file = "pytorch+examples/mnist/main.py"     # a script or a notebook below FOLDER
    commit = "77f55b9"                          # where it is from, for the link
    environment = "torch"                       # of the folder .venvs, or the path of an interpreter
    arguments = ["--epochs", "1"]
    launch = ["-m", "torch.distributed.run"]    # words between the interpreter and the script
    folder = "pytorch+examples/mnist"           # what is copied for each run; the script's folder if left out
    made = ["seed", "torchvision"]              # what stands in front of it, from scripts/public/made_data.py
    edits = { "EPOCHS = 50" = "EPOCHS = 2" }    # constants of size that are made smaller
    steps = 938                                 # its own count of training steps; left out: not known
    note = "a remark"                           # for below the table
    seconds = 300                               # the time that it may take, 600 if left out

Compared is what a program prints, without times and rates, and the trained arrays that are alive at its end: *bits*
means that all of them are equal to the bit, *printed* that each printed digit is (a program that keeps its model
within a function has none at its end). A row has also the steps that Leadline counted, the findings that are
problems, its verdict, and the processor time of all processes.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_TIMES = re.compile(
    r"\d+(\.\d+)?(e-?\d+)? ?(ms|us|µs|s|it/s|s/it|sec|secs|seconds|min)\b(/\w+)?|\d+:\d\d(:\d\d)?(\.\d+)?"
    r"|\d{4}-\d\d-\d\d|\x1b\[[0-9;]*m|[^\r\n]*(\r(?=.)|\x08+\n)|0x[0-9a-f]{6,}"
    r"|(?<=\bin): *\d[\d.]*|(?i:runtime|(samples|steps|tokens)_per_second|time|sps|speed|samples/s)\W{1,6}\d[\d.e+-]*"
)
"""Times, rates and addresses, colours, and what a progress bar has overwritten."""


_LIBRARIES = """accelerate dm-haiku equinox flax gymnasium jax keras lightgbm lightning mxnet optax peft pyro-ppl
schedulefree tensorflow tensorflow-cpu torch torch-geometric torchvision transformers trl xgboost xgboost-cpu""".split()  # noqa: SIM905
"""Whose versions the page gives."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A program that has ended."""

    status: int | str
    printed: str
    said: str
    hashes: Counter[str]
    processor_seconds: float


def prepare(program: dict[str, Any], fetched: Path, place: Path) -> Path:
    """Copy a program to a place, with what stands in front of it, and return the script."""
    file = Path(program["file"])
    folder = Path(program.get("folder", file.parent))
    shutil.copytree(fetched / folder, place, dirs_exist_ok=True)
    script = place / file.relative_to(folder)
    text = script.read_text()
    if script.suffix == ".ipynb":
        text, script = code_of(text), script.with_suffix(".py")
    for old, new in program.get("edits", {}).items():
        if old not in text:
            raise SystemExit(f"{program['name']}: {old!r} is not in {file}, so the recipe does not fit this version")
        text = text.replace(old, new)
    calls = [f"made_data.{name}()" for name in ("hashes", *program.get("made", []))]
    futures = re.findall(r"^from __future__ import .*\n", text, re.MULTILINE)
    for line in futures:
        text = text.replace(line, "")
    script.write_text("".join(dict.fromkeys(futures)) + "; ".join(["import made_data", *calls]) + "\n" + text)
    return script


def code_of(notebook: str) -> str:
    """Return the code of a notebook, without commands to the shell and to IPython."""
    cells = ("".join(cell["source"]) for cell in json.loads(notebook)["cells"] if cell["cell_type"] == "code")
    return "\n".join(re.sub(r"^\s*[!%].*$", "", cell, flags=re.MULTILINE) for cell in cells)


def run(words: list[str], place: Path, folder: Path, seconds: float) -> Ended:
    """Run a program in a folder of its copy; its status is *too long* if it takes longer than it may."""
    began, file = _processor_seconds(), place / "hashes-of-this-run"
    paths = [str(HERE / "public"), str(place), *filter(None, [os.environ.get("PYTHONPATH")])]
    more = {"PYTHONPATH": os.pathsep.join(paths), "MADE_HASHES": str(file)}
    more |= {"PYTHONUNBUFFERED": "1", "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    more |= {"TF_ENABLE_ONEDNN_OPTS": "0", "WANDB_MODE": "disabled", "TF_CPP_MIN_LOG_LEVEL": "2"}
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env={**os.environ, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ended("too long", "", "", Counter(), _processor_seconds() - began)
    written = (part.read_text().split() for part in place.glob(f"{file.name}.*"))
    hashes = Counter(found for part in written for found in part)
    printed = _TIMES.sub("", done.stdout)
    return Ended(done.returncode, printed, done.stderr, hashes, _processor_seconds() - began)


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def row(program: dict[str, Any], fetched: Path, log: Path | None) -> str:
    """Run a program both ways, and return its row."""
    file, name = Path(program["file"]), program["name"]
    repository = file.parts[0].replace("+", "/")
    source = f"https://github.com/{repository}/blob/{program['commit']}/{'/'.join(file.parts[1:])}"
    link = f"[{name}]({source})"
    if not (fetched / file).is_file():
        return f"| {link} | {program['environment']} | not fetched | | | |"
    environment = program["environment"]
    python = environment if "/" in environment else str(Path(".venvs", environment, "bin", "python").absolute())
    seconds = program.get("seconds", 600)
    with tempfile.TemporaryDirectory() as runs:
        ended = []
        for kind in ("bare", "watched"):
            place = Path(runs, kind)
            script = prepare(program, fetched, place)
            words = [python, *program.get("launch", []), script.name, *program.get("arguments", [])]
            if kind == "watched":
                words = [python, "-m", "leadline", "run", "--out", runs, "--name", "run", "--", *words]
            ended.append(run(words, place, script.parent, seconds))
        bare, watched = ended
        shown = subprocess.run(
            [python, "-m", "leadline", "show", "--json", str(Path(runs) / "run")],
            capture_output=True,
            text=True,
            check=False,
        )
        document = json.loads(shown.stdout) if not shown.returncode else {}
    if log is not None:
        for kind, end in zip(("bare", "watched"), ended, strict=True):
            (log / f"{_word(name)}.{kind}").write_text(f"{end.status}\n{end.printed}\n--- said\n{end.said}")
        (log / f"{_word(name)}.json").write_text(json.dumps(document, indent=1))
    counted = document.get("steps", {}).get("train", 0)
    right = program.get("steps")
    steps = f"{counted:,}" + ("" if right is None else ", right" if counted == right else f" of {right:,}")
    verdict = document.get("outcome", {}).get("headline", "no run").replace("|", "\\|")
    processor = f"{bare.processor_seconds:.1f} → {watched.processor_seconds:.1f}"
    return f"| {link} | {environment.split('/')[-1]} | {_same(bare, watched)} | {steps} | {verdict} | {processor} |"


def _word(name: str) -> str:
    return re.sub(r"\W+", "_", name)


def _same(bare: Ended, watched: Ended) -> str:
    if bare.status == "too long" or watched.status == "too long":
        return "too long"
    if bare.status != watched.status:
        return f"status {bare.status} and {watched.status}"
    if bare.printed == watched.printed:
        missing = bare.hashes - watched.hashes  # in a watched process there may be arrays of Leadline's, too
        if missing:
            return f"{missing.total()} of {bare.hashes.total()} arrays differ"
        equal = f"bits ({bare.hashes.total()} arrays)" if bare.hashes else "printed"
        return equal if bare.status == 0 else f"{equal}, status {bare.status}"
    pairs = zip(bare.printed.splitlines(), watched.printed.splitlines(), strict=False)
    line = next((at for at, (one, other) in enumerate(pairs, 1) if one != other), None)
    return f"differs in line {line}" if line else "differs in its length"


def versions(environments: list[str]) -> list[str]:
    """Return a line for each environment, and for ``PYTHONPATH``: the versions of libraries."""
    code = "import importlib.metadata as m\nfor d in m.distributions(path={}): print(d.name, d.version)"
    named = [name for name in dict.fromkeys(environments) if "/" not in name]
    added = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    places = [(name, Path(".venvs", name, "bin", "python"), "__import__('sys').path") for name in named]
    lines = []
    for name, python, path in [*places, ("beside them", Path(sys.executable), repr(added))]:
        words = [str(python.absolute()), *(["-I"] if name in named else []), "-c", code.replace("{}", path)]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
        known = sorted(line for line in said if line.split()[0].lower().replace("_", "-") in _LIBRARIES)
        lines += [f"* {name}: {', '.join(known)}"] if known else []
    return lines


_HEAD = """# Public programs

Programs of others, run bare and watched with Leadline's defaults. No line that trains is changed:
`scripts/public/programs.toml` has where each is from, its arguments, the constants that were changed (sizes, devices),
and the small made data in place of a download. `scripts/public_programs.py` makes this page again from programs that
you have fetched.

*Same*: *bits* where every trained array that is alive at the end is equal to the bit, and *printed* where every printed
digit is; times and rates are left out. *Steps*: those that Leadline counted; *right* where the program itself makes as
many. *Processor s*: the processor time of all processes, bare and watched, start and end included. Of programs of a few
seconds most of what is added is the start of Leadline's processes (judge, agent) and, in JAX and TensorFlow, compiling
what captures.
"""


def head(environments: list[str]) -> list[str]:
    """Return the lines before the first row."""
    version, day = importlib.metadata.version("leadline"), time.strftime("%d %B %Y")
    return [
        *_HEAD.splitlines(),
        "",
        f"Leadline {version}, {day}. Versions by environment:",
        "",
        *versions(environments),
        "",
        "| program | environment | same | steps | verdict | processor s |",
        "|---|---|---|---|---|---|",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fetched", type=Path, metavar="FOLDER")
    parser.add_argument("page", type=Path)
    parser.add_argument("--programs", type=Path, default=HERE / "public" / "programs.toml")
    parser.add_argument("--only", help="names of programs, separated by commas")
    parser.add_argument("--log", type=Path, help="a folder for what the programs printed and the runs' documents")
    options = parser.parse_args()
    programs = tomllib.loads(options.programs.read_text())["program"]
    if options.only:
        programs = [program for program in programs if program["name"] in options.only.split(",")]
    if options.log is not None:
        options.log.mkdir(parents=True, exist_ok=True)
    lines = head([program["environment"] for program in programs])
    for program in programs:
        lines.append(row(program, options.fetched.absolute(), options.log))
        sys.stdout.write(f"{lines[-1]}\n")
        sys.stdout.flush()
        notes = [f"* {one['name']}: {one['note']}" for one in programs if "note" in one]
        options.page.write_text("\n".join([*lines, "", *notes]).rstrip() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
