"""Recall of ``leadline check`` by probe, on programs whose mistake one of its probes should name.

``python tests/detection/check_recall.py`` checks every program of ``check_mistakes``, each with its repaired twin, and
the trainings of ``healthy`` and ``architectures``; prints tables; and fails if a program could not be checked, or a
probe failed on a twin or on a healthy training. The folder of a program is the probe that should name its mistake.
``--framework keras`` or ``jax`` checks the programs of another framework. ``--only TEXT`` checks those whose name
contains the text, and ``--bare`` runs them without Leadline. ``--results FILE`` keeps what was found; programs that the
file has a result of are not repeated, unless they could not be checked.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import msgspec

sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "process")]
from beside_training import EVERY, SAMPLES, BesidePair, false_alarms, group_table, read_pairs
from beside_training import program_table as table_beside
from fork_server import client
from launching import PATIENCE, environment
from programs import (
    CHECK_MISTAKES,
    HEALTHY,
    HERE,
    KERAS_HEALTHY,
    MISTAKES,
    Program,
    healthy,
    interpreter,
    mistaken,
    repaired,
    run_in_a_process,
)

OTHER_FRAMEWORKS = ("keras", "jax")
"""Frameworks whose programs are in folders of their own: ``keras_check_mistakes`` and ``keras_check_healthy``."""
OTHER_MISTAKES = {
    framework: {
        f"{path.parent.name}/{path.stem}": path for path in sorted(HERE.glob(f"{framework}_check_mistakes/*/*.py"))
    }
    for framework in OTHER_FRAMEWORKS
}
"""Their programs with a mistake, by framework, and by probe and name."""
OTHER_HEALTHY = {
    "keras": [*sorted(HERE.glob("keras_check_healthy/*.py")), *KERAS_HEALTHY.values()],
    "jax": sorted(HERE.glob("jax_check_healthy/*.py")),
}
"""Their healthy trainings; they take no argument."""
ARCHITECTURES = {path.stem: path for path in sorted(HERE.glob("architectures/*.py"))}
"""Healthy trainings of public architectures by name; they take no argument."""
PROBES = (
    "mixed_samples",
    "look_ahead",
    "padding_influence",
    "unused_inputs",
    "loss_direction",
    "unlearnable_batch",
    "update_size",
    "gradient_of_parts",
    "mode_mismatch",
    "incomplete_state",
    "ignored_input",
    "model_inputs",
)
"""The probes of ``leadline check``, as they are numbered."""
_TOGETHER = 8
"""Programs that are checked in one process, and whose results are kept together."""
STEPS = 60
"""The steps of the trainings in ``healthy``."""
PAGE = HERE.parents[1] / "docs" / "reference" / "rules" / "recall-of-checks.md"
_HEAD = """# Recall of checks

{mistakes} programs with mistakes that people ask about in public, of which most leave no trace in losses and gradients,
were checked as [`leadline check --continue`](../../how-to/check-a-training.md) does with its defaults, each with its
repaired twin. They are in `tests/detection/check_mistakes`, nearly all written before the probes, by somebody who did
not know them; the folder of each is the probe that should name it. A mistake is *named* if that probe fails on it and
not on the twin. `python tests/detection/check_recall.py --page` regenerates this page.

"""
_HEALTHY = """
## Healthy trainings

The same probes on the twins, on trainings with a trait that resembles a mistake (`tests/detection/healthy`), and on
public architectures written small (`tests/detection/architectures`).

"""
_BESIDE_TITLE = "\n## Beside a training\n\n"
_BESIDE = """\
`leadline run --check` with everything else by default: the default rules with the default budget, and the probes at
train steps 2, 101 and 501. A sample: every {every}th program by name of the {checked} above ({of_checked} of them), and
of the {mistakes} of `tests/detection/mistakes` ({of_mistakes}), whose mistakes do show in losses and gradients; each
with its twin. *Rules alone*: a default rule fired, or remarked something at the end, with the mistake and not with the
twin; of `mistakes`, one of its cause. *Rules and probes*: that, or a probe failed with the mistake and not with the
twin. Both are counted in the same runs. `python tests/detection/beside_training.py FILE` makes them, and
`check_recall.py --page --beside FILE` writes them here. What the rules find of all programs of `mistakes` is in
[recall](recall.md).

