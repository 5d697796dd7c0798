"""Secrets of actions appear in no run directory, terminal output, view or process list."""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from endpoints import Reply, http_endpoint, mail_endpoint
from launching import LEADLINE, Ended, environment, finish, script, started, wait_for, watched

from leadline.records.names import JOB_ENDED
from leadline.store.documents import read_document, read_lines

pytestmark = pytest.mark.slow
PASSWORD = 'gr9Kp/w"x@Zq7<T'
TOKEN = "tk-5521aaBBccDD99"
KEY = "Xy77keyOfTheHook0042"
USER = "captain"
MAIL_PASSWORD = "mailPa55ofTheTest"
EXPANDED_PASSWORD = "5hellExpandedThis"
"""Is in a process list, which another test may be watching at the same time."""
CUSTOM = """
import logging, sys

from leadline.actions import Action, Outcome

class Careless(Action, frozen=True, kw_only=True):
    target = "password"
    password: str
    fails: bool = False

    def run(self, context):
        if self.fails:
            raise OSError(f"the other side says: wrong password {self.password!r} for {self.password}")
        return Outcome(f"sent with {self.password}", announcement=f"used {self.password}")
"""


def forms(secret: str) -> set[str]:
    """Return the encodings of a secret and both its halves, for truncated texts."""
    pair = f"{USER}:{secret}".encode()
    whole = {
        secret,
        quote(secret, safe=""),
        quote(secret),
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
        base64.b64encode(secret.encode()).decode().rstrip("="),
        base64.b64encode(pair).decode().rstrip("="),
    }
    half = len(secret) * 2 // 3
    return whole | {secret[:half], secret[-half:]}


FORMS = {form for value in (PASSWORD, TOKEN, KEY, MAIL_PASSWORD) for form in forms(value)}


def secrets_in(text: str) -> set[str]:
    return {form for form in FORMS if form in text}


