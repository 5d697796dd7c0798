"""Recall of the default rules on programs with Keras, as a section of docs/reference/rules/recall.md.

``python tests/detection/keras_recall.py`` runs all programs on both backends, with the default captures and budget, and
writes the section. It takes half an hour on two cores, and fails if a rule fires on a twin or on a healthy training.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "process"))
from judged_runs import Told
from programs import HERE, KERAS_BACKENDS, KERAS_HEALTHY, KERAS_MISTAKES, Program, Result, mistaken, repaired, run
from recall import KERAS_TITLE, PAGE, Cause, Outcome, alarms

_NAMES = {"tensorflow": "TensorFlow", "torch": "PyTorch"}
_HEAD = """
{mistakes} programs with Keras as people ask about them, each with its repaired twin (`tests/detection/keras_mistakes`),
and {healthy} healthy trainings (`tests/detection/keras_healthy`), were run on two backends as above; *found* means what
it means there. With labels outside of [0, 1] (`class_indices_bce`, `labels_minus_one`) PyTorch raises an error of its
own, and on TensorFlow Keras takes the softmax of `softmax_of_logits_loss` back, so that nothing is wrong.
`python tests/detection/keras_recall.py` regenerates this section.

"""
_HEALTHY_HEAD = """
The rules that fired on the healthy trainings, `·`: none.

"""
_CAUSES_HEAD = """
The rules that name a cause of these programs (`tests/detection/keras_causes.toml`).

"""

CAUSES = {
    program: Cause(name, tuple(cause["rules"]))
    for name, cause in tomllib.loads((HERE / "keras_causes.toml").read_text()).items()
    for program in cause["programs"]
}
"""The cause of each mistake, by program."""


def run_mistakes(backend: str, names: Iterable[str] = KERAS_MISTAKES) -> dict[str, Outcome]:
    """Run programs and their twins; return the outcomes by name."""
    paths = {name: KERAS_MISTAKES[name] for name in names}
    programs = [program for path in paths.values() for program in (mistaken(path), repaired(path))]
    results = run(programs, backend=backend)
    return {name: Outcome(CAUSES[name], results[name], results[f"{name}-repaired"]) for name in paths}


def run_healthy(backend: str, names: Iterable[str] = KERAS_HEALTHY) -> dict[str, Result]:
    """Run healthy trainings; return the results by name."""
    paths = {name: KERAS_HEALTHY[name] for name in names}
    return run([Program(name, str(path), path.read_text()) for name, path in paths.items()], backend=backend)


def section(outcomes: Mapping[str, Mapping[str, Outcome]], healthy: Mapping[str, Mapping[str, Result]]) -> str:
    """Return the section of the page.

    Args:
        outcomes: Those of the mistakes, by backend and program.
        healthy: The results of the healthy trainings, by backend and program.
    """
    text = _HEAD.format(mistakes=len(KERAS_MISTAKES), healthy=len(KERAS_HEALTHY))
    text += _class_table(outcomes) + "\n" + _program_table(outcomes)
    text += _HEALTHY_HEAD + _healthy_table(healthy)
    rows = [f"| {cause.title} | {', '.join(cause.rules)} |" for cause in dict.fromkeys(CAUSES.values())]
    return text + _CAUSES_HEAD + _table(["cause", "rules"], rows)


def _class_table(outcomes: Mapping[str, Mapping[str, Outcome]]) -> str:
    rows = []
    for kind in [*sorted({path.parent.name for path in KERAS_MISTAKES.values()}), "all"]:
        names = [name for name, path in KERAS_MISTAKES.items() if kind in (path.parent.name, "all")]
        cells = [kind.replace("_", " "), str(len(names))]
        for of_backend in outcomes.values():
            cells.append(str(sum(bool(of_backend[name].found) for name in names)))
            cells.append(str(sum(bool(of_backend[name].repaired.fired) for name in names)))
        rows.append(f"| {' | '.join(cells)} |")
    columns = [f"{what} on {_NAMES[backend]}" for backend in outcomes for what in ("found", "twins with an alarm")]
    return _table(["class", "programs", *columns], rows)


def _program_table(outcomes: Mapping[str, Mapping[str, Outcome]]) -> str:
    rows = [
        f"| {name} | {CAUSES[name].title} | {' | '.join(_cell(of[name].found) for of in outcomes.values())} |"
        for name in KERAS_MISTAKES
    ]
    return _table(["program", "cause", *(f"found by, on {_NAMES[backend]}" for backend in outcomes)], rows)


def _cell(found: Mapping[str, Told]) -> str:
    return ", ".join(f"{name} ({_place(told)})" for name, told in found.items())


def _place(told: Told) -> str:
    return "at the end" if told.step is None else f"step {told.step:,}"


def _healthy_table(healthy: Mapping[str, Mapping[str, Result]]) -> str:
    rows = []
    for name in KERAS_HEALTHY:
        cells = [", ".join(of_backend[name].fired) or "·" for of_backend in healthy.values()]
        rows.append(f"| {name.replace('_', ' ')} | {' | '.join(cells)} |")
    return _table(["training", *(_NAMES[backend] for backend in healthy)], rows)


def _table(head: list[str], rows: Iterable[str]) -> str:
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows]) + "\n"


def main() -> int:
    outcomes = {backend: run_mistakes(backend) for backend in KERAS_BACKENDS}
    healthy = {backend: run_healthy(backend) for backend in KERAS_BACKENDS}
    page = PAGE.read_text().partition(KERAS_TITLE)[0]
    PAGE.write_text(page + KERAS_TITLE + section(outcomes, healthy))
    quiet = {
        f"{name} on {backend}": result
        for backend in KERAS_BACKENDS
        for name, result in {
            **{f"{name}-repaired": outcome.repaired for name, outcome in outcomes[backend].items()},
            **healthy[backend],
        }.items()
    }
    for name, result in quiet.items():
        if result.error:
            print(f"{name} ended with {result.error}")
    false = alarms(quiet)
    for alarm, findings in false.items():
        print(alarm, *findings)
    return int(bool(false))


if __name__ == "__main__":
    sys.exit(main())
