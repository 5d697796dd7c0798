"""Delivery of notifications by a real judge process: killed, interrupted, or with an endpoint that is down."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from launching import started
from own_judge import judge_of

from leadline.records.manifest import ActionSpec, RuleSpec
from leadline.store import layout
from leadline.store.control import read_actions
from leadline.store.documents import read_document, read_lines
from leadline.testing.runs import Capture, RunWriter

PATIENCE_SECONDS = 120.0
ACTIONS = '''
import json, os, time, urllib.request
from leadline.actions import Action, Outcome

class Post(Action, frozen=True, kw_only=True):
    """Posts the id of the notification."""
    url: str
    target = "url"

    def run(self, context):
        request = urllib.request.Request(self.url, context.notification.id.encode(), method="POST")
        with urllib.request.urlopen(request, timeout=600) as answer:
            return Outcome(f"posted: {answer.status}")
'''


class Endpoint:
    """An HTTP server that records requests, and can be down or delay its responses."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.posted: list[str] = []
        self.answers = threading.Event()
        self.answers.set()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def open(self) -> None:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                endpoint.posted.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
                endpoint.answers.wait(PATIENCE_SECONDS)
                try:
                    self.send_response(200)
                    self.end_headers()
                except OSError:  # the client has disconnected
                    return

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.answers.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()


@pytest.fixture
def writer(tmp_path: Path, endpoint: Endpoint) -> RunWriter:
    (tmp_path / "mine.py").write_text(ACTIONS)
    parameters = {"url": endpoint.url, "backoff": 0.2, "retries": 100}
    post = ActionSpec("*", "mine.py:Post", parameters=parameters, display_name="post", folder=str(tmp_path))
    return RunWriter(tmp_path / "run", rules=[RuleSpec("e", "exploding_tensor")], actions=[post])


