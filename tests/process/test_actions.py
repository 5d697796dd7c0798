"""Actions of real trainings: a mail and then a stop, all actions at once, at the last step, and with failures."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from endpoints import HttpEndpoint, Reply, http_endpoint, mail_endpoint
from launching import Ended, bare, rule, script, started, wait_for, watched

from leadline.records.request import Stop
from leadline.store.control import read_requests
from leadline.store.documents import read_lines

pytestmark = pytest.mark.slow
SECOND_NS = 1_000_000_000
ONLY = ("--no-default-rules", "--rule", "exploding_tensor")


def mail_url(port: int) -> str:
    return f"mailto://127.0.0.1:{port}?from=train@example.org&to=me@example.org"


def following(*actions: str) -> list[str]:
    """Return options that make actions follow ``exploding_tensor``."""
    return [*ONLY, *(word for action in actions for word in ("--on", f"exploding_tensor={action}"))]


def outcomes(ended: Ended) -> dict[str, dict[str, Any]]:
    """Return the last log line of every action by name, which `leadline show` must contain as well."""
    lines = read_lines(str(Path(ended.run.path) / "actions.jsonl"))
    final = {line["action"].partition(":")[0]: line for line in lines}
    shown = {action["action"].partition(":")[0]: action for action in ended.show()["actions"]}
    assert {name: (line["state"], line["outcome"]) for name, line in shown.items()} == {
        name: (line["state"], line["outcome"]) for name, line in final.items()
    }
    return final


def stops(run: Path) -> list[Stop]:
    return [request for request in read_requests(str(run)) if isinstance(request, Stop)]


# --- two thresholds of one rule -------------------------------------------------------------------------------


def test_a_stall_is_mailed_and_later_stopped(tmp_path: Path) -> None:
    """The mail arrives before the stop request; the training then ends by a signal, because it hangs."""
    mark = tmp_path / "stalled"
    with mail_endpoint() as server:
        options = [
            "--no-default-rules",
            "--rule",
            "stall_mail=stalled_training:threshold=10",
            "--on",
            "stall_mail=notify:$MAIL",
            "--rule",
            "stall_stop=stalled_training:threshold=20",
            "--on",
            "stall_stop=stop_training:grace=1",
        ]
        with started(
            options, script("stalling.py"), "40", str(mark), folder=tmp_path, MAIL=mail_url(server.port)
        ) as running:
            wait_for(lambda: server.mails or running.process.poll() is not None, "the mail")
            mailed_ns = time.time_ns()
            assert running.process.poll() is None
            (run,) = (tmp_path / "runs").iterdir()
            assert stops(run) == []
            ended = running.wait()
    assert ended.status == 10, ended.err
    stalled_ns = int(mark.read_text())
    (stop,) = stops(run)
    assert mailed_ns - stalled_ns > 9 * SECOND_NS
    assert stop.time_ns - stalled_ns > 19 * SECOND_NS
    (mail,) = server.mails
    assert mail["Subject"].startswith("stall_mail fired at step 39 in stalling-")
    assert "nothing new since step 39, for more than 10 s" in mail.get_content()
    said = ended.show()
    assert (said["status"], said["stopped_by"]) == ("Stopped", "rule:stall_stop")
    for alias, threshold in (("stall_mail", 10.0), ("stall_stop", 20.0)):
        (finding,) = rule(said, alias)["findings"]
        assert threshold < finding["evidence"]["silent_seconds"] <= threshold + 1.5
    assert outcomes(ended)["notify"]["state"] == "done"


# --- everything at once ---------------------------------------------------------------------------------------


def test_everything_at_once(tmp_path: Path) -> None:
    """One finding is mailed, posted and published, starts a command, and stops the training."""
    with mail_endpoint() as mails, http_endpoint() as hook, http_endpoint() as receiver:
        ended = watched(
            following(
                "notify:$MAIL",
                "webhook:$HOOK",
                f"publish_metric:otlp,endpoint={receiver.url}/v1/metrics",
                "run_command:cat > notice.json",
                "tracker",
                "stop_training",
            ),
            script("exploding.py"),
            "loss",
            "37",
            folder=tmp_path,
            MAIL=mail_url(mails.port),
            HOOK=f"{hook.url}/hook",
        )
    assert (ended.status, ended.out) == (10, "")
    found = outcomes(ended)
    states = {name: line["state"] for name, line in found.items()}
    assert states.pop("tracker") in (
        "failed",
        "skipped",
    )  # the script has no tracker, or it was stopped before the request
    assert states == dict.fromkeys(("notify", "webhook", "publish_metric", "run_command", "stop_training"), "done")
    (posted,) = hook.received
    heard = json.loads((tmp_path / "notice.json").read_text())
    assert heard | {"tensors": ...} == posted.json | {"tensors": ...}
    assert [tensor["name"] for tensor in heard["tensors"]] == [tensor["name"] for tensor in posted.json["tensors"]]
    assert any(tensor["statistics"] for tensor in heard["tensors"]), "a snapshot, and no mere names"
    assert (posted.json["rule"], posted.json["step"], posted.json["kind"]) == ("exploding_tensor", 37, "finding")
    (mail,) = mails.mails
    assert mail["Subject"].startswith("exploding_tensor fired at step 37 in exploding-")
    assert receiver.received
    assert {request.path for request in receiver.received} == {"/v1/metrics"}
    told = "\n".join(ended.said)
    assert "step 37  exploding_tensor: loss is NaN" in told
    assert "stopping at the next step" in told
    assert "by exploding_tensor: loss is NaN" in told
    assert "leadline  Stopped at step " in told
    assert ended.show()["stopped_by"] == "rule:exploding_tensor"
    for secret in (str(mails.port), f"{hook.url}/hook"):
        assert secret not in json.dumps(list(found.values()))


# --- at the end -----------------------------------------------------------------------------------------------


def test_a_stop_that_the_job_took_before_the_agent_read_it_is_a_stop(tmp_path: Path) -> None:
    """An agent that is kept waiting, as on a busy machine, finds request and end of the job at once."""
    with started(following("stop_training"), script("exploding.py"), "loss", "60", folder=tmp_path) as running:
        wait_for(lambda: running.flushed_steps() > 10, "the first steps")
        job = Path("/proc", str(running.job()), "stat")
        os.kill(running.agent, signal.SIGSTOP)
        wait_for(lambda: job.read_text().rpartition(")")[2].split()[0] == "Z", "the end of the job")
        os.kill(running.agent, signal.SIGCONT)
        ended = running.wait()
    said = ended.show()
    assert (ended.status, said["status"], said["stopped_by"]) == (10, "Stopped", "rule:exploding_tensor"), ended.err
    assert outcomes(ended)["stop_training"]["state"] == "done"


def test_a_finding_at_the_last_step_is_delivered_though_the_training_is_over(tmp_path: Path) -> None:
    with mail_endpoint() as mails, http_endpoint() as hook:
        ended = watched(
            following("notify:$MAIL", "webhook:$HOOK", "stop_training"),
            script("breaking.py"),
            "60",
            "59",
            "0",
            folder=tmp_path,
            MAIL=mail_url(mails.port),
            HOOK=f"{hook.url}/hook",
        )
    assert ended.status == 0, ended.err
    assert [request.json["step"] for request in hook.received] == [59]
    assert len(mails.mails) == 1
    found = outcomes(ended)
    assert (found["notify"]["state"], found["webhook"]["state"]) == ("done", "done")
    assert found["stop_training"]["state"] in ("skipped", "done")
    assert ended.show()["status"] == "Completed"
    assert "exploding_tensor  step 59" in ended.err


def test_failed_actions_are_reported_and_do_not_affect_the_training(tmp_path: Path) -> None:
    """Every action fails differently; results, output and exit status of the script are as without Leadline."""
    alone = bare("breaking.py", "200", "20", "3", folder=tmp_path)
    assert alone.status == 3
    (tmp_path / "mine.py").write_text(CRASHING)
    with mail_endpoint(refuses="me@example.org") as mails, http_endpoint(Reply(500)) as hook:
        ended = watched(
            following(
                "notify:$MAIL,retries=1,backoff=0.1",
                "webhook:$HOOK,retries=2,backoff=0.1",
                "run_command:exit 7",
                "mine.py:Crash:retries=0",
                "tracker",
            ),
            script("breaking.py"),
            "200",
            "20",
            "3",
            folder=tmp_path,
            MAIL=mail_url(mails.port),
            HOOK=f"{hook.url}/hook",
        )
    assert (ended.status, ended.out) == (alone.status, alone.out), ended.err
    found = outcomes(ended)
    assert mails.mails == []
    check_tries(hook, found["webhook"])
    why = {"notify": "550", "webhook": "500", "mine.py": "killed by SIGKILL"}
    told = "\n".join(ended.said)
    for name, reason in why.items():
        assert found[name]["state"] == "failed", found[name]
        assert reason in found[name]["outcome"]
        assert reason in told
    said = ended.show()
    assert (said["status"], said["exit_status"]) == ("Failed", 3)
    (finding,) = rule(said, "exploding_tensor")["findings"]
    assert finding["step"] == 20


CRASHING = """
import os, signal

from leadline.actions.action import Action


class Crash(Action, frozen=True, kw_only=True):
    def run(self, context):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def check_tries(hook: HttpEndpoint, line: dict[str, Any]) -> None:
    assert line["attempts"] == 3
    assert [request.json["id"] for request in hook.received] == ["exploding_tensor/opened/20"] * 3
