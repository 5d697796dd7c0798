"""The agent and its judge: findings announced, restarts after a crash, and runs without a judge."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

import pytest
from agent_process import is_gone, launch, make_run, status, trusting

JUDGE = """
import json, os, sys, time

run = sys.argv[1]

def write(**changes):
    summary = {"complete": False, "judged_step": 5, "updated_ns": time.time_ns(), "announcements": [], "rules": []}
    path = f"{run}/rules/summary.json"
    with open(path + ".part", "w") as file:
        json.dump(summary | changes, file)
    os.replace(path + ".part", path)

def await_end():
    while True:
        with open(f"{run}/status.json") as file:
            document = json.load(file)
        if document["ended_ns"]:
            return document
        time.sleep(0.02)
"""
FINDING = {
    "name": "exploding_tensor",
    "rule": "exploding_tensor",
    "status": "IssuesFound",
    "verdict": "fired",
    "why": "",
    "findings": 1,
    "step": 1312,
    "message": "loss NaN after the learning rate reached 3e-3",
    "suggestion": "clip gradients, or a peak learning rate of 1e-3",
}
CLEAR = FINDING | {"name": "vanishing_gradient", "status": "NoIssuesFound", "verdict": "clear", "findings": 0}
UNDECIDED = CLEAR | {"name": "low_gpu_utilization", "verdict": "undecided", "why": "no GPU on this node"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", rules=True)


def judge(tmp_path: Path, run: Path, body: str) -> list[str]:
    script = tmp_path / "judge.py"
    script.write_text(JUDGE + textwrap.dedent(body))
    return [sys.executable, str(script), str(run)]


def test_findings_are_announced_and_the_summary_waits_for_the_judge(run: Path, tmp_path: Path) -> None:
    body = f"""
        announcements = [
            {{"id": 1, "step": 1312, "rule": "exploding_tensor", "message": "loss is NaN", "action": None}},
            {{"id": 2, "step": 1313, "rule": "a", "message": "b", "action": "stopping at step 1314"}},
        ]
        write(announcements=announcements)
        await_end()
        time.sleep(0.3)
        write(announcements=announcements, complete=True, rules={[FINDING, CLEAR, UNDECIDED]!r})
    """
    done = launch(run, "sleep", "1", judge=judge(tmp_path, run, body))
    lines = done.stderr.splitlines()
    assert lines[0].endswith("preset standard, 1 rule")
    assert "leadline  step 1,312  exploding_tensor: loss is NaN" in lines
    assert "leadline  step 1,313  a: b → stopping at step 1314" in lines
    assert (
        "Completed: no step was seen; 1 problem found by exploding_tensor: loss NaN after the learning rate reached "
        "3e-3 (step 1,312). Try: clip gradients, or a peak learning rate of 1e-3."
    ) in " ".join(done.stderr.split())
    tally = lines.index("leadline  1 rule fired, 1 clear, 1 undecided")
    assert lines[tally + 1 :] == [
        "  exploding_tensor  step 1,312   loss NaN after the learning rate reached 3e-3",
        "                                 try: clip gradients, or a peak learning rate of 1e-3",
        "  report: leadline report          dashboard: leadline ui",
    ]
    assert done.returncode == 0


def test_a_judge_that_crashes_is_restarted_and_reported_once(run: Path, tmp_path: Path) -> None:
    body = f"""
        starts = f"{{run}}/../starts"
        open(starts, "a").write("x")
        if len(open(starts).read()) < 3:
            os.kill(os.getpid(), 9)
        await_end()
        write(complete=True, rules={[CLEAR]!r})
    """
    done = launch(run, "sleep", "0.2", judge=judge(tmp_path, run, body))
    assert (tmp_path / "starts").read_text() == "xxx"
    assert done.stderr.count("the judge exited unexpectedly (signal 9); restarting it") == 1
    assert "Completed: no step was seen, no problem found in values (1 rule clear)." in done.stderr
    assert done.returncode == 0


def test_a_judge_that_always_crashes_is_given_up(run: Path, tmp_path: Path) -> None:
    body = """
        open(f"{run}/../starts", "a").write("x")
        sys.exit(7)
    """
    done = launch(run, "sh", "-c", "sleep 0.3; exit 3", judge=judge(tmp_path, run, body))
    assert (tmp_path / "starts").read_text() == "xxxx"
    assert "the judge failed again (status 7) and is not restarted" in done.stderr
    assert "the rules were not evaluated" in done.stderr
    assert done.returncode == 3


STALLING = """
    import signal, subprocess
    rule = {"name": "r", "rule": "r", "status": "InProgress", "verdict": "clear"}
    os.makedirs(f"{run}/rules/r", exist_ok=True)
    with open(f"{run}/rules/r/status.json", "w") as file:
        json.dump(rule | {"judged_step": 5}, file)
    write(rules=[rule])
    await_end()
