"""False alarms on healthy trainings that no rule was tuned for, as a section of docs/reference/rules/false-alarms.md.

``python tests/detection/untuned.py FOLDER`` runs the programs of ``tests/detection/untuned`` as users would, each with
``leadline run --on '*=stop_training'``, on a quiet machine and beside busy loops, writes the section, and fails if a
rule found a problem or a training did not run to its end. With ``quiet`` or ``busy`` it only runs them so; with
``watch`` it runs them without actions. Programs that the folder has a result of are not repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

sys.path.append(str(Path(__file__).parents[1] / "process"))
from false_alarms import TABLE
from judged_runs import Told, judge
from launching import ON_JAX, ON_TENSORFLOW, PATIENCE, environment

from leadline.rules.registry import find_rule

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parents[1] / ".venvs"
PLACES = {
    "torch": ("torch", {}),
    "keras-tensorflow": ("tensorflow", ON_TENSORFLOW),
    "keras-torch": ("tensorflow", {"KERAS_BACKEND": "torch"}),
    "jax": ("jax", ON_JAX),
    "mxnet": ("mxnet", {}),
    "trees": ("trees", {}),
    "trainers": ("loggers", {}),
}
"""The environment and the variables of each kind of programs; the folder is its name up to the hyphen."""
TRAININGS = {
    f"{place}/{path.stem}": path
    for place in PLACES
    for path in sorted((HERE / "untuned" / place.partition("-")[0]).glob("*.py"))
}
"""The trainings; their arguments are a number of steps, and a seed."""
STEPS = 300
MODES = ("quiet", "busy", "watch")
TITLE = "\n## Trainings that no rule was tuned for\n"
_HEAD = """
{count} healthy trainings of many kinds (`tests/detection/untuned`: {kinds}) were written before any rule was read, and
run as users would, by `leadline run --on '*=stop_training'`: about {steps} steps each, on a quiet machine and beside
as many busy loops as it has processors. *Learned* counts those whose loss became clearly smaller, or whose reward or
accuracy clearly larger. *Trainers* are those of libraries: of TRL SFT on answers and packed, DPO, KTO, GRPO, RLOO and a
reward model; of Transformers a classifier, masked words, a sequence-to-sequence model, images and a mixture of experts;
LoRA with recomputed activations and DoRA of PEFT; PPO, A2C, DQN and SAC of Stable-Baselines3. Ten trainings had a
problem in the first runs of their programs, and one when all were run again in December 2026 (adapters that are frozen
while the model is pretrained), which led to changes of eight rules and of what begins another training in JAX; the
table is of the rules as they are. Keras' trainings were run on two backends. `python tests/detection/untuned.py FOLDER`
regenerates this section.

