"""Recall of the default rules on programs with real mistakes, in docs/reference/rules/recall.md.

``python tests/detection/recall.py`` runs all programs with the default captures and budget and writes the page. It
takes 5 to 60 minutes on two cores, and fails if a rule fires on a twin or on a healthy training. With names of mistakes
it runs only these, with their twins, and prints what was found. ``--results FILE`` keeps what was found, so that a
measurement can be made in parts.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "process"))
from judged_runs import Told
from programs import HEALTHY, HERE, MISTAKES, PUBLIC_CODE, Program, Result, healthy, mistaken, repaired, run, run_kept

from leadline.config.run_config import DEFAULT_BUDGET
from leadline.rules.registry import find_rule

LENGTHS, SEEDS = (100, 300, 1000), (0, 1, 2)
PUBLIC_STEPS = 200
PAGE = HERE.parents[1] / "docs" / "reference" / "rules" / "recall.md"
KERAS_TITLE = "\n## Keras\n"
"""What begins the section that ``keras_recall.py`` writes."""

_HEAD = """# Recall

{mistakes} small programs with mistakes that people ask about in public were run with the default captures, the default
rules and the default budget of {budget}, each with its repaired twin. They are in `tests/detection/mistakes`: lines
that end in `# mistake` are not in the twin, and those after `# repaired:` only there. The table of causes was written
before the first run; only two rules got their names later, `loss_choice`, whose advice was planned for `loss_input`,
and `closing_remarks`. A mistake is *found* if a default rule of its cause fired, or remarked something at the end, and
did neither on the twin. Under *other rules* are mistakes that only rules of other causes found. `python
tests/detection/recall.py` regenerates this page; the tests run a part of the programs. Mistakes that leave no trace in
losses and gradients are tested on a copy of the training: [recall of checks](recall-of-checks.md).

"""
_NOT_FOUND = """
## Not found, and why

- `rare_class`, `rare_class_of_four`: data with rare classes is healthy more often than not, so that `class_imbalance`
  is not a default rule.
- `shuffled_labels`, `saturated_sigmoids`: the loss falls a little, or is not at the level of guessing; only a loss that
  stays exactly there is found.
- `dropout_in_validation`: calls without gradients are counted only where the forward pass of the following step is
  captured; `validation_in_train_mode` is found because of that.
- `adam_with_rate_one`, `killed_by_the_first_step`: the loss settles above guessing without rising, and the bias of the
  last layer still has a gradient.
- `gradients_kept_by_hand`: gradients are clipped in place after each backward pass, which looks like a renewal.
"""
_HEALTHY_HEAD = """
## Healthy trainings

{kinds} kinds of trainings with a trait that resembles a mistake (`tests/detection/healthy`), with seeds {seeds}. A cell
has the rules that fired and the number of seeds, `·`: none.

"""
_PUBLIC_HEAD = """
## Mistakes in public code

Mistakes that were put into small trainings in the manner of public code (`tests/detection/public_code`), {steps} steps
long. No default rule fired on {silent} of the {programs} trainings without a mistake.

"""
_CAUSES_HEAD = """
## Causes

The rules that name a cause (`tests/detection/causes.toml`).