class ProcessList:
    """The output of ``ps``, collected during a run."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    @contextmanager
    def watching(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.seen.add(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
                except OSError:
                    continue


def carelessly(url: str) -> str:
    """Return a response that repeats all secrets, with the password at every position where a text may be truncated."""
    basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    said = f"refused {basic} and {TOKEN} for {json.dumps(PASSWORD)} at {url} {quote(PASSWORD, safe='')}"
    return said + " ".join(PASSWORD for _ in range(400))


def final_lines(root: Path) -> dict[str, dict[str, Any]]:
    """Return the final log line of each action."""
    lines = [line for path in root.glob("runs/*/actions.jsonl") for line in read_lines(str(path))]
    return {line["action"]: line for line in lines if line["state"] in ("done", "failed", "given up")}


def check_nothing_leaked(ended: Ended, processes: ProcessList) -> None:
    run = Path(ended.run.path)
    files = [path for path in run.rglob("*") if path.is_file()]
    assert any(path.name == "actions.jsonl" for path in files)
    for path in files:
        assert not secrets_in(path.read_bytes().decode(errors="replace")), path
    assert not secrets_in(ended.out + ended.err)
    for view in (("show",), ("show", "--json"), ("ls",)):
        place = str(run.parent) if view == ("ls",) else str(run)
        shown = finish([*LEADLINE, *view, place], run.parent.parent, env=environment())
        assert shown.status == 0, shown.err
        assert not secrets_in(shown.out + shown.err), view
    assert len(processes.seen) > 3
    assert not secrets_in("\n".join(processes.seen))


def test_secrets_appear_only_in_the_requests_that_send_them(tmp_path: Path) -> None:
    (tmp_path / "deeds.py").write_text(CUSTOM)
    end, processes = tmp_path / "end", ProcessList()
    with http_endpoint(Reply(200)) as good, mail_endpoint(user=USER, password=MAIL_PASSWORD) as mail:
        bad_url = f"http://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1"
        with http_endpoint(Reply(500, carelessly(bad_url))) as bad, processes.watching():
            variables = {
                "BAD": f"{bad_url}:{bad.port}/in/{KEY}?token={TOKEN}",
                "GOOD": f"{good.url}/in/{KEY}",
                "TOKEN": TOKEN,
                "PASSWORD": PASSWORD,
                "MAIL": f"mailto://{USER}:{MAIL_PASSWORD}@127.0.0.1:{mail.port}/?from=me@example.org&to=you@example.org",
                "WRONG": f"mailto://{USER}:{KEY}@127.0.0.1:{mail.port}/?from=me@example.org&to=you@example.org",
            }
            on = [
                "exploding_tensor=webhook:$BAD,retries=1,backoff=0.1",
                "exploding_tensor=webhook:$GOOD,authorization=Bearer $TOKEN",
                "exploding_tensor=notify:$MAIL",
                "exploding_tensor=notify:$WRONG",
                "exploding_tensor=deeds.py:Careless:$PASSWORD",
                "exploding_tensor=deeds.py:Careless:$PASSWORD,fails=true,retries=0",
                'exploding_tensor=run_command:test "$TOKEN" && false',
            ]
            options = [word for option in on for word in ("--on", option)]
            with started(options, script("until.py"), str(end), folder=tmp_path, **variables) as running:
                wait_for(
                    lambda: len(final_lines(tmp_path)) == len(on) or running.process.poll() is not None, "all ends"
                )
                end.touch()
                ended = running.wait()
    assert ended.status == 0, ended.err
    assert good.received[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert good.received[0].path == f"/in/{KEY}"
    assert len(mail.mails) == 1
    assert len(bad.received) >= 2
    came = {action: (line["state"], line["outcome"]) for action, line in final_lines(tmp_path).items()}
    assert [state for state, _ in came.values()].count("done") == 3, came
    assert came["deeds.py:Careless:$PASSWORD"] == ("done", "sent with $PASSWORD")
    assert any("$PASSWORD" in line for line in ended.said)
    check_nothing_leaked(ended, processes)


def test_secrets_of_a_configuration_file_and_a_repeated_run_do_not_leak(tmp_path: Path) -> None:
    (tmp_path / "deeds.py").write_text(CUSTOM)
    (tmp_path / "leadline.toml").write_text(
        '[on]\nexploding_tensor = [{action = "deeds.py:Careless", target = "@it"}, "stop_training"]\n'
        '[targets]\nit = "$PASSWORD"\n'
    )
    processes = ProcessList()
    with processes.watching():
        named = ("--config", "leadline.toml")
        ended = watched(named, script("exploding.py"), "loss", "20", folder=tmp_path, PASSWORD=PASSWORD)
    assert ended.status == 10, ended.err
    check_nothing_leaked(ended, processes)
    again = tmp_path / "again"
    again.mkdir()
    repeated = watched(
        ("--config", ended.run.path), script("exploding.py"), "loss", "20", folder=again, PASSWORD=PASSWORD
    )
    assert repeated.status == 10, repeated.err
    stored = (Path(repeated.run.path) / "manifest.json").read_text()
    assert '"it":"$PASSWORD"' in stored.replace(" ", "")
    assert final_lines(again).keys() == final_lines(tmp_path).keys() != set()
    assert not secrets_in(stored + repeated.err)


WATCH = """
import sys

import leadline
from deeds import Careless
from leadline.actions.stop_training import StopTraining

sys.path.append(sys.argv.pop(1))
import exploding

