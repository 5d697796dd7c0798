"""False alarms of all rules on healthy trainings; ``python tests/process/false_alarms.py`` writes their table."""

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

Ten kinds of healthy trainings with {seeds} seeds each were captured with preset `full` and everything that the
rules need, without a budget, and evaluated by every rule with default parameters. The trainings are in
`tests/process/scripts/healthy_trainings.py`; the loss (or cost) of each falls to at most two thirds of its first
value, of most much further. They ran on a busy machine, which `throughput_regression` and `step_outlier` detect.
Rules that need system metrics or several ranks are undecided here: `straggler`, `memory_growth` and
`gpu_throttling` were silent on the healthy trainings of `tests/process/test_bottlenecks.py` (a perceptron, a
convolutional net, two ranks), `gpu_throttling` because there was no GPU. A cell counts the runs in which the rule
fired: `·` none, `?` undecided in all of them (the data it needs does not exist), a number with `!` runs in which
the rule failed. `python tests/process/false_alarms.py` regenerates this table.

**D**: enabled by default. *D*: intended as a default rule, silent here.

"""


@dataclass(frozen=True)
class Told:
    """The result of a rule on a run."""

    verdict: str
    findings: tuple[str, ...]
    """The messages of all findings."""
    why: str


def train(kinds: Iterable[str], seeds: Iterable[int], folder: Path) -> str:
    """Run the trainings in one process; return its output."""
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
    """Judge a finished run by the rules of its manifest; return the results by rule."""
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
    """Judge all runs; return the results by run and rule."""
    return {run.name: judge(run) for run in sorted(folder.iterdir()) if (run / "manifest.json").exists()}


def table(told: Mapping[str, Mapping[str, Told]]) -> str:
    """Return the table of false alarms by rule and kind of training."""
    kinds = [kind for kind in KINDS if any(run.rpartition("-")[0] == kind for run in told)]
    lines = ["| rule | " + " | ".join(kind.replace("_", " ") for kind in kinds) + " |", "|---|" + "---|" * len(kinds)]
    for rule in sorted(BUILT_IN):
        cells = [
            _cell([rules[rule] for run, rules in told.items() if run.rpartition("-")[0] == kind and rule in rules])
            for kind in kinds
        ]
        if any(cells):
            mark = " **D**" if rule in DEFAULT else ""
            lines.append(f"| {rule}{mark} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(told: list[Told]) -> str:
    verdicts = Counter(result.verdict for result in told)
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
        for rule, result in rules.items():
            for finding in result.findings[:1]:
                print(f"{run}: {rule}: {finding}")
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text(_HEAD.format(seeds="two") + table(told))
    print(TABLE.read_text())


if __name__ == "__main__":
    main()
