"""Delivery of findings to real servers, which fail, return, hang or refuse, without affecting the training."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amazon import CREDENTIALS, amazon, make_queue, received, route_events
from endpoints import HANGS, HttpEndpoint, Reply, free_port, http_endpoint, mail_endpoint
from launching import PATIENCE, Ended, Running, environment, rule, script, started, wait_for, watched

from leadline.store.documents import read_lines

pytestmark = pytest.mark.slow
FOUND = "exploding_tensor/opened/20"
ONLY = ("--no-default-rules", "--rule", "exploding_tensor")


def final_lines(root: Path) -> list[dict[str, Any]]:
    """Return the last log line of every notification and action, in the order of the first ones."""
    last: dict[tuple[str, str], dict[str, Any]] = {}
    for path in root.glob("runs/*/actions.jsonl"):
        last.update({(line["notice"], line["action"]): line for line in read_lines(str(path))})
    return list(last.values())


def trained_until(
    done: Callable[[Running], object], *options: str, folder: Path, held: Path | None = None, **changes: str
) -> Ended:
    """Train until a condition holds, then let the training finish.

    Args:
        held: The training is fine until this file exists.
    """
    end = folder / "end"
    files = [str(path) for path in (end, held) if path is not None]
    with started([*ONLY, *options], script("until.py"), *files, folder=folder, **changes) as running:
        wait_for(lambda: done(running) or running.process.poll() is not None, "the delivery")
        end.touch()
        ended = running.wait()
    assert (ended.status, ended.out) == (0, "came to its end\n"), ended.err
    return ended


def ids(server: HttpEndpoint) -> list[str]:
    return [request.json["id"] for request in server.received]


def test_a_server_that_fails_twice_receives_every_notification_once_and_in_order(tmp_path: Path) -> None:
    clear, held = "exploding_tensor/status/InProgress/clear", tmp_path / "held"

    def has_come(_: Running) -> bool:
        if clear in ids(server):
            held.touch()
        return FOUND in ids(server)

    with http_endpoint(Reply(500), Reply(503), Reply(200)) as server:
        trained_until(has_come, "--on", f"*@*=webhook:{server.url}/hook,backoff=0.1", folder=tmp_path, held=held)
        first, *_ = got = ids(server)
    assert got[:3] == [first] * 3
    taken = got[2:]
    assert len(set(taken)) == len(taken)
    assert [notice for notice in taken if notice.startswith("job/")] == [
        "job/Starting",
        "job/InProgress",
        "job/Completed",
    ]
    assert taken.index(clear) < taken.index(FOUND) < taken.index("job/Completed")
    lines = final_lines(tmp_path)
    assert {line["notice"]: line["attempts"] for line in lines}[first] == 3
    assert {entry["state"] for entry in lines} == {"done"}


def test_an_endpoint_that_was_down_receives_the_missed_notifications_once_and_in_order(tmp_path: Path) -> None:
    port = free_port()
    servers: list[HttpEndpoint] = []

    def has_come_back(running: Running) -> bool:
        is_found = any(line["notice"] == FOUND for line in final_lines(tmp_path))
        if not servers and is_found and running.flushed_steps() > 100:
            servers.append(HttpEndpoint(port=port))
        return bool(servers) and FOUND in ids(servers[0])

    try:
        url = f"http://127.0.0.1:{port}/hook"
        trained_until(has_come_back, "--on", f"*@*=webhook:{url},probe=false,backoff=0.2,retries=60", folder=tmp_path)
        got = ids(servers[0])
    finally:
        for server in servers:
            server.close()
    assert len(set(got)) == len(got)
    assert got[0] == "job/Starting"
    assert got.index("job/InProgress") < got.index(FOUND) < got.index("job/Completed")
    lines = final_lines(tmp_path)
    assert lines[0]["attempts"] > 1
    assert {entry["state"] for entry in lines} == {"done"}


def test_an_endpoint_that_stays_down_is_given_up_as_configured_and_reported(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}/secret-path"

    def has_failed(_: Running) -> bool:
        return any(entry["state"] == "failed" for entry in final_lines(tmp_path))

    ended = trained_until(
        has_failed,
        "--on",
        "exploding_tensor=webhook:$HOOK,probe=false,retries=2,backoff=0.1",
        folder=tmp_path,
        HOOK=url,
    )
    (line,) = final_lines(tmp_path)
    assert (line["state"], line["attempts"], line["notice"]) == ("failed", 3, FOUND)
    assert "connection refused" in line["outcome"]
    place = url.split("/")[2]
    assert any(
        text.endswith(
            f"webhook:$HOOK,probe=false,retries=2,backoff=0.1 failed after 3 attempts: {place}: connection refused"
        )
        for text in ended.said
    )
    assert "secret-path" not in ended.err
    assert "Traceback" not in ended.err
    (action,) = ended.show()["actions"]
    assert "failed after 3 attempts" in action["outcome"]


def test_a_refusal_is_reported_with_its_reason_and_not_retried(tmp_path: Path) -> None:
    with http_endpoint(Reply(404, "no such hook")) as server:
        ended = trained_until(
            lambda _: server.received, "--on", f"exploding_tensor=webhook:{server.url}/x", folder=tmp_path
        )
        assert len(server.received) == 1
    (line,) = final_lines(tmp_path)
    assert (line["state"], line["attempts"]) == ("failed", 1)
    assert line["outcome"].endswith("answered 404 Not Found")
    assert any(text.endswith("answered 404 Not Found") for text in ended.said)


def test_an_endpoint_that_hangs_does_not_delay_evaluation_and_stop(tmp_path: Path) -> None:
    with http_endpoint(Reply(HANGS)) as server:
        ended = watched(
            [
                *ONLY,
                "--on",
                f"exploding_tensor=webhook:{server.url}/x,timeout=600,retries=0",
                "--on",
                "exploding_tensor=stop_training",
            ],
            script("exploding.py"),
            "loss",
            "37",
            folder=tmp_path,
        )
        assert len(server.received) == 1
    said = ended.show()
    assert (ended.status, said["stopped_by"]) == (10, "rule:exploding_tensor")
    lines = {line["action"].partition(":")[0]: line for line in final_lines(tmp_path)}
    assert lines["stop_training"]["state"] == "done"
    assert lines["webhook"]["state"] == "given up"
    assert "the run had ended" in lines["webhook"]["outcome"]
    assert any("webhook" in line and "given up" in line for line in ended.said)


def test_a_mail_with_login_contains_the_finding_and_its_statistics(tmp_path: Path) -> None:
    with mail_endpoint(password="s3cret/pw") as server:
        target = f"mailto://bob:s3cret%2Fpw@127.0.0.1:{server.port}?from=train@example.org&to=me@example.org"
        ended = trained_until(
            lambda _: server.mails, "--on", "exploding_tensor=notify:$MAIL", folder=tmp_path, MAIL=target
        )
    (mail,) = server.mails
    text = mail.get_content()
    assert mail["Subject"].startswith("exploding_tensor fired at step 20 in until-")
    assert "loss is NaN" in text
    assert "Try: " in text
    assert "gradient/0.weight (8x4, float32)" in text
    assert f"leadline show {ended.run.path}" in text
    (line,) = final_lines(tmp_path)
    assert (line["action"], line["state"]) == ("notify:$MAIL", "done")
    assert line["outcome"] == "sent: mail through 127.0.0.1"


def test_a_wrong_password_is_reported_in_the_terminal_and_in_the_run(tmp_path: Path) -> None:
    with mail_endpoint(password="s3cret/pw") as server:
        target = f"mailto://bob:wrongpassword@127.0.0.1:{server.port}?from=train@example.org&to=me@example.org"
        ended = trained_until(
            lambda _: any(entry["state"] == "failed" for entry in final_lines(tmp_path)),
            "--on",
            "exploding_tensor=notify:$MAIL",
            folder=tmp_path,
            MAIL=target,
        )
    why = "answered 535 (authentication failed)"
    assert server.mails == []
    assert any("notify:$MAIL" in line and why in line for line in ended.said)
    assert why in ended.show()["actions"][0]["outcome"]
    assert "wrongpassword" not in ended.err


def test_a_consumer_of_events_stops_the_training_as_a_lambda_did(tmp_path: Path) -> None:
    """EventBridge, a rule, a queue, and a consumer of twenty lines that calls ``leadline stop``."""
    with amazon() as address:
        queue, arn = make_queue(address, "events")
        audit, audit_arn = make_queue(address, "audit")
        pattern = {"source": ["leadline"], "detail-type": ["SageMaker Training Job State Change"]}
        route_events(address, json.dumps(pattern), arn)
        route_events(address, json.dumps(pattern), audit_arn, name="audit")
        consumer = subprocess.Popen(
            [sys.executable, script("event_consumer.py"), address, queue],
            env=environment(**CREDENTIALS),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            ended = watched(
                ["--on", f"*=put_event:endpoint={address}"],
                script("exploding.py"),
                "loss",
                "37",
                folder=tmp_path,
                **CREDENTIALS,
            )
            said, _ = consumer.communicate(timeout=PATIENCE)
        finally:
            consumer.kill()
            consumer.wait()
        events = [json.loads(body)["detail"] for body in received(address, audit)]
    assert "at its next step requested" in said
    assert consumer.returncode == 0
    shown = ended.show()
    assert (shown["status"], shown["stopped_by"]) == ("Stopped", "user")
    assert rule(shown, "exploding_tensor")["findings"][0]["step"] == 37
    assert shown["steps"]["train"] < 5000
    assert [event["leadline"]["id"] for event in events].count("exploding_tensor/opened/37") == 1
    statuses = [event["TrainingJobStatus"] for event in events if event["leadline"]["kind"] == "job_status"]
    assert statuses == ["InProgress", "InProgress", "Stopping", "Stopped"]