class Judges:
    """Judge processes of a run; those that are running at the end of a test are killed."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        self._processes.append(subprocess.Popen(judge_of(self._run, "--follow")))
        return self._processes[-1]

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


@pytest.fixture
def judges(writer: RunWriter) -> Iterator[Judges]:
    made = Judges(writer.path)
    yield made
    made.end()


def wait_until(holds: Callable[[], Any]) -> Any:
    until = time.monotonic() + PATIENCE_SECONDS
    while not (found := holds()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return found


def spoil(writer: RunWriter, *steps: int) -> None:
    """Make each of these steps a separate finding, closed by the next step."""
    for step in steps:
        writer.write(Capture(step, {"loss": {"value": float("nan")}}))
        writer.write(Capture(step + 1, {"loss": {"value": 1.0}}))
    writer.write(Capture(steps[-1] + 2))


def states(writer: RunWriter) -> dict[str, str]:
    return {action.notice: action.state for action in read_actions(writer.path)}


def judged(writer: RunWriter) -> int:
    document = read_document(f"{writer.path}/{layout.rule_status('e')}")
    return int(document["findings"]) if document else 0


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_an_endpoint_that_is_down_for_a_while_receives_everything_once_and_in_order(
    writer: RunWriter, judges: Judges, endpoint: Endpoint
) -> None:
    judge = judges.start()
    spoil(writer, 3, 6)
    wait_until(lambda: judged(writer) == 2)
    assert states(writer) == {"e/opened/3": "asked", "e/opened/6": "asked"}
    wait_until(lambda: "the first attempt failed: " in read_actions(writer.path)[0].outcome)
    spoil(writer, 9)
    wait_until(lambda: judged(writer) == 3)  # evaluation continues meanwhile
    endpoint.open()
    wait_until(lambda: set(states(writer).values()) == {"done"})
    assert endpoint.posted == ["e/opened/3", "e/opened/6", "e/opened/9"]
    assert read_actions(writer.path)[0].attempts > 1
    writer.end()
    assert judge.wait(PATIENCE_SECONDS) == 0


def test_a_judge_that_is_killed_before_a_delivery_loses_nothing_and_repeats_nothing(
    writer: RunWriter, judges: Judges, endpoint: Endpoint
) -> None:
    endpoint.open()
    judge = judges.start()
    spoil(writer, 3)
    wait_until(lambda: states(writer) == {"e/opened/3": "done"})
    endpoint.answers.clear()
    spoil(writer, 6, 9)
    wait_until(lambda: len(endpoint.posted) == 2 and len(states(writer)) == 3)
    workers = children(judge.pid)
    judge.kill()
    judge.wait()
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers))
    assert states(writer) == {"e/opened/3": "done", "e/opened/6": "asked", "e/opened/9": "asked"}
    endpoint.answers.set()
    writer.end()
    assert judges.start().wait(PATIENCE_SECONDS) == 0
    assert states(writer) == {"e/opened/3": "done", "e/opened/6": "done", "e/opened/9": "done"}
    assert endpoint.posted == ["e/opened/3", "e/opened/6", "e/opened/6", "e/opened/9"]
    assert judges.start().wait(PATIENCE_SECONDS) == 0
    assert len(endpoint.posted) == 4


def test_an_endpoint_that_never_answers_does_not_block_the_judge_and_is_given_up_at_the_end(
    writer: RunWriter, judges: Judges, endpoint: Endpoint
) -> None:
    endpoint.open()
    endpoint.answers.clear()
    judge = judges.start()
    spoil(writer, 3, 6, 9)
    wait_until(lambda: judged(writer) == 3)
    writer.end()
    summary = wait_until(lambda: (read_document(f"{writer.path}/{layout.RULE_SUMMARY}") or {}).get("delivering"))
    assert summary == ["post"]
    wait_until(lambda: endpoint.posted)
    assert read_document(f"{writer.path}/{layout.rule_status('e')}")["status"] == "IssuesFound"
    judge.send_signal(signal.SIGTERM)
    assert judge.wait(PATIENCE_SECONDS) == 0
    assert endpoint.posted == ["e/opened/3"]
    assert states(writer) == {"e/opened/3": "given up", "e/opened/6": "given up", "e/opened/9": "given up"}
    outcomes = [line["outcome"] for line in read_lines(f"{writer.path}/{layout.ACTIONS}")[-3:]]
    assert outcomes == ["given up: the judge was terminated"] * 3
    after = read_document(f"{writer.path}/{layout.RULE_SUMMARY}")
    assert (after["complete"], after["delivering"]) == (True, [])
    said = [announcement["message"] for announcement in after["announcements"] if announcement.get("kind") == "failure"]
    assert said == ["post given up: the judge was terminated"]


def test_the_output_of_an_action_reaches_no_terminal(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import sys\nfrom leadline.actions import Action, Outcome\n"
        "class Loud(Action, frozen=True, kw_only=True):\n"
        "    def run(self, context):\n"
        "        print('printed'); print('printed', file=sys.stderr); return Outcome('done')\n"
    )
    loud = ActionSpec("job", "mine.py:Loud", ("Completed",), folder=str(tmp_path))
    path = RunWriter(tmp_path / "run", actions=[loud]).end().path
    done = subprocess.run(
        judge_of(path),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert [action.state for action in read_actions(path)] == ["done"]


def test_ctrl_c_ends_the_wait_and_the_summary_lists_what_was_not_delivered(tmp_path: Path, endpoint: Endpoint) -> None:
    endpoint.open()
    endpoint.answers.clear()
    (tmp_path / "mine.py").write_text(ACTIONS)
    options = ("--no-default-rules", "--on", f"job@Completed=mine.py:Post:{endpoint.url}")
    with started(options, "true", folder=tmp_path) as running:
        wait_until(lambda: endpoint.posted)
        os.kill(running.agent, signal.SIGINT)
        ended = running.wait()
    assert endpoint.posted == ["job/Completed"]
    outcome = f"mine.py:Post:{endpoint.url} given up: the judge was terminated"
    assert sum(outcome in line for line in ended.said) >= 1
    (action,) = ended.show()["actions"]
    assert (action["rule"], action["state"]) == ("job", "given up")
    assert ended.status == 0