"""
_LEARNED = re.compile(r"^.*(fell|rose) from (\S+) to (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """How a training ended, and what the rules found."""

    status: int
    seconds: float
    has_learned: bool
    rules: dict[str, Told]
    tail: str
    """The end of what it wrote to standard error."""

    @property
    def problems(self) -> dict[str, Told]:
        return {name: told for name, told in self.rules.items() if told.findings and not _is_advice(name)}

    @property
    def advice(self) -> dict[str, Told]:
        return {name: told for name, told in self.rules.items() if told.findings and _is_advice(name)}


def _is_advice(rule: str) -> bool:
    return find_rule(rule).severity == "advice"


def run(name: str, folder: Path, *, steps: int = STEPS, seed: int = 0, stops: bool = True) -> Outcome:
    """Run a training with the default rules and captures, of which all may stop it."""
    place, _, program = name.partition("/")
    home, variables = PLACES[place]
    run_name = f"{place}-{program}"
    shutil.rmtree(folder / run_name, ignore_errors=True)
    words = ["run", "--name", run_name, "--out", str(folder), *(("--on", "*=stop_training") if stops else ())]
    started = time.monotonic()
    python = str(ENVIRONMENTS / home / "bin" / "python")
    ended = subprocess.run(
        [python, "-m", "leadline", *words, "--", python, str(TRAININGS[name]), str(steps), str(seed)],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        env=environment(**variables),
        cwd=folder,
        check=False,
    )
    seconds = round(time.monotonic() - started, 1)
    return Outcome(ended.returncode, seconds, has_learned(ended.stdout), judge(folder / run_name), ended.stderr[-2000:])


def has_learned(output: str) -> bool:
    """Return whether the last line says that a value became clearly better, as each training does at its end."""
    if not (told := _LEARNED.findall(output)):
        return False
    direction, before, after = told[-1][0], float(told[-1][1]), float(told[-1][2])
    gain = before - after if direction == "fell" else after - before
    return gain > 0.1 * abs(before)


def run_all(
    names: Sequence[str], folder: Path, mode: str, *, steps: int, seed: int, processes: int
) -> dict[str, Outcome]:
    """Run trainings that have no result yet; return the outcomes of all by name."""
    notes = folder / f"{mode}-{steps}-{seed}.jsonl"
    outcomes = _read(notes)
    missing = [name for name in names if name not in outcomes]
    place = folder / notes.stem
    place.mkdir(parents=True, exist_ok=True)
    with busy_loops(os.cpu_count() or 1 if mode == "busy" else 0), ThreadPoolExecutor(processes) as threads:
        futures = {
            threads.submit(run, name, place, steps=steps, seed=seed, stops=mode != "watch"): name for name in missing
        }
        for future in as_completed(futures):
            name, outcome = futures[future], future.result()
            outcomes[name] = outcome
            with notes.open("a") as file:
                file.write(json.dumps({"name": name, **asdict(outcome)}) + "\n")
            print(line(name, outcome), flush=True)
    return {name: outcomes[name] for name in names}


def _read(notes: Path) -> dict[str, Outcome]:
    lines = notes.read_text().splitlines() if notes.exists() else []
    entries = [json.loads(text) for text in lines]
    return {entry.pop("name"): msgspec.convert(entry, Outcome) for entry in entries}


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep as many processors busy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def line(name: str, outcome: Outcome) -> str:
    """Return a line on a training, and one for each rule that fired."""
    how = "ended" if outcome.status == 0 else "STOPPED" if outcome.status == 10 else f"FAILED ({outcome.status})"
    learned = "" if outcome.has_learned else ", did not learn"
    found = [
        f"    {'advice' if _is_advice(rule) else 'PROBLEM'} {rule}: {finding}"
        for rule, told in {**outcome.problems, **outcome.advice}.items()
        for finding in told.findings[:2]
    ]
    return "\n".join([f"{name}: {how} after {outcome.seconds:.0f} s{learned}", *found])


def table(outcomes: Mapping[str, Mapping[str, Outcome]]) -> str:
    """Return the table of trainings by framework and mode, with a row for all of them."""
    lines = ["| trainings | machine | number | ran to the end | learned | with a problem | with advice |"]
    lines.append("|---" * 7 + "|")
    for place in [*PLACES, "all"]:
        for mode, of_mode in outcomes.items():
            chosen = [each for name, each in of_mode.items() if place in (name.partition("/")[0], "all")]
            if not chosen:
                continue
            ended, learned = sum(each.status == 0 for each in chosen), sum(each.has_learned for each in chosen)
            problems, advice = sum(bool(each.problems) for each in chosen), sum(bool(each.advice) for each in chosen)
            lines.append(f"| {place} | {mode} | {len(chosen)} | {ended} | {learned} | {problems} | {advice} |")
    return "\n".join(lines) + "\n"


def finding_table(outcomes: Mapping[str, Mapping[str, Outcome]]) -> str:
    """Return the table of the rules that fired, if any did."""
    fired = Counter(
        (rule, mode, "advice" if _is_advice(rule) else "problem")
        for mode, of_mode in outcomes.items()
        for outcome in of_mode.values()
        for rule in (*outcome.problems, *outcome.advice)
    )
    rows = [f"| {rule} | {mode} | {what} | {count} |" for (rule, mode, what), count in sorted(fired.items())]
    return "\n".join(["", "| rule | machine | severity | trainings |", "|---|---|---|---|", *rows, ""]) if rows else ""


def write(outcomes: Mapping[str, Mapping[str, Outcome]], steps: int) -> None:
    """Write the section of the page."""
    kinds = ", ".join(dict.fromkeys(place.partition("-")[0] for place in PLACES))
    head = _HEAD.format(count=len(TRAININGS), kinds=kinds, steps=steps)
    page = TABLE.read_text().partition(TITLE)[0]
    TABLE.write_text(page + TITLE + head + table(outcomes) + finding_table(outcomes))


def alarms(outcomes: Iterable[tuple[str, Outcome]]) -> list[str]:
    """Return what should not be: problems, ends before the end, and trainings that did not learn."""
    return [
        line(name, outcome)
        for name, outcome in outcomes
        if outcome.status or outcome.problems or not outcome.has_learned
    ]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("mode", nargs="?", choices=MODES)
    options.add_argument("--only", default="", help="part of the names")
    options.add_argument("--steps", type=int, default=STEPS)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--processes", type=int, default=2)
    asked = options.parse_args()
    names = [name for name in TRAININGS if asked.only in name]
    modes = (asked.mode,) if asked.mode else ("quiet", "busy")
    outcomes = {
        mode: run_all(
            names, asked.folder.absolute(), mode, steps=asked.steps, seed=asked.seed, processes=asked.processes
        )
        for mode in modes
    }
    if asked.mode is None and not asked.only:
        write(outcomes, asked.steps)
    print(table(outcomes))
    false = alarms(pair for of_mode in outcomes.values() for pair in of_mode.items())
    print(*false, sep="\n")
    return int(bool(false))


if __name__ == "__main__":
    sys.exit(main())
