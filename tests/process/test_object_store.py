"""Runs in an object store: moto's S3 server over HTTP, trainings that write to it, readers that have only the URI."""

from __future__ import annotations

import asyncio
import filecmp
import json
import os
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from amazon import CREDENTIALS, REGION, client
from launching import (
    CONSOLE_SCRIPT,
    LEADLINE,
    PATIENCE,
    Ended,
    bare,
    end_all,
    environment,
    finish,
    losses,
    script,
    show,
    wait_for,
)

import leadline
from leadline.cli.top import folder_and_run
from leadline.cli.top_app import Top
from leadline.reader.find_runs import list_runs
from leadline.reader.run import Run
from leadline.records.formatting import counted
from leadline.remote.catalogue import entry_tags, fetch_entries, publish, write_index
from leadline.remote.object_store import ObjectStore
from leadline.remote.objects import is_uploaded
from leadline.store.documents import read_document
from leadline.store.upload_state import UploadState, read_upload

BUCKET = "training-runs"
ROOT = f"s3://{BUCKET}/team"
OUTAGE_SECONDS = float(os.environ.get("LEADLINE_OUTAGE_SECONDS", "8"))
"""For how long the store is away, at least."""


class Server:
    """moto's S3 server, which can be away for a while."""

    def __init__(self) -> None:
        from moto.server import ThreadedMotoServer

        self._make = ThreadedMotoServer
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        self._is_running = True
        self.port = self._server.get_host_and_port()[1]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        if self._is_running:
            self._server.stop()
        self._is_running = False

    def start(self) -> None:
        """Start again at the same address with the same contents, unless it runs."""
        if self._is_running:
            return
        self._server = self._make(ip_address="127.0.0.1", port=self.port, verbose=False)
        self._server.start()
        self._is_running = True


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    try:
        configuration = {"LocationConstraint": REGION}
        client("s3", server.address).create_bucket(Bucket=BUCKET, CreateBucketConfiguration=configuration)
        yield server
    finally:
        server.stop()


@dataclass(frozen=True)
class Place:
    """A folder on the machine of the job, and the environment in which it and the readers reach the store."""

    folder: Path
    variables: dict[str, str]

    def run(self, *words: str) -> Ended:
        return finish([CONSOLE_SCRIPT, *words], self.folder, env=environment(**self.variables))

    def elsewhere(self, *words: str) -> Ended:
        """Run a command on a machine that has only the URI: another folder, and an empty cache of its own."""
        other = self.folder / "elsewhere"
        other.mkdir(exist_ok=True)
        variables = self.variables | {"LEADLINE_CACHE": str(other / "cache")}
        return finish([CONSOLE_SCRIPT, *words], other, env=environment(**variables))

    def follow(self, *words: str, **changes: str) -> subprocess.Popen[str]:
        """Start a command elsewhere that continues until the run ends."""
        other = self.folder / "elsewhere"
        variables = self.variables | {"LEADLINE_CACHE": str(other / "cache")} | changes
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        return subprocess.Popen([CONSOLE_SCRIPT, *words], cwd=other, env=environment(**variables), text=True, **streams)

    def start(self, name: str, *options: str, job: str) -> subprocess.Popen[str]:
        words = [*LEADLINE, "run", "--out", ROOT, "--name", name, "--budget", "off", *options, script(job)]
        env = environment(**self.variables)
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        return subprocess.Popen(words, cwd=self.folder, env=env, text=True, **streams)

    def upload(self, name: str) -> UploadState:
        return read_upload(str(self.folder / "leadline-runs" / name))


