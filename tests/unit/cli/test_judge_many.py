"""``leadline judge`` on many runs: selection of runs, output and exit status."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from leadline.cli import main
from leadline.judge.stored_results import lock_rules
from leadline.records.manifest import RuleSpec
from leadline.testing.runs import Capture, RunWriter

NAN = float("nan")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs that have ended, of which the second has a loss that is NaN at step 3, and the tenth at step 5."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEADLINE_ROOT", raising=False)
    monkeypatch.setenv("COLUMNS", "140")
    for name, bad in (("lr-1", -1), ("lr-2", 3), ("lr-10", 5)):
        parts = [Capture(step, {"loss": {"value": NAN if step == bad else 1.0}}) for step in range(8)]
        RunWriter(tmp_path / "leadline-runs" / name).write_all(parts).end()
    return tmp_path / "leadline-runs"


RULES = ("--rule", "bad=exploding_tensor", "--rule", "vanishing_gradient")


def judge(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Status, standard output and standard error."""
    sys.argv[1:] = ["judge", *arguments]
    with pytest.raises(SystemExit) as ended:
        main()
    captured = capfd.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def names(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    status, out, err = judge(capfd, *arguments, *RULES, "--json")
    assert (status, err) == (0, "")
    return [run["name"] for run in json.loads(out)]


def test_runs_are_named_by_name_path_pattern_or_folder(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    everything = ["lr-1", "lr-2", "lr-10"]
    assert names(capfd, "leadline-runs") == everything
    assert names(capfd, str(root)) == everything
    assert names(capfd, "lr-*") == everything
    assert names(capfd, "leadline-runs/lr-1*") == ["lr-1", "lr-10"]
    assert names(capfd, "lr-2", str(root / "lr-1"), "lr-*") == ["lr-2", "lr-1", "lr-10"]
    assert names(capfd, "leadline-*") == everything


def test_runs_are_sorted_by_the_numbers_in_their_names(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("lr-0.1", "lr-0.03", "lr-0.003"):
        RunWriter(root / name).write_all([Capture(0, {"loss": {"value": 1.0}})]).end()
    assert names(capfd, "leadline-runs") == ["lr-0.003", "lr-0.03", "lr-0.1", "lr-1", "lr-2", "lr-10"]


def test_a_single_run_is_shown_with_the_names_of_all_tensors_and_the_advice(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    parts = [Capture(0, {f"gradient/{index}.weight": {"nonfinite_count": 1.0} for index in range(12)})]
    RunWriter(root / "many").write_all(parts).end()
    _, out, _ = judge(capfd, "many", "--rule", "exploding_tensor")
    text = " ".join(out.split())
    assert "and 11 more tensors all 12: gradient/0.weight, gradient/1.weight, " in text
    assert "gradient/9.weight and 2 more try: " in text


def test_a_finding_that_follows_from_another_has_the_advice_of_its_cause(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (root.parent / "mine.py").write_text(
        "from leadline.rules import Clear, Fired, Needs, Rule\n\n\nclass Origin(Rule):\n"
        "    explains = ('exploding_tensor',)\n\n"
        "    def needs(self):\n        return Needs.of('losses', 'value')\n\n"
        "    def evaluate(self, window):\n"
        "        return Fired('it began here') if window.step == 3 else Clear()\n"
    )
    rules = ("--rule", "origin=mine.py:Origin", "--rule", "exploding_tensor")
    _, out, _ = judge(capfd, "lr-2", *rules)
    assert out.count("try: ") == 1
    assert "try: the advice of origin first; this usually follows from it" in " ".join(out.split())
    _, out, _ = judge(capfd, "lr-2", *rules, "--json")
    (run,) = json.loads(out)
    assert {rule["name"]: rule["explained_by"] for rule in run["rules"]} == {
        "origin": None,
        "exploding_tensor": "origin",
    }


def test_table_of_findings_by_run_and_rule(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, out, err = judge(capfd, "lr-*", *RULES)
    assert (status, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert out.endswith("\n3 runs, 2 rules: findings in 2 runs\n")
    assert ["bad", "2", "of", "3", "1", "0", "0", "3", "…", "5"] in rows
    assert ["vanishing_gradient", "0", "of", "3", "0", "3", "0", "–"] in rows
    assert ["vanishing_gradient", "3", "runs", "no", "gradients", "were", "captured"] in rows
    assert rows[1:3] == [["lr-2", "bad", "at", "3"], ["lr-10", "bad", "at", "5"]]


def test_a_failed_rule_is_shown_with_its_error(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (root.parent / "mine.py").write_text(
        "from leadline.rules import Needs, Rule\n\n\nclass Mine(Rule):\n"
        "    def needs(self):\n        return Needs.of('losses', 'value')\n\n"
        "    def evaluate(self, window):\n        return 1 / 0\n"
    )
    status, out, _ = judge(capfd, "lr-*", "--rule", "mine.py:Mine", "--rule", "exploding_tensor")
    rows = [line.split() for line in out.splitlines()]
    assert status == 0
    assert ["mine", "0", "of", "3", "0", "0", "3", "–"] in rows
    assert ["mine", "3", "runs", "ZeroDivisionError:", "division", "by", "zero", "(mine.py:9)"] in rows
    assert ["exploding_tensor", "2", "of", "3", "1", "0", "0", "3", "…", "5"] in rows


def test_the_verdicts_are_in_the_words_of_leadline_show(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (root.parent / "mine.py").write_text(
        "from leadline.rules import Needs, Rule\n\n\nclass Mine(Rule):\n"
        "    def needs(self):\n        return Needs.of('losses', 'value')\n\n"
        "    def evaluate(self, window):\n        return 1 / 0\n"
    )
    rules = (*RULES, "--rule", "broken=mine.py:Mine")
    _, out, _ = judge(capfd, "lr-2", *rules)
    shown = " ".join(out.split())
    for words in ("bad fired step 3: ", "vanishing_gradient undecided ", "broken error "):
        assert words in shown
    assert "bad clear" in " ".join(judge(capfd, "lr-1", *RULES)[1].split())


def test_json_output(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _, out, _ = judge(capfd, "lr-2", *RULES, "--json")
    (run,) = json.loads(out)
    assert (run["uri"], run["problem"], run["is_running"], run["damage"]) == (str(root / "lr-2"), None, False, [])
    bad, vanishing = run["rules"]
    assert (bad["name"], bad["rule"], bad["status"], bad["verdict"], bad["judged_steps"]) == (
        "bad",
        "exploding_tensor",
        "IssuesFound",
        "fired",
        8,
    )
    assert [(finding["step"], finding["message"]) for finding in bad["findings"]] == [(3, "loss is NaN")]
    assert (vanishing["verdict"], vanishing["why"]) == ("undecided", "no gradients were captured")


@pytest.mark.parametrize(
    ("places", "options", "status"),
    [
        (("lr-1",), ("--fail-on-issues",), 0),
        (("lr-1", "lr-2"), ("--fail-on-issues",), 1),
        (("lr-1", "lr-2"), (), 0),
        (("lr-1", "torn"), (), 0),
        (("lr-1", "torn"), ("--fail-on-issues",), 1),
        (("torn",), (), 2),
        (("torn", "leadline-runs/notes.txt"), (), 2),
    ],
)
def test_status(
    root: Path, capfd: pytest.CaptureFixture[str], places: tuple[str, ...], options: tuple[str, ...], status: int
) -> None:
    (root / "torn").mkdir()
    (root / "torn" / "manifest.json").write_text("{")
    (root / "notes.txt").write_text("not a run")
    assert judge(capfd, *places, *RULES, *options)[0] == status


def test_one_line_for_each_run_that_cannot_be_judged(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (root / "torn").mkdir()
    (root / "torn" / "manifest.json").write_text("{")
    (root / "notes.txt").write_text("not a run")
    places = sorted(map(str, root.iterdir()))
    status, out, err = judge(capfd, *places, *RULES)
    assert status == 0
    assert out.endswith("\n3 runs, 2 rules: findings in 2 runs\n")
    lines = err.splitlines()
    assert len(lines) == 2
    assert any("torn/manifest.json cannot be read as a manifest" in line for line in lines)
    assert any("notes.txt is not a run" in line for line in lines)
    problems = [run["problem"] for run in json.loads(judge(capfd, *places, *RULES, "--json")[1])]
    assert sum(problem is not None for problem in problems) == 2


def test_only_the_first_of_many_problems_are_shown(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for index in range(14):
        (root / f"torn-{index}").mkdir()
        (root / f"torn-{index}" / "manifest.json").write_text("{")
    _, _, err = judge(capfd, str(root), *RULES)
    assert len(err.splitlines()) == 11
    assert err.splitlines()[-1] == "leadline: 4 more runs could not be judged; --json lists all"


def test_a_running_run_is_judged_up_to_now(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    running = RunWriter(root / "lr-3").write_all([Capture(0, {"loss": {"value": NAN}}), Capture(1, {})])
    running.set_status("InProgress", node=os.uname().nodename)
    status, out, err = judge(capfd, "lr-1", "lr-3", *RULES)
    assert status == 0
    assert err == "leadline: lr-3 is still running: judged up to now; use --follow to continue\n"
    assert "lr-3  bad at 0" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lr-1", "lr-3"), "no run named 'lr-3' in ./leadline-runs; did you mean 'lr-"),
        (("xy-*",), "no run matches 'xy-*', here or in ./leadline-runs"),
        (("lr-1", "lr-2", "--follow"), "--follow needs a single run and --engine local"),
        (("lr-1", "--follow", "--engine", "ray"), "--follow needs a single run and --engine local"),
        (("lr-1", "--engine", "locl"), "no engine named 'locl'; did you mean 'local'?"),
        (("lr-1", "--ray-address", "auto"), "--ray-address needs --engine ray"),
        (("ftp://bucket/run",), "ftp://bucket/run: unknown scheme 'ftp'"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line(
    root: Path, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    status, out, err = judge(capfd, *arguments, *RULES)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_runs_with_the_same_name_are_shown_by_path(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    RunWriter(root.parent / "other" / "lr-2").write_all([Capture(0, {"loss": {"value": NAN}})]).end()
    _, out, _ = judge(capfd, "leadline-runs", "other", *RULES)
    assert "leadline-runs/lr-2  bad at 3" in out
    assert "other/lr-2          bad at 0" in out


def test_progress_lines_without_a_terminal(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.cli.judge._REPORT_SECONDS", 0.0)
    _, _, err = judge(capfd, "leadline-runs", *RULES)
    assert [line.partition(" runs")[0] for line in err.splitlines()] == [
        "leadline: judged 1 of 3",
        "leadline: judged 2 of 3",
    ]


def test_nothing_is_written_into_the_runs(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    judge(capfd, "leadline-runs", *RULES)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def shown(run: str, capfd: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The verdicts of the rules of a run, as ``leadline show`` has them."""
    sys.argv[1:] = ["show", run, "--json"]
    with suppress(SystemExit):
        main()
    return {rule["name"]: rule["verdict"] for rule in json.loads(capfd.readouterr().out)["rules"]}


def own(root: Path) -> str:
    """A run with rules of its own that no judge has evaluated."""
    rules = [RuleSpec("nan", "exploding_tensor"), RuleSpec("calm", "exploding_tensor", {"only_nan": True})]
    parts = [Capture(step, {"loss": {"value": float("inf") if step == 3 else 1.0}}) for step in range(8)]
    return RunWriter(root / "own", rules=rules).write_all(parts).end().path


def test_results_of_the_own_rules_of_a_run_are_shown_afterwards(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = own(root)
    _, _, err = judge(capfd, run)
    assert err == ""
    assert shown(run, capfd) == {"nan": "fired", "calm": "clear"}


def test_results_of_other_rules_are_not_written(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = own(root)
    before = sorted(path for path in Path(run).rglob("*"))
    judge(capfd, run, *RULES)
    judge(capfd, str(root / "lr-1"))
    assert sorted(path for path in Path(run).rglob("*")) == before
    assert not (root / "lr-1" / "rules" / "summary.json").exists()


def test_results_that_cannot_be_written_are_shown_and_reported(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = own(root)
    lock = lock_rules(run)
    assert lock is not None
    status, out, err = judge(capfd, run)
    os.close(lock)
    assert (status, "nan" in out) == (0, True)
    assert err == "leadline: own: the results are not written into the run: its own judge is still at work\n"