on = {"exploding_tensor": [Careless(password="$PASSWORD", retries=0), StopTraining(grace=5.0)]}
print(leadline.watch(out="runs", on=on), flush=True)
exploding.main()
"""


@pytest.mark.parametrize("changes", [{}, {"LEADLINE_RUN": "runs/joined"}], ids=["watch", "join"])
def test_secrets_of_action_instances_do_not_leak(tmp_path: Path, changes: dict[str, str]) -> None:
    (tmp_path / "deeds.py").write_text(CUSTOM)
    (tmp_path / "train.py").write_text(WATCH)
    words = [sys.executable, "train.py", str(Path(script("exploding.py")).parent), "loss", "20"]
    processes = ProcessList()
    with processes.watching():
        ended = finish(words, tmp_path, env=environment(PASSWORD=PASSWORD, **changes))
        assert ended.status == 10, ended.err
        path = Path(ended.run.path) / "status.json"
        wait_for(lambda: (read_document(str(path)) or {}).get("status") in JOB_ENDED, "the end of the run")
    assert ended.lines == [ended.run.path]
    came = {action: (line["state"], line["outcome"]) for action, line in final_lines(tmp_path).items()}
    assert came["deeds.py:Careless:$PASSWORD,retries=0"] == ("done", "sent with $PASSWORD")
    assert "stop_training:grace=5.0" in came
    check_nothing_leaked(ended, processes)


def test_actions_do_not_change_the_environment_of_the_training(tmp_path: Path) -> None:
    """No variable is resolved, added or removed because of actions."""
    told = "import json, os; print(json.dumps(dict(os.environ)))"
    job = (sys.executable, "-c", told)
    plain = watched((), *job, folder=tmp_path / _made(tmp_path, "plain"), TOKEN=TOKEN, REST="$TOKEN")
    acting = watched(
        ("--on", "*=webhook:https://127.0.0.1/x,authorization=Bearer $TOKEN,probe=false"),
        *job,
        folder=tmp_path / _made(tmp_path, "acting"),
        TOKEN=TOKEN,
        REST="$TOKEN",
    )
    bare, one, other = environment(TOKEN=TOKEN, REST="$TOKEN"), json.loads(plain.out), json.loads(acting.out)
    assert {key: one.get(key) for key in bare if key != "PYTHONPATH"} == {
        key: value for key, value in bare.items() if key != "PYTHONPATH"
    }
    assert {**one, "LEADLINE_RUN": ""} == {**other, "LEADLINE_RUN": ""}


def _made(folder: Path, name: str) -> str:
    (folder / name).mkdir()
    return name


@pytest.mark.parametrize(
    ("quotes", "said"),
    [
        ('"', "url contains a secret; write it as $VARIABLE in single quotes"),
        ("'", "cannot be reached"),
    ],
)
def test_a_password_expanded_by_the_shell_is_refused(tmp_path: Path, quotes: str, said: str) -> None:
    (tmp_path / "train.py").write_text("print('trained')\n")
    line = f"{' '.join(LEADLINE)} run --on {quotes}*=notify:$MAIL{quotes} train.py"
    secret = f"mailto://{USER}:{EXPANDED_PASSWORD}@no-such-host.invalid"
    ended = finish(["/bin/sh", "-c", line], tmp_path, env=environment(MAIL=secret))
    assert (ended.status, ended.out) == (2, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert not [form for form in forms(EXPANDED_PASSWORD) if form in ended.err]
    assert not (tmp_path / "leadline-runs").exists() or not list((tmp_path / "leadline-runs").iterdir())


def test_secrets_of_the_command_and_of_its_exception_are_in_no_file_and_no_view(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import sys, torch\n"
        "w = torch.nn.Linear(2, 1)\n"
        "o = torch.optim.SGD(w.parameters(), 0.1)\n"
        "for _ in range(3):\n"
        "    o.zero_grad(); w(torch.ones(1, 2)).sum().backward(); o.step()\n"
        "raise ValueError(f'connecting to {sys.argv[-1]} with Authorization: Bearer {sys.argv[-1]} failed')\n"
    )
    job = ("train.py", "--wandb-key", TOKEN, "--config", json.dumps({"password": PASSWORD, "lr": 0.5}))
    ended = watched((), *job, f"postgres://u:{KEY}@h/x", folder=tmp_path)
    assert ended.status == 1
    run = ended.run.uri
    report = tmp_path / "report.html"
    views = (["show", run, "--json"], ["ls", "--json"], ["report", run, "--output", str(report)])
    shown = [finish([*LEADLINE, *words], tmp_path, env=environment()).out for words in views]
    said = [line for line in ended.err.splitlines() if line.startswith("leadline")]
    written = [path.read_bytes().decode("latin-1") for path in [*Path(run).rglob("*"), report] if path.is_file()]
    assert "postgres://u:****@h/x" in shown[0]
    assert json.loads(shown[0])["command"][-2] == json.dumps({"password": "****", "lr": 0.5})
    assert report.is_file()
    assert secrets_in("\n".join([*shown, *said, *written])) == set()