@pytest.fixture
def place(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL_S3", "LEADLINE_ROOT", "LEADLINE_SPOOL"):
        monkeypatch.delenv(name, raising=False)
    variables = {**CREDENTIALS, "AWS_ENDPOINT_URL": server.address, "LEADLINE_CACHE": str(tmp_path / "cache")}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return Place(tmp_path, variables)


@contextmanager
def read_only(address: str) -> Iterator[str]:
    """Serve a store in which nothing may be written; yields the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with urllib.request.urlopen(f"{address}{self.path}", timeout=PATIENCE) as answer:
                content = answer.read()
            self.answer(200, content)

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.answer(403, b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>")

        def answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def keys(server: Server, name: str) -> dict[str, int]:
    """Return the objects of a run with their sizes."""
    pages = (
        client("s3", server.address).get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"team/{name}/")
    )
    return {
        entry["Key"].removeprefix(f"team/{name}/"): entry["Size"]
        for page in pages
        for entry in page.get("Contents", ())
    }


@contextmanager
def served(place: Place, uri: str) -> Iterator[str]:
    """Serve the dashboard of a URI elsewhere; yields the page that it opens with."""
    words = [CONSOLE_SCRIPT, "ui", uri, "--port", "0"]
    env = environment(**place.variables, PYTHONUNBUFFERED="1")
    server = subprocess.Popen(words, cwd=place.folder / "elsewhere", env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address, _, token = server.stdout.readline().split()[1].partition("?token=")
        page = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(page, timeout=PATIENCE) as answer:
            yield answer.read().decode()
    finally:
        end_all(server)


def contents(run: Path) -> set[str]:
    names = (str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())
    return {name for name in names if is_uploaded(name)}


def train_through_outage(server: Server, place: Place, watching: Run) -> None:
    """Stop the server, and let the training make steps until the outage has lasted long enough."""
    seen = watching.wait_for_step(50, timeout=PATIENCE) or watching.steps()
    assert seen[:51] == list(range(51))
    server.stop()
    back_at = time.monotonic() + OUTAGE_SECONDS
    (place.folder / "go").touch()
    wait_for(lambda: place.upload("away").error, "a failed upload")
    waiting = show(place.folder / "leadline-runs" / "away")["upload"]
    assert "not uploaded for" in waiting
    assert "the store cannot be reached" in waiting
    assert watching.refresh().steps()[:51] == seen[:51]
    wait_for(lambda: "cannot be reached" in (show(watching.refresh().path)["upload"] or ""), "an error of the mirror")
    local = leadline.open_run(place.folder / "leadline-runs" / "away")
    wait_for(lambda: local.refresh().steps()[-1] >= 298, "steps while the store is away")
    time.sleep(max(0.0, back_at - time.monotonic()))
    assert max(watching.refresh().steps()) < 200


@pytest.mark.slow
def test_a_store_that_is_away_costs_no_bit_and_no_record(server: Server, place: Place) -> None:
    for file in ("go", "back"):
        (place.folder / file).touch()
    expected = bare("uploaded.py", folder=place.folder)
    for file in ("go", "back"):
        (place.folder / file).unlink()
    process = place.start("away", job="uploaded.py")
    try:
        wait_for(lambda: any(key.startswith("series/") for key in keys(server, "away")), "captured data in the store")
        watching = leadline.open_run(f"{ROOT}/away")
        wait_for(lambda: watching.refresh().status == "InProgress", "the first step")
        train_through_outage(server, place, watching)
    finally:
        server.start()
        (place.folder / "back").touch()
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            end_all(process)
            raise

    assert (process.returncode, out) == (0, expected.out), err
    local, remote = leadline.open_run(place.folder / "leadline-runs" / "away"), leadline.open_run(f"{ROOT}/away")
    assert place.upload("away").is_complete
    assert remote.steps() == local.steps() == list(range(400))
    assert losses(remote) == losses(local)
    assert remote.verify() == []
    uploaded = keys(server, "away")
    assert set(uploaded) == contents(Path(local.path)), "each file is one object: no chunk is left"
    for name in uploaded:
        assert filecmp.cmp(Path(local.path, name), Path(remote.path, name), shallow=False), name
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in err
    for path in Path(local.path).rglob("*.json"):
        assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"].encode() not in path.read_bytes(), path


def control_from_elsewhere(place: Place, uri: str) -> None:
    """Change, profile, report and show a live run with only its URI."""
    changed = place.elsewhere("set", uri, "interval-ms=1000", "capture=gradients:every=2")
    assert (changed.status, "gradients every 2 steps" in changed.out) == (0, True), changed
    profiled = place.elsewhere("profile", uri, "--python", "cprofile", "--for", "2")
    assert (profiled.status, "cprofile" in profiled.out) == (0, True), profiled
    reported = place.elsewhere("report", uri, "-o", "live.html")
    assert reported.status == 0, reported.err
    with served(place, uri) as page:
        assert "Running" in page


def read_from_elsewhere(place: Place, uri: str) -> None:
    """Read a run that has ended with only its URI, by every command."""
    shown = place.elsewhere("show", uri)
    assert "Stopped by user" in shown.out
    assert uri in shown.out.replace("\n", "")
    (loss,) = leadline.open_run(uri).tensor_names(collection="losses")
    assert place.elsewhere("values", uri, loss).status == 0
    assert loss in place.elsewhere("tensors", uri).out
    named = finish(
        [CONSOLE_SCRIPT, "values", "steered", loss],
        place.folder / "elsewhere",
        env=environment(**place.variables, LEADLINE_ROOT=ROOT),
    )
    assert named.status == 0, named.err
    judged = place.elsewhere("judge", uri, "--json")
    assert judged.status == 0, judged.err
    reported = place.elsewhere("report", uri, "-o", "report.html")
    assert reported.status == 0, reported.err
    assert "steered" in (place.folder / "elsewhere" / "report.html").read_text()
    assert place.elsewhere("export", uri, "--to", "csv", "-o", "tables").status == 0
    with served(place, uri) as page:
        assert "Stopped" in page


@pytest.mark.slow
def test_a_run_is_stopped_read_and_reported_with_only_its_uri(server: Server, place: Place) -> None:
    uri = f"{ROOT}/steered"
    process, following = place.start("steered", job="steered.py"), None
    try:
        wait_for(lambda: any(key.startswith("series/") for key in keys(server, "steered")), "captured data")
        listed = place.elsewhere("ls", ROOT)
        assert any(line.startswith("steered") and "Running" in line for line in listed.lines), listed
        following = place.follow("show", uri, "--follow")
        control_from_elsewhere(place, uri)
        asked = place.elsewhere("stop", uri)
        assert asked.status == 0, asked.err
        _, err = process.communicate(timeout=PATIENCE)
        followed, _ = following.communicate(timeout=PATIENCE)
    finally:
        for started in filter(None, (process, following)):
            if started.poll() is None:
                end_all(started)
    assert process.returncode == 10, err
    assert followed.startswith("steered"), "a line while it runs"
    assert "Stopped by user" in followed, "the page at the end"
    assert leadline.open_run(uri).verify() == []
    read_from_elsewhere(place, uri)
    refused = place.elsewhere("rm", "--yes", uri)
    assert (refused.status, len(refused.err.splitlines())) == (2, 1)
    late = place.elsewhere("stop", uri)
    assert (late.status, late.err.splitlines()) == (2, ["leadline: steered is not running: it is Stopped"])

    again = place.run("run", "--out", ROOT, "--name", "steered", script("steered.py"))
    assert again.status == 2
    shutil.rmtree(place.folder / "leadline-runs" / "steered")
    taken = place.run("run", "--out", ROOT, "--name", "steered", script("steered.py"))
    assert taken.err.splitlines() == [f"leadline: a run already exists at {uri}; choose another --name"]
    assert not (place.folder / "leadline-runs" / "steered").exists()


@pytest.mark.slow
def test_a_rule_that_was_added_from_elsewhere_stops_the_job(server: Server, place: Place) -> None:
    """Must show 1 of the issue: watched live and stopped by a rule, from a machine that has only the URI."""
    uri = f"{ROOT}/ruled"
    known = ("--rule", f"known={script('steered_rules.py')}:High:limit=1e30")  # its class may be used again
    options = ("--no-default-rules", *known, "--on", "*=stop_training")
    process, following = place.start("ruled", *options, job="steered.py"), None
    try:
        wait_for(lambda: any(key.startswith("series/") for key in keys(server, "ruled")), "captured data")
        (place.folder / "elsewhere").mkdir()
        following = place.follow("show", uri, "--follow")
        (place.folder / "high").touch()
        added = place.elsewhere("set", uri, f"rule=high={script('steered_rules.py')}:High")
        assert added.status == 0, added.err
        _, err = process.communicate(timeout=PATIENCE)
        followed, _ = following.communicate(timeout=PATIENCE)
    finally:
        for started in filter(None, (process, following)):
            if started.poll() is None:
                end_all(started)
    assert process.returncode == 10, err
    assert "high" in followed
    assert "Stopped" in followed
    shown = json.loads(place.elsewhere("show", uri, "--json").out)
    assert (shown["status"], shown["stopped_by"]) == ("Stopped", "rule:high")


@pytest.mark.slow
def test_a_list_of_runs_that_have_ended_takes_few_requests(
    server: Server, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = f"s3://{BUCKET}/many"
    words = [*LEADLINE, "run", "--out", root, "--name", "listed", "--budget", "off", script("resumed.py")]
    ended = finish([*words, "8", "-1", "Adam"], place.folder, env=environment(**place.variables))
    assert ended.status == 0, ended.err
    (local,) = list_runs(str(place.folder / "leadline-runs"))
    store = ObjectStore(root)
    (entry,) = fetch_entries(store, entry_tags(store)).values()
    names = [f"run-{number}" for number in range(60)]
    for name in names:
        store.put(f"{name}/manifest.json", b"not read")
        publish(store, name, entry)
    assert write_index(store) == 61

    seen: list[str] = []
    get, objects = ObjectStore.get, ObjectStore.objects
    monkeypatch.setattr(ObjectStore, "get", lambda self, name, *rest: seen.append(name) or get(self, name, *rest))
    monkeypatch.setattr(ObjectStore, "objects", lambda self: seen.append(self.uri) or objects(self))
    listed = list_runs(root)
    assert seen == [".catalogue/index.json.gz"]
    assert sorted(os.path.basename(run.path) for run in listed) == sorted(["listed", *names])
    assert {(run.outcome.text, run.train_steps, run.loss) for run in listed} == {
        (local.outcome.text, local.train_steps, local.loss)
    }
    assert len(list_runs(root)) == 61
    assert seen == [".catalogue/index.json.gz"], "nothing has changed"
    assert leadline.open_run(f"{root}/listed").steps() == list(range(8))

    store.delete([f".catalogue/runs/{name}.json" for name in ["listed", *names]])
    for name in names:
        store.delete([f"{name}/manifest.json"])
    rebuilt = place.elsewhere("ls", root, "--rebuild")
    assert (rebuilt.status, len(rebuilt.lines)) == (0, 2), rebuilt.err
    assert fetch_entries(store, entry_tags(store)) == {"listed": entry}


@pytest.mark.slow
def test_upload_completes_what_a_killed_agent_left(server: Server, place: Place) -> None:
    process = place.start("killed", job="uploaded.py")
    try:
        wait_for(lambda: any(key.startswith("series/") for key in keys(server, "killed")), "captured data")
    finally:
        end_all(process)
    left = place.run("upload", "killed")
    assert (left.status, left.lines) == (0, [f"{ROOT}/killed: complete"]), left.err
    uploaded = keys(server, "killed")
    run = place.folder / "leadline-runs" / "killed"
    assert uploaded == {name: os.path.getsize(run / name) for name in contents(run)}
    assert place.run("upload", "killed").status == 0
    assert keys(server, "killed") == uploaded
    remote = leadline.open_run(f"{ROOT}/killed")
    assert losses(remote) == losses(leadline.open_run(run))
    assert remote.verify() == []


@pytest.mark.parametrize(
    ("out", "changes", "expected"),
    [
        ("s3://no-such-bucket/x", {}, "no such bucket; create it, or correct the URI"),
        ("s3:///x", {}, "the bucket is missing; for example s3://bucket/runs"),
        ("s3://key:word@bucket/x", {}, "s3://bucket/x: only bucket and prefix belong into the URI"),
        (ROOT, {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "the store cannot be reached"),
        ("az://container/x", {}, "no credentials found; set AZURE_STORAGE_ACCOUNT_NAME"),
        (ROOT, {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "no credentials found; set AWS_ACCESS_KEY_ID"),
        (ROOT, {"AWS_ENDPOINT_URL": "READ ONLY"}, f"{ROOT}/train"),
        (ROOT, {"AWS_ENDPOINT_URL": "READ ONLY"}, "access denied (AccessDenied); check the credentials and their"),
    ],
)
def test_a_store_that_cannot_be_written_is_refused_in_one_line(
    place: Place, out: str, changes: dict[str, str], expected: str
) -> None:
    (place.folder / "train.py").write_text("print('trained')")
    words = [CONSOLE_SCRIPT, "run", "--out", out, "train.py"]
    with read_only(place.variables["AWS_ENDPOINT_URL"]) as address:
        changes = {name: value.replace("READ ONLY", address) for name, value in changes.items()}
        ended = finish(words, place.folder, env=environment(**place.variables | changes))
    assert (ended.status, ended.out, len(ended.err.splitlines())) == (2, "", 1), ended.err
    assert expected in ended.err
    assert "word" not in ended.err
    assert os.listdir(place.folder) == ["train.py"]


def test_of_two_jobs_that_claim_a_name_at_once_one_is_refused(place: Place) -> None:
    jobs = []
    for folder in (place.folder / "one", place.folder / "two"):
        folder.mkdir()
        words = [
            CONSOLE_SCRIPT,
            "run",
            "--out",
            ROOT,
            "--name",
            "claimed",
            "--no-default-rules",
            "--",
            "echo",
            "trained",
        ]
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        jobs.append(subprocess.Popen(words, cwd=folder, env=environment(**place.variables), text=True, **streams))
    ends = [(*job.communicate(timeout=PATIENCE), job.returncode) for job in jobs]
    (refused,) = (end for end in ends if end[2] != 0)
    assert refused == ("", f"leadline: a run already exists at {ROOT}/claimed; choose another --name\n", 2)
    assert {end[0] for end in ends if end[2] == 0} == {"trained\n"}
    assert leadline.open_run(f"{ROOT}/claimed").status == "Completed"
    newer = {"format": 99, "leadline": "9.9.9"}
    ObjectStore(f"{ROOT}/claimed").put("manifest.json", json.dumps(newer).encode())
    for words in (["show", f"{ROOT}/claimed"], ["run", "--out", ROOT, "--join", "claimed", "--", "true"]):
        told = place.elsewhere(*words)
        assert (told.status, len(told.err.splitlines())) == (2, 1), told
        assert "was written by Leadline 9.9.9 in format 99" in told.err


@pytest.mark.slow
def test_a_run_in_a_store_is_resumed_from_its_spool_and_reads_as_one(server: Server, place: Place) -> None:
    job = script("resumed.py")
    options = ("--budget", "off", "--capture", "gradients:every=1,raw=true", "--spool-max", "100kB")
    begun = place.run("run", "--out", ROOT, "--name", "again", *options, job, "30", "18", "Adam")
    assert begun.status == 137, begun.err
    reading = leadline.open_run(f"{ROOT}/again")
    assert reading.steps() == list(range(18))
    resumed = place.run("run", "--out", ROOT, "--resume", "again", job, "30", "-1", "Adam")
    assert resumed.status == 0, resumed.err
    assert place.upload("again").is_complete
    assert reading.refresh().steps() == list(range(30))
    assert [what.resumed_step for what in reading.interruptions()] == [15]
    local = leadline.open_run(place.folder / "leadline-runs" / "again")
    assert losses(reading) == losses(local)
    assert len(losses(local)) == 30
    assert reading.verify() == local.verify() == []
    state, name = place.upload("again"), local.tensor_names("gradients")[0]
    assert (state.removed_files > 0, state.lost_files) == (True, 0)
    assert state.describe(0).startswith(
        f"{ROOT}/again: complete; {counted(state.removed_files, 'file')} of raw tensors"
    )
    assert len(reading.archive.stored[name]) == 30
    assert len(local.archive.stored.get(name, ())) < 30


@pytest.mark.slow
def test_a_run_is_resumed_on_a_machine_that_has_only_its_uri(server: Server, place: Place) -> None:
    job, uri = script("resumed.py"), f"{ROOT}/moved"
    begun = place.run("run", "--out", ROOT, "--name", "moved", "--budget", "off", job, "30", "18", "Adam")
    assert begun.status == 137, begun.err
    local = place.folder / "leadline-runs" / "moved"
    ended = read_document(str(local / "status.json")) or {}
    taken_away = ended | {"status": "InProgress", "ended_ns": None, "node": "taken-away", "exit_status": None}
    body = json.dumps(taken_away).encode()  # what the store has of a machine that was taken away at once
    client("s3", server.address).put_object(Bucket=BUCKET, Key="team/moved/status.json", Body=body)

    (place.folder / "elsewhere").mkdir()
    shutil.copy(place.folder / "checkpoint.pt", place.folder / "elsewhere")
    again = place.elsewhere("run", "--resume", uri, job, "30", "23", "Adam")
    assert again.status == 137, again.err
    resumed = place.elsewhere("run", "--resume", uri, job, "30", "-1", "Adam")
    assert resumed.status == 0, resumed.err
    reading = leadline.open_run(uri)
    assert (reading.status, reading.steps()) == ("Completed", list(range(30)))
    assert [what.resumed_step for what in reading.interruptions()] == [15, 20]
    assert [what.status for what in reading.interruptions()] == ["Interrupted", "Failed"]
    late = place.run("run", "--resume", uri, job, "30", "-1", "Adam")
    assert (late.status, "was resumed on another machine since" in late.err) == (2, True), late.err
    assert reading.verify() == []


def test_runs_of_a_store_are_shown_in_the_terminal(place: Place) -> None:
    root = f"s3://{BUCKET}/shown"
    words = [
        *LEADLINE,
        "run",
        "--out",
        root,
        "--name",
        "far",
        "--budget",
        "off",
        script("resumed.py"),
        "8",
        "-1",
        "Adam",
    ]
    ended = finish(words, place.folder, env=environment(**place.variables))
    assert ended.status == 0, ended.err
    folder, run = folder_and_run(f"{root}/far")
    assert (folder, run is not None) == (root, True)
    shutil.rmtree(place.folder / "leadline-runs")
    shutil.rmtree(place.folder / "cache")
    assert folder_and_run(root) == (root, None)

    async def play() -> None:
        app = Top(root)
        async with app.run_test(size=(140, 50)) as pilot:
            for _ in range(600):
                if "Completed:" in (shown := app.export_screenshot().replace("&#160;", " ")):
                    break
                if "far" in shown:
                    await pilot.press("enter")
                await pilot.pause(0.1)
            assert "8 steps" in shown

    asyncio.run(play())
