"""False alarms of rules on healthy trainings, in docs/reference/rules/false-alarms.md.

``python tests/process/false_alarms.py`` writes the table of all rules, without a budget. With ``default FOLDER`` it
writes the tables of the default rules with the default captures and budget; the runs are kept in the folder, and those
that are complete are not repeated.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from judged_runs import Told, judge
from launching import PATIENCE, SCRIPTS, environment

from leadline.config.run_config import DEFAULT_BUDGET
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
TABLE = Path(__file__).parents[2] / "docs" / "reference" / "rules" / "false-alarms.md"

_HEAD = """# False alarms

Ten kinds of healthy trainings with {seeds} seeds each were captured with preset `full` and everything that the
rules need, without a budget, and evaluated by every rule with default parameters. The trainings are in
`tests/process/scripts/healthy_trainings.py`; the loss (or cost) of each falls to at most two thirds of its first
value, of most much further. They ran on a busy machine, which `throughput_regression` and `step_outlier` detect.
Rules that need system metrics are undecided here: `gpu_throttling` was silent on the healthy trainings of
`tests/process/test_bottlenecks.py` (a perceptron, a convolutional net, two ranks), because there was no GPU. A cell
counts the runs in which the rule fired: `·` none, `–` not applicable in all of them, `?` undecided in all of them (the
data it needs does not exist), a number with `!` runs in which the rule failed. `python tests/process/false_alarms.py`
regenerates this table.

**D**: enabled by default. *D*: intended as a default rule, silent here.

"""


_DEFAULT_HEAD = """
## The default rules with the default budget

The same trainings, and short ones of four kinds (`tests/process/scripts/short_trainings.py`), were captured with preset
`standard`, the default rules and the overhead budget of {budget}. *Decided* counts the verdicts clear and fired of the
rules that apply; `gpu_throttling` is left out, since no agent sampled the machine. The short trainings pause between
their steps without a data loader, which `input_bound` cannot tell from other work of the host. `python
tests/process/false_alarms.py default FOLDER` regenerates these tables.

"""
_DEFAULT_TITLE = "\n## The default rules with the default budget\n"
LENGTHS, PAUSES = (100, 300, 1000), (1, 30)
"""Steps, and milliseconds of a step."""
_UNSAMPLED = {"gpu_throttling"}


def train(kinds: Iterable[str], seeds: Iterable[int], folder: Path, *options: str) -> str:
    """Run the trainings in one process; return its output."""
    return _run("healthy_trainings.py", ",".join(kinds), _list(seeds), str(folder), *options, folder=folder)


def train_briefly(lengths: Iterable[int], pauses: Iterable[int], seeds: Iterable[int], folder: Path) -> str:
    """Run the short trainings in one process; return its output."""
    return _run("short_trainings.py", _list(lengths), _list(pauses), _list(seeds), str(folder), folder=folder)


def _list(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def _run(script: str, *arguments: str, folder: Path) -> str:
    ended = subprocess.run(
        [sys.executable, str(SCRIPTS / script), *arguments],
        capture_output=True,
        text=True,
        timeout=8 * PATIENCE,
        env=environment(),
        cwd=folder,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout


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
    if not told:
        return ""
    if verdicts["not_applicable"] == len(told):
        return "–"
    return "?" if verdicts["undecided"] == len(told) else "·"


def decided_table(told: Mapping[str, Mapping[str, Told]]) -> str:
    """Return the table of decided verdicts and findings by length of the training; a row for all of them at its end."""
    groups: dict[str, list[Mapping[str, Told]]] = {}
    for run, rules in told.items():
        length = re.fullmatch(r"\w+-(\d+)x(\d+)-\d+", run)
        name = f"{length[1]} steps of {length[2]} ms" if length else "ten kinds"
        groups.setdefault(name, []).append(rules)
    lines = [
        "| trainings | runs | verdicts of rules that apply | decided | fired | undecided |",
        "|---|---|---|---|---|---|",
    ]
    names = sorted(groups, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])
    for name in [*names, "all"]:
        runs = groups.get(name, list(told.values()))
        results = [
            (rule, result)
            for rules in runs
            for rule, result in rules.items()
            if result.verdict != "not_applicable" and rule not in _UNSAMPLED
        ]
        undecided = Counter(rule for rule, result in results if result.verdict not in ("clear", "fired"))
        fired = sum(result.verdict == "fired" for _, result in results)
        share = 1 - undecided.total() / len(results)
        named = ", ".join(f"{rule} {count}" for rule, count in undecided.most_common())
        lines.append(f"| {name} | {len(runs)} | {len(results)} | {share:.1%} | {fired} | {named} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parts = TABLE.read_text().partition(_DEFAULT_TITLE) if TABLE.exists() else ("", "", "")
    if sys.argv[1:2] == ["default"]:
        folder = Path(sys.argv[2]).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        print(train(KINDS, SEEDS, folder, "default"), train_briefly(LENGTHS, PAUSES, SEEDS, folder))
        told = judge_all(folder)
        print_findings(told)
        ten = {run: rules for run, rules in told.items() if "x" not in run.split("-")[1]}
        head = _DEFAULT_HEAD.format(budget=DEFAULT_BUDGET.replace("%", " %"))
        TABLE.write_text(parts[0] + head + decided_table(told) + "\n" + table(ten))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            print(train(KINDS, SEEDS, Path(temporary)))
            told = judge_all(Path(temporary))
        print_findings(told)
        TABLE.write_text(_HEAD.format(seeds="two") + table(told) + "".join(parts[1:]))
    print(TABLE.read_text())


def print_findings(told: Mapping[str, Mapping[str, Told]]) -> None:
    for run, rules in told.items():
        for rule, result in rules.items():
            for finding in result.findings[:1]:
                print(f"{run}: {rule}: {finding}")
            if result.verdict == "undecided":
                print(f"{run}: {rule} undecided: {result.why}")


if __name__ == "__main__":
    main()