"""
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


@dataclass(frozen=True)
class Check:
    """What a probe said of a program."""

    probe: str
    outcome: str
    """``passed``, ``failed`` or ``not applicable``."""
    message: str


@dataclass(frozen=True)
class Checked:
    """A program with what the probes said of it."""

    seconds: float
    checks: list[Check] = field(default_factory=list)
    error: str | None = None
    """Why it could not be checked."""

    @property
    def failed(self) -> dict[str, str]:
        """The message of each probe that failed."""
        return {check.probe: check.message for check in self.checks if check.outcome == "failed"}


@dataclass(frozen=True)
class Pair:
    """A program with a mistake, and its twin."""

    name: str
    mistaken: Checked
    repaired: Checked

    @property
    def probe(self) -> str:
        """The probe that should name the mistake."""
        return self.name.partition("/")[0]

    @property
    def failed(self) -> dict[str, str]:
        """The message of each probe that failed on the mistake and not on the twin."""
        return {probe: text for probe, text in self.mistaken.failed.items() if probe not in self.repaired.failed}

    @property
    def told(self) -> str:
        """How the mistake was told: ``named``, ``other`` (only another probe failed), ``silent`` or ``error``."""
        if self.mistaken.error or self.repaired.error:
            return "error"
        return "named" if self.probe in self.failed else "other" if self.failed else "silent"


def read_checks(output: str) -> list[Check] | None:
    """Return what the probes said, of the JSON document in the output of ``leadline check --json``; None: it has none.

    The script's own output may come before the document or after it.
    """
    decoder = json.JSONDecoder()
    for start in re.finditer(r"^\{", output, re.MULTILINE):
        try:
            document, _ = decoder.raw_decode(output, start.start())
        except json.JSONDecodeError:
            continue
        if "checks" in document:
            return [Check(check["probe"], check["outcome"], check["message"]) for check in document["checks"]]
    return None


def check(program: Program, *, is_bare: bool = False) -> Checked:
    """Check a program, or only run it."""
    words = [] if is_bare else ["-m", "leadline", "check", "--json"]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, f"{program.name.rpartition('/')[2]}.py")
        script.write_text(program.source)
        started = time.monotonic()
        try:
            ended = subprocess.run(
                [interpreter(program.source), *words, str(script), *program.arguments],
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                env=environment(**_OFFLINE, TF_CPP_MIN_LOG_LEVEL="3"),
                cwd=folder,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Checked(PATIENCE, error=f"it did not end within {PATIENCE:g} s")
    seconds = round(time.monotonic() - started, 1)
    if is_bare:
        return Checked(seconds, error=ended.stderr[-2000:] or "it failed" if ended.returncode else None)
    if (checks := read_checks(ended.stdout)) is None:
        return Checked(seconds, error=f"exit status {ended.returncode}, no checks: {ended.stderr[-2000:]}")
    return Checked(seconds, checks)


def check_together(chosen: Sequence[Program]) -> dict[str, Checked]:
    """Check programs for PyTorch in one process of their interpreter, and let them go on to their end."""
    given = [replace(program, is_checked=True) for program in chosen]
    python = interpreter(chosen[0].source)
    with tempfile.TemporaryDirectory() as folder:
        lines = run_in_a_process(given, Path(folder), "", python, TORCHDYNAMO_DISABLE="1", **_OFFLINE)
    return {
        line["name"]: Checked(
            round(line["seconds"], 1),
            [Check(check["probe"], check["outcome"], check["message"]) for check in line["checks"]],
            None if line["checks"] else line["error"] or "no step was checked",
        )
        for line in lines
    }


def groups(chosen: Sequence[Program]) -> list[list[Program]]:
    """Return programs in groups of one interpreter."""
    by_python: dict[str, list[Program]] = {}
    for program in chosen:
        by_python.setdefault(interpreter(program.source), []).append(program)
    return [those[at : at + _TOGETHER] for those in by_python.values() for at in range(0, len(those), _TOGETHER)]


def programs() -> list[Program]:
    """Return all programs: the mistakes, each followed by its twin, then the healthy trainings."""
    pairs = [make(path) for path in CHECK_MISTAKES.values() for make in (mistaken, repaired)]
    named = [
        Program(f"{Path(program.file).parent.name}/{program.name}", program.file, program.source) for program in pairs
    ]
    steady = [healthy(path, STEPS, 0) for path in HEALTHY.values()]
    quiet = [
        Program(f"healthy/{Path(program.file).stem}", program.file, program.source, program.arguments)
        for program in steady
    ]
    public = [Program(f"architectures/{name}", str(path), path.read_text()) for name, path in ARCHITECTURES.items()]
    return [*named, *quiet, *public]


def programs_of(framework: str) -> list[Program]:
    """Return all programs of another framework, in the same order."""
    pairs = [make(path) for path in OTHER_MISTAKES[framework].values() for make in (mistaken, repaired)]
    named = [
        Program(f"{Path(program.file).parent.name}/{program.name}", program.file, program.source) for program in pairs
    ]
    steady = [Program(f"healthy/{path.stem}", str(path), path.read_text()) for path in OTHER_HEALTHY[framework]]
    return [*named, *steady]


def pair_up(results: Mapping[str, Checked]) -> list[Pair]:
    """Return the programs with a mistake, with their twins."""
    return [Pair(name, results[name], twin) for name in results if (twin := results.get(f"{name}-repaired"))]


def probe_table(pairs: Sequence[Pair]) -> str:
    """Return the table of recall by probe, with a row for all of them."""
    lines = [
        "| probe | programs | named | other probe failed | silent | could not be checked | twins with a failure |",
        "|---|---|---|---|---|---|---|",
    ]
    for probe in [*PROBES, "all"]:
        chosen = [pair for pair in pairs if probe in (pair.probe, "all")]
        told = [pair.told for pair in chosen]
        twins = sum(bool(pair.repaired.failed) for pair in chosen)
        counts = [len(chosen), *(told.count(how) for how in ("named", "other", "silent", "error")), twins]
        lines.append(f"| {probe.replace('_', ' ')} | " + " | ".join(map(str, counts)) + " |")
    return "\n".join(lines) + "\n"


def program_table(pairs: Iterable[Pair]) -> str:
    """Return the table of the programs: how the mistake was told, by which probes, with which message."""
    lines = ["| program | told | probes that failed | message | seconds | twin |", "|---|---|---|---|---|---|"]
    for pair in pairs:
        message = pair.failed.get(pair.probe) or next(iter(pair.failed.values()), "")
        seconds = f"{pair.mistaken.seconds:.1f} | {pair.repaired.seconds:.1f}"
        lines.append(f"| {pair.name} | {pair.told} | {', '.join(pair.failed)} | {_cell(message)} | {seconds} |")
    return "\n".join(lines) + "\n"


def false_failures(results: Mapping[str, Checked]) -> dict[str, dict[str, str]]:
    """Return the probes that failed on twins and healthy trainings, with their messages, by program."""
    mistakes = CHECK_MISTAKES.keys() | {name for known in OTHER_MISTAKES.values() for name in known}
    return {name: one.failed for name, one in results.items() if name not in mistakes and one.failed}


def false_failure_table(results: Mapping[str, Checked]) -> str:
    """Return the table of false failures by kind of training, and a line for each of them."""
    kinds = {
        "twins": [name for name in results if name.endswith("-repaired")],
        "healthy": [name for name in results if name.startswith("healthy/")],
        "architectures": [name for name in results if name.startswith("architectures/")],
    }
    found = false_failures(results)
    lines = ["| trainings | checked | with a failure |", "|---|---|---|"]
    lines += [f"| {kind} | {len(names)} | {sum(name in found for name in names)} |" for kind, names in kinds.items()]
    lines += [f"\n{name}: {probe}: {text}" for name, failed in found.items() for probe, text in failed.items()]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def check_all(
    chosen: Sequence[Program], processes: int, kept: Path | None = None, *, is_bare: bool = False, is_torch: bool = True
) -> dict[str, Checked]:
    """Check programs, in so many processes at a time, and return the results by name.

    Prints the seconds and the failed probes of each, and keeps them as a line of the file. With PyTorch several
    programs share a process: to start one takes longer than to check its program.
    """
    results = read_results(kept) if kept else {}
    with ThreadPoolExecutor(processes) as threads:
        missing = [program for program in chosen if program.name not in results]
        if is_torch and not is_bare:
            futures = [threads.submit(check_together, group) for group in groups(missing)]
        else:
            futures = [threads.submit(_check_alone, program, is_bare) for program in missing]
        for future in as_completed(futures):
            for name, one in future.result().items():
                failed = one.error.strip().splitlines()[-1] if one.error else ", ".join(one.failed)
                print(f"{one.seconds:6.1f} s  {name}  {failed}", file=sys.stderr, flush=True)
                results[name] = one
                if kept:
                    with kept.open("a") as file:
                        file.write(f"{json.dumps({'name': name, 'checked': asdict(one)})}\n")
    return {program.name: results[program.name] for program in chosen}


def _check_alone(program: Program, is_bare: bool) -> dict[str, Checked]:
    return {program.name: check(program, is_bare=is_bare)}


def read_results(kept: Path) -> dict[str, Checked]:
    """Return the results of a file by name, the last of each program, without those that could not be checked."""
    lines = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    results = {line["name"]: msgspec.convert(line["checked"], Checked) for line in lines}
    return {name: one for name, one in results.items() if not one.error}


def page(pairs: Sequence[Pair], results: Mapping[str, Checked], beside: Sequence[BesidePair]) -> str:
    """Return the page of the documentation.

    Args:
        beside: The pairs that were run with ``--check``; empty: what the page says of them stays.
    """
    silent = [f"`{pair.name}`" for pair in pairs if pair.told == "silent"]
    missed = f"\nNo probe fails on {', '.join(silent)}.\n" if silent else ""
    head = _HEAD.format(mistakes=len(pairs))
    checked = head + probe_table(pairs) + missed + _HEALTHY + false_failure_table(results)
    if not beside:
        return checked + _BESIDE_TITLE + PAGE.read_text().partition(_BESIDE_TITLE)[2]
    text = _BESIDE_TITLE + _BESIDE.format(
        every=EVERY,
        checked=len(CHECK_MISTAKES),
        of_checked=len(SAMPLES["check_mistakes"]),
        mistakes=len(MISTAKES),
        of_mistakes=len(SAMPLES["mistakes"]),
    )
    quiet = "".join(f"\n{alarm}: {' '.join(found)}\n" for alarm, found in false_alarms(beside).items())
    return checked + text + group_table(beside) + "\n" + table_beside(beside) + quiet


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="only programs whose name contains the text")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--bare", action="store_true", help="run the programs without Leadline")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep what the probes said, as lines of JSON")
    parser.add_argument("--page", action="store_true", help="write the page of the documentation")
    parser.add_argument("--beside", type=Path, metavar="FILE", help="with --page: the results of beside_training.py")
    parser.add_argument("--framework", choices=OTHER_FRAMEWORKS, help="programs of another framework than PyTorch")
    options = parser.parse_args()
    os.environ["LATE_DYNAMO"] = "1"
    client.install()  # the programs are forked: nearly all of their time would be imports
    known = programs_of(options.framework) if options.framework else programs()
    chosen = [program for program in known if options.only in program.name]
    results = check_all(
        chosen, options.processes, options.results, is_bare=options.bare, is_torch=not options.framework
    )
    if not options.bare:
        pairs = pair_up(results)
        print(probe_table(pairs), program_table(pairs), false_failure_table(results), sep="\n")
        if options.page:
            PAGE.write_text(page(pairs, results, read_pairs(options.beside) if options.beside else []))
    errors = {name: one.error for name, one in results.items() if one.error}
    for name, error in errors.items():
        print(f"{name}: {error}")
    return int(bool(errors or false_failures(results)))


if __name__ == "__main__":
    sys.exit(main())
