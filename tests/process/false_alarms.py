"""Judging healthy trainings by every rule, and the table of false alarms: ``python tests/process/false_alarms.py``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from launching import PATIENCE, SCRIPTS, environment

from leadline.judge.evaluator import Evaluator
from leadline.judge.rule_plan import resolve_rules
from leadline.reader.find_runs import read_manifest
from leadline.rules.registry import BUILT_IN, DEFAULT

KINDS = (
    "mlp",
    "cnn",
    "rnn",
    "transformer",
    "gan",
    "vae",
    "policy_gradient",
    "regression",
    "fine_tuning",
    "amp",
)
SEEDS = (0, 1)
TABLE = Path(__file__).parents[2] / "docs" / "rules" / "false-alarms.md"

_HEAD = """# False alarms

Ten kinds of healthy trainings, {seeds} seeds each, were captured with the preset `full` and everything that the rules
need, without a budget, and judged by every rule with its default parameters. The trainings are in
`tests/process/scripts/healthy_trainings.py`: each falls to at most two thirds of its first loss (or cost), most much
further. They ran on a machine that had much else to do, which `throughput_regression` and `step_outlier` see. What
needs the agent's samples or several ranks is undecided here: `straggler`, `memory_growth` and `gpu_throttling` were
silent on the healthy trainings of `tests/process/test_what_bound_runs.py` (a perceptron, a convolutional net, two
ranks), `gpu_throttling` for want of a GPU. A cell counts the runs in which the rule fired; `·` none, `?` undecided in
all of them (what it looks at is not there), a number with `!` runs in which the rule failed. `python
tests/process/false_alarms.py` makes this table anew.

**D**: judged by default. *D*: meant for the same, silent here.

"""


@dataclass(frozen=True)
class Told:
    """What a rule said of a run."""

    verdict: str
    findings: tuple[str, ...]
    """The messages of what opened."""
    why: str


def train(kinds: Iterable[str], seeds: Iterable[int], folder: Path) -> str:
    """Run the trainings in one process; what it printed."""
    arguments = [",".join(kinds), ",".join(map(str, seeds)), str(folder)]
    ended = subprocess.run(
        [sys.executable, str(SCRIPTS / "healthy_trainings.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
        env=environment(),
        cwd=folder,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout


def judge(run: Path) -> dict[str, Told]:
    """What each rule of a run's manifest says of it, afterwards."""
    manifest = read_manifest(str(run))
    rules = [(spec.alias, rule) for spec, rule in resolve_rules(manifest.rules)]
    progress = Evaluator(str(run), rules, started_ns=manifest.started_ns).advance(is_over=True)
    opened: dict[str, list[str]] = {}
    for alias, event in progress.events:
        if event["event"] == "opened":
            opened.setdefault(alias, []).append(f"step {event['step']}: {event['message']}")
    return {
        alias: Told(
            state["verdict"] if state["error"] is None else "error",
            tuple(opened.get(alias, ())),
            state["error"] or state["why"],
        )
        for alias, state in progress.rules.items()
    }


def judge_all(folder: Path) -> dict[str, dict[str, Told]]:
    """By run, what each rule says."""
    return {run.name: judge(run) for run in sorted(folder.iterdir()) if (run / "manifest.json").exists()}


def table(told: Mapping[str, Mapping[str, Told]]) -> str:
    """The table of false alarms, by rule and kind of training."""
    kinds = [kind for kind in KINDS if any(run.rpartition("-")[0] == kind for run in told)]
    lines = ["| rule | " + " | ".join(kind.replace("_", " ") for kind in kinds) + " |", "|---|" + "---|" * len(kinds)]
    for rule in sorted(BUILT_IN):
        cells = [
            _cell([each[rule] for run, each in told.items() if run.rpartition("-")[0] == kind and rule in each])
            for kind in kinds
        ]
        if any(cells):
            mark = " **D**" if rule in DEFAULT else ""
            lines.append(f"| {rule}{mark} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(told: list[Told]) -> str:
    verdicts = Counter(each.verdict for each in told)
    if verdicts["error"]:
        return f"{verdicts['error']}!"
    if verdicts["fired"]:
        return str(verdicts["fired"])
    return "" if not told else "?" if verdicts["undecided"] == len(told) else "·"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(train(KINDS, SEEDS, Path(folder)))
        told = judge_all(Path(folder))
    for run, rules in told.items():
        for rule, each in rules.items():
            for finding in each.findings[:1]:
                print(f"{run}: {rule}: {finding}")
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text(_HEAD.format(seeds="two") + table(told))
    print(TABLE.read_text())


if __name__ == "__main__":
    main()
