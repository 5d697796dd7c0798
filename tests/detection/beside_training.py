"""What ``leadline run --check`` tells of programs with mistakes: the probes, beside the default rules of the same run.

``python tests/detection/beside_training.py FILE`` runs every fourth program of ``check_mistakes`` and of
``mistakes`` by name, each with its twin, and keeps the results as lines of JSON; programs that the file has a result of
are not repeated. ``check_recall.py --page`` reads the file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / "process")]
from programs import CHECK_MISTAKES, MISTAKES, Program, Result, mistaken, read_results, repaired, run_kept
from recall import CAUSES

from leadline.records.check_result import PROBES

EVERY = 4
"""Of the programs in each folder, sorted by name, each of this number is run."""
SAMPLES = {
    folder: {name: path for at, (name, path) in enumerate(sorted(known.items())) if at % EVERY == 0}
    for folder, known in (("check_mistakes", CHECK_MISTAKES), ("mistakes", MISTAKES))
}
"""The programs that are run, by folder and name."""


@dataclass(frozen=True)
class BesidePair:
    """A program with a mistake, and its twin, as ``run --check`` tells them."""

    name: str
    mistaken: Result
    repaired: Result

    @property
    def rules(self) -> list[str]:
        """The default rules that fired, or remarked something, with the mistake and not with the twin."""
        told = {**self.mistaken.fired, **self.mistaken.remarked}
        return [name for name in told if name not in PROBES and name not in self._of_twin]

    @property
    def probes(self) -> list[str]:
        """The probes that failed with the mistake and not with the twin."""
        return [name for name in self.mistaken.fired if name in PROBES and name not in self._of_twin]

    @property
    def is_named_by_a_rule(self) -> bool:
        """Whether a rule of its cause did; of a program without an entry in ``causes.toml``, any rule."""
        cause = CAUSES.get(self.name)
        return bool(self.rules if cause is None else set(cause.rules) & set(self.rules))

    @property
    def _of_twin(self) -> set[str]:
        return {*self.repaired.fired, *self.repaired.remarked}


def programs() -> list[Program]:
    """Return the programs to run: each with a mistake, followed by its twin."""
    return [
        replace(program, name=f"{name}{'-repaired' * (program.name != path.stem)}", rules=tuple(PROBES))
        for known in SAMPLES.values()
        for name, path in known.items()
        for program in (mistaken(path), repaired(path))
    ]


def read_pairs(kept: Path) -> list[BesidePair]:
    """Return the programs of a file with their twins; those that are no programs any more are left out.

    Raises:
        ValueError: A program of today has no result.
    """
    results = read_results(kept)
    names = [program.name for program in programs()]
    if missing := [name for name in names if name not in results]:
        raise ValueError(f"{kept} has no result of {', '.join(missing[:5])}, and of {len(missing)} programs in all")
    return pair_up({name: results[name] for name in names})


def pair_up(results: Mapping[str, Result]) -> list[BesidePair]:
    """Return the programs with a mistake, with their twins."""
    return [BesidePair(name, one, twin) for name, one in results.items() if (twin := results.get(f"{name}-repaired"))]


def group_table(pairs: Sequence[BesidePair]) -> str:
    """Return the table of who tells the mistakes, with a row for each folder."""
    lines = [
        "| programs | number | rules alone | rules and probes | silent | twins: a rule fires | twins: a probe fails |",
        "|---|---|---|---|---|---|---|",
    ]
    for folder, known in SAMPLES.items():
        chosen = [pair for pair in pairs if pair.name in known]
        by_rules = sum(pair.is_named_by_a_rule for pair in chosen)
        told = sum(pair.is_named_by_a_rule or bool(pair.probes) for pair in chosen)
        alarms = [set(pair.repaired.fired) for pair in chosen]
        of_rules, of_probes = (
            sum(bool(fired - PROBES.keys()) for fired in alarms),
            sum(bool(fired & PROBES.keys()) for fired in alarms),
        )
        counts = (len(chosen), by_rules, told, len(chosen) - told, of_rules, of_probes)
        lines.append(f"| `{folder}` | " + " | ".join(map(str, counts)) + " |")
    return "\n".join(lines) + "\n"


def program_table(pairs: Sequence[BesidePair]) -> str:
    """Return the table of the programs: the rules and the probes that tell the mistake."""
    lines = ["| program | rules | probes |", "|---|---|---|"]
    lines += [f"| {pair.name} | {', '.join(pair.rules)} | {', '.join(pair.probes)} |" for pair in pairs]
    return "\n".join(lines) + "\n"


def false_alarms(pairs: Sequence[BesidePair]) -> dict[str, tuple[str, ...]]:
    """Return what rules and probes found in the twins: the first message by program and rule."""
    return {
        f"{pair.name}-repaired: {rule}": told.findings[:1]
        for pair in pairs
        for rule, told in pair.repaired.fired.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, metavar="FILE", help="where the results are kept, as lines of JSON")
    parser.add_argument("--only", default="", metavar="TEXT", help="only programs whose name contains the text")
    options = parser.parse_args()
    chosen = [program for program in programs() if options.only in program.name]
    results = run_kept(chosen, options.results)
    pairs = pair_up(results)
    print(group_table(pairs), program_table(pairs), sep="\n")
    false = false_alarms(pairs)
    for alarm, findings in false.items():
        print(alarm, *findings)
    errors = {name: one.error for name, one in results.items() if one.error}
    for name, error in errors.items():
        print(f"{name}: {error}")
    return int(bool(errors or false))


if __name__ == "__main__":
    sys.exit(main())