"""


@pytest.mark.slow
def test_a_judge_that_gets_no_processor_is_waited_for(run: Path, tmp_path: Path) -> None:
    body = f"""
        {textwrap.indent(textwrap.dedent(STALLING), " " * 8).strip()}
        subprocess.Popen(["sh", "-c", f"sleep 13; kill -CONT {{os.getpid()}}"])
        os.kill(os.getpid(), signal.SIGSTOP)
        write(complete=True, rules={[CLEAR]!r})
    """
    done = launch(run, "true", judge=judge(tmp_path, run, body))
    assert "stuck" not in done.stderr
    assert "no problem found in values (1 rule clear)" in done.stderr


@pytest.mark.slow
def test_a_judge_that_sleeps_for_ever_is_ended_and_leaves_what_it_has_judged(run: Path, tmp_path: Path) -> None:
    done = launch(run, "true", judge=judge(tmp_path, run, STALLING + "    time.sleep(1000)\n"))
    assert "rule evaluation is stuck; terminating it" in done.stderr
    assert "1 rule clear, evaluation incomplete" in done.stderr
    document = json.loads((run / "rules" / "r" / "status.json").read_text())
    assert (document["status"], document["verdict"]) == ("Stopped", "clear")
    assert document["why"].startswith("clear up to step 5; ")


def test_a_judge_that_cannot_be_started(run: Path) -> None:
    done = launch(run, "true", judge=["/no/such/judge"])
    assert done.stderr.count("cannot start the judge: No such file or directory") == 1
    assert done.returncode == 0


def test_the_judge_outlives_ctrl_c(run: Path, tmp_path: Path) -> None:
    """The judge has its own session, so signals of the terminal do not reach it."""
    body = """
        with open(f"{run}/../session", "w") as file:
            print(os.getsid(0) == os.getpid(), sys.stdin.read() == "", os.environ["LEADLINE_DISABLED"], file=file)
        await_end()
        write(complete=True)
    """
    launch(run, "sleep", "0.2", judge=judge(tmp_path, run, body))
    assert (tmp_path / "session").read_text() == "True True 1\n"


def test_the_judge_is_not_part_of_the_job(run: Path, tmp_path: Path) -> None:
    """A stop ends the processes of the job; the judge continues and evaluates the end of the run."""
    body = """
        import subprocess
        helper = subprocess.Popen(["sleep", "30"])
        request = {"id": "1", "kind": "stop", "step": 2, "by": "rule:r", "grace_seconds": 0.1}
        path = f"{run}/control/1.json"
        with open(path + ".part", "w") as file:
            json.dump(request, file)
        os.replace(path + ".part", path)
        document = await_end()
        open(f"{run}/../seen", "w").write(f"{document['status']}, helper: {helper.poll()}")
        write(complete=True)
        helper.kill()
    """
    done = launch(run, "sleep", "30", judge=judge(tmp_path, run, body))
    assert done.returncode == 10
    assert (tmp_path / "seen").read_text() == "Stopped, helper: None"
    assert status(run)["exit_status"] == 10
    assert status(run)["stopped_by"] == "rule:r"
    assert "SIGTERM to 1 process\n" in done.stderr


def test_a_stop_request_of_a_rule_after_the_end_does_not_affect_the_script(run: Path, tmp_path: Path) -> None:
    """The script may be saving its model; ``leadline stop`` still ends it."""
    body = """
        with open(f"{run}/workers/rank0-1.json", "w") as file:
            json.dump({"worker": "rank0-1", "state": "ended", "steps": {"train": 3}}, file)
        request = {"id": "1", "kind": "stop", "step": 2, "by": "rule:r", "grace_seconds": 0.1}
        path = f"{run}/control/1.json"
        with open(path + ".part", "w") as file:
            json.dump(request, file)
        os.replace(path + ".part", path)
        await_end()
        write(complete=True)
    """
    # it goes on for longer than the grace period after the answer
    job = f'until [ "$(ls {run}/control/acks)" ]; do sleep 0.05; done; sleep 1; echo kept > {tmp_path}/kept'
    done = launch(run, "sh", "-c", job, judge=judge(tmp_path, run, body))
    assert (done.returncode, status(run)["status"], status(run)["stopped_by"]) == (0, "Completed", None)
    assert (tmp_path / "kept").read_text() == "kept\n"
    (answer,) = (run / "control" / "acks").iterdir()
    assert json.loads(answer.read_text())["outcome"] == "refused: the training had ended"


def test_a_judge_that_does_not_exit_is_killed(run: Path, tmp_path: Path) -> None:
    body = """
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open(f"{run}/../pid", "w").write(str(os.getpid()))
        await_end()
        write(complete=True)
        time.sleep(60)
    """
    done = launch(run, "sleep", "0.5", judge=judge(tmp_path, run, body))
    assert done.returncode == 0
    assert is_gone(int((tmp_path / "pid").read_text()))
    assert "the judge" not in done.stderr


FAILURE = {
    "id": 1,
    "step": None,
    "rule": "stall_mail",
    "message": "notify:$MAIL failed after 5 attempts: connection refused",
    "action": None,
    "kind": "failure",
}


@pytest.mark.slow
def test_pending_deliveries_are_awaited_and_announced(run: Path, tmp_path: Path) -> None:
    """The wait may exceed the limit for a stuck judge; failures are shown at once and in the summary."""
    line = {
        "rule": "stall_mail",
        "action": "notify:$MAIL",
        "outcome": "failed after 5 attempts: connection refused",
        "state": "failed",
        "notice": "stall_mail/opened/7",
        "request": None,
    }
    body = f"""
        await_end()
        for _ in range(14):
            write(complete=True, delivering=["notify:$MAIL"], rules={[CLEAR]!r})
            time.sleep(1.0)
        with open(f"{{run}}/actions.jsonl", "a") as file:
            file.write({json.dumps(line)!r} + "\\n")
        write(complete=True, delivering=[], rules={[CLEAR]!r}, announcements=[{FAILURE!r}])
    """
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(manifest | {"actions": [{"rule": "*", "action": "notify"}]}))
    done = launch(run, "true", judge=judge(tmp_path, run, body), env=trusting(run))
    lines = done.stderr.splitlines()
    assert lines.count("leadline  waiting for notify:$MAIL (max 30 s); Ctrl-C skips") == 1
    failure = "leadline  stall_mail: notify:$MAIL failed after 5 attempts: connection refused"
    assert lines.count(failure) == 2
    verdict = lines.index("leadline  Completed: no step was seen, no problem found in values (1 rule clear).")
    assert lines.index(failure) < verdict < lines.index(failure, lines.index(failure) + 1)
    assert "is stuck" not in done.stderr


def test_a_run_with_actions_and_no_rules_has_a_judge(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(manifest | {"actions": [{"rule": "job", "action": "notify"}]}))
    body = """
        open(f"{run}/../started", "w").close()
        await_end()
        write(complete=True)
    """
    launch(run, "true", judge=judge(tmp_path, run, body), env=trusting(run))
    assert (tmp_path / "started").exists()