"""


@dataclass(frozen=True)
class Cause:
    """What is wrong with programs, and the rules that name it."""

    name: str
    rules: tuple[str, ...]

    def found(self, result: Result) -> dict[str, Told]:
        """Return the rules of this cause that fired, the first to fire first, then those that remarked something."""
        fired = sorted(result.fired.items(), key=lambda pair: pair[1].step or 0)
        return {name: told for name, told in [*fired, *result.remarked.items()] if name in self.rules}

    @property
    def title(self) -> str:
        return self.name.replace("_", " ")


def _read(name: str) -> dict[str, dict[str, object]]:
    return tomllib.loads((HERE / name).read_text())


CAUSES = {
    program: Cause(name, tuple(cause["rules"]))
    for name, cause in _read("causes.toml").items()
    for program in cause["programs"]
}
"""The cause of each mistake, by program."""


@dataclass(frozen=True)
class PublicMistake:
    """A mistake put into a program of public code."""

    cause: Cause
    program: str
    old: str
    new: str

    def put_in(self, seed: int = 0) -> Program:
        """Return the program with the mistake.

        Raises:
            ValueError: The text to replace does not occur exactly once.
        """
        program = healthy(PUBLIC_CODE[self.program], PUBLIC_STEPS, seed)
        if program.source.count(self.old) != 1:
            raise ValueError(f"{self.program}: {self.old!r} must occur once")
        return replace(program, name=self.cause.name, source=program.source.replace(self.old, self.new))


PUBLIC_MISTAKES = [
    PublicMistake(Cause(name, tuple(entry["rules"])), entry["program"], entry["old"], entry["new"])
    for name, entry in _read("public_mistakes.toml").items()
]


@dataclass(frozen=True)
class Outcome:
    """What the rules found in a program with a mistake, and in its twin."""

    cause: Cause
    mistaken: Result
    repaired: Result

    @property
    def found(self) -> dict[str, Told]:
        """The rules that name the cause and are silent on the twin, the first to fire first."""
        return {name: told for name, told in self.cause.found(self.mistaken).items() if name not in self._of_twin}

    @property
    def others(self) -> list[str]:
        """The other rules that fired on the mistake and not on the twin."""
        return [name for name in self.mistaken.fired if name not in self.found and name not in self._of_twin]

    @property
    def _of_twin(self) -> set[str]:
        return {*self.repaired.fired, *self.repaired.remarked}


Run = Callable[[Sequence[Program]], dict[str, Result]]
"""Runs and judges programs."""


def recall(names: Iterable[str] = MISTAKES, run: Run = run) -> dict[str, Outcome]:
    """Run programs and their twins, and return the outcomes by name."""
    paths = {name: MISTAKES[name] for name in names}
    results = run([program for path in paths.values() for program in (mistaken(path), repaired(path))])
    return {name: Outcome(CAUSES[name], results[name], results[f"{name}-repaired"]) for name in paths}


def alarms(results: Mapping[str, Result]) -> dict[str, tuple[str, ...]]:
    """Return what the rules found in programs that should be silent: the first message by program and rule."""
    return {
        f"{name}: {rule}": told.findings[:1] for name, result in results.items() for rule, told in result.fired.items()
    }


def class_table(outcomes: Mapping[str, Outcome]) -> str:
    """Return the table of recall by class, with a row for all of them."""
    lines = [
        "| class | programs | found | other rules | not found | twins with an alarm | median step |",
        "|---|---|---|---|---|---|---|",
    ]
    classes = sorted({MISTAKES[name].parent.name for name in outcomes})
    for kind in [*classes, "all"]:
        chosen = [outcome for name, outcome in outcomes.items() if kind in (MISTAKES[name].parent.name, "all")]
        found = [outcome for outcome in chosen if outcome.found]
        others = sum(bool(outcome.others) for outcome in chosen if not outcome.found)
        steps = [step for outcome in found if (step := next(iter(outcome.found.values())).step) is not None]
        twins = sum(bool(outcome.repaired.fired) for outcome in chosen)
        median = f"{statistics.median(steps):g}" if steps else ""
        missed = len(chosen) - len(found) - others
        name = kind.replace("_", " ")
        lines.append(f"| {name} | {len(chosen)} | {len(found)} | {others} | {missed} | {twins} | {median} |")
    return "\n".join(lines) + "\n"


def program_table(outcomes: Mapping[str, Outcome]) -> str:
    """Return the table of the programs: who found the mistake, at which step."""
    lines = ["| program | cause | found by | step | other rules |", "|---|---|---|---|---|"]
    for name, outcome in outcomes.items():
        found = outcome.found
        step = _step(next(iter(found.values()), None))
        by, others = ", ".join(map(_named, found)), ", ".join(outcome.others)
        lines.append(f"| {name} | {outcome.cause.title} | {by} | {step} | {others} |")
    return "\n".join(lines) + "\n"


def _named(rule: str) -> str:
    return f"{rule} (advice)" if find_rule(rule).severity == "advice" else rule


def healthy_table(results: Mapping[str, Result]) -> str:
    """Return the table of the rules that fired on healthy trainings, by kind and length."""
    lines = ["| training |" + "".join(f" {length:,} steps |" for length in LENGTHS), "|---|" + "---|" * len(LENGTHS)]
    for kind in HEALTHY:
        cells = []
        for length in LENGTHS:
            fired = [rule for seed in SEEDS for rule in results[f"{kind}-{length}-{seed}"].fired]
            cells.append(", ".join(f"{rule} {fired.count(rule)}" for rule in dict.fromkeys(fired)) or "·")
        lines.append(f"| {kind.replace('_', ' ')} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def public_table(results: Mapping[str, Result]) -> str:
    """Return the table of the mistakes in public code: who found them, at which step, with which message."""
    lines = ["| mistake | training | found by | step | message |", "|---|---|---|---|---|"]
    for mistake in PUBLIC_MISTAKES:
        found = mistake.cause.found(results[mistake.cause.name])
        first = next(iter(found.values()), None)
        message = _message(first).replace("|", "\\|") if first else ""
        step = _step(first)
        by = ", ".join(map(_named, found))
        lines.append(f"| {mistake.cause.title} | {mistake.program} | {by} | {step} | {message} |")
    return "\n".join(lines) + "\n"


def _step(told: Told | None) -> str:
    """Return the step of the first finding; of a remark the end."""
    return "" if told is None else "end" if told.step is None else f"{told.step:,}"


def _message(told: Told) -> str:
    return told.findings[0].partition(": ")[2] if told.findings else told.remarks[0]


def cause_table() -> str:
    """Return the table of causes: the rules that name them."""
    causes = {cause.name: cause for cause in CAUSES.values()}
    rows = [f"| {cause.title} | {', '.join(cause.rules)} |" for cause in causes.values()]
    return "\n".join(["| cause | rules |", "|---|---|", *rows]) + "\n"


def run_healthy(
    kinds: Iterable[str] = HEALTHY, lengths: Iterable[int] = LENGTHS, seeds: Iterable[int] = SEEDS, run: Run = run
) -> dict[str, Result]:
    """Run healthy trainings; return the results by kind, length and seed."""
    seeds, lengths = list(seeds), list(lengths)
    return run([healthy(HEALTHY[kind], length, seed) for kind in kinds for length in lengths for seed in seeds])


def run_public(names: Iterable[str] = PUBLIC_CODE, run: Run = run) -> dict[str, Result]:
    """Run public code without and with its mistakes; return the results by program or mistake."""
    names = list(names)
    clean = [replace(healthy(PUBLIC_CODE[name], PUBLIC_STEPS, 0), name=name) for name in names]
    return run([*clean, *(mistake.put_in() for mistake in PUBLIC_MISTAKES if mistake.program in names)])


def show(names: Iterable[str]) -> None:
    """Print what the rules found in some mistakes and their twins."""
    for name, outcome in recall(names).items():
        for program, result in ((name, outcome.mistaken), (f"{name}-repaired", outcome.repaired)):
            print(program, result.error or "")
            for rule, told in {**result.fired, **result.remarked}.items():
                print(f"    {rule}:", *told.findings[:1], *told.remarks[:1])


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the recall of the default rules; see the top of this file.")
    parser.add_argument("mistakes", nargs="*", metavar="MISTAKE", help="run only these, and leave the page as it is")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep results here, and repeat none that it has")
    options = parser.parse_args()
    names = options.mistakes
    if unknown := set(names) - set(MISTAKES):
        parser.error(f"no such mistake: {', '.join(sorted(unknown))}")
    if names:
        show(names)
        return 0
    kept: Run = partial(run_kept, kept=options.results) if options.results else run
    outcomes, quiet, public = recall(run=kept), run_healthy(run=kept), run_public(run=kept)
    silent = sum(not public[name].fired for name in PUBLIC_CODE)
    page = _HEAD.format(mistakes=len(outcomes), budget=DEFAULT_BUDGET.replace("%", " %"))
    page += class_table(outcomes) + "\n" + program_table(outcomes) + _NOT_FOUND
    page += _HEALTHY_HEAD.format(kinds=len(HEALTHY), seeds=", ".join(map(str, SEEDS))) + healthy_table(quiet)
    page += _PUBLIC_HEAD.format(steps=PUBLIC_STEPS, silent=silent, programs=len(PUBLIC_CODE)) + public_table(public)
    of_keras = "".join(PAGE.read_text().partition(KERAS_TITLE)[1:])
    PAGE.write_text(page + _CAUSES_HEAD + cause_table() + of_keras)
    print(page)
    results = {**{name: outcome.mistaken for name, outcome in outcomes.items()}, **quiet, **public}
    twins = {f"{name}-repaired": outcome.repaired for name, outcome in outcomes.items()}
    for name, result in {**results, **twins}.items():
        if result.error:
            print(f"{name} ended with {result.error}")
    false = alarms({**twins, **quiet, **{name: public[name] for name in PUBLIC_CODE}})
    for alarm, findings in false.items():
        print(alarm, *findings)
    return int(bool(false))


if __name__ == "__main__":
    sys.exit(main())
