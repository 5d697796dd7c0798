"""Invalid actions and action configurations are reported in one line with status 2, before anything is created."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from test_bad_input import folder as folder
from test_bad_input import refused

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # a library of Apprise's

PASSWORD = "hunter22-of-the-unit-test"
CUSTOM = """
from leadline.actions import Action

class Ping(Action, frozen=True, kw_only=True):
    target = "place"
    extra = "nowhere"
    place_of_all: str = ""
    place: str = ""

    def check(self):
        from leadline.errors import MissingExtraError
        raise MissingExtraError("Ping needs Pinger: pip install 'leadline[nowhere]'")
"""


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NOWHERE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("MAIL", f"mailto://me:{PASSWORD}@no-such-host.invalid")
    monkeypatch.setenv("TORN", f"https:/{PASSWORD}")


def is_empty(folder: Path) -> bool:
    return not (folder / "leadline-runs").exists() or list((folder / "leadline-runs").iterdir()) == []


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("*=notfy:$MAIL", "--on *=notfy: no action named 'notfy'; did you mean 'notify'?"),
        ("*=notify:$MAIL,cooldwn=5", "no parameter of notify named 'cooldwn'; did you mean 'cooldown'?"),
        ("*=notify:$MAIL,cooldown=soon", "notify: cooldown must be a number >= 0, not 'soon'"),
        ("*=notify", "notify needs url"),
        ("*=notify:", "no text after the colon; write a $VARIABLE in single quotes"),
        ("*@Fired=notify:$MAIL", "no rule status named 'Fired'"),
        ("*@Completed=notify:$MAIL", "for the job: job@Completed"),
        ("job@Complete=notify:$MAIL", "did you mean 'Completed'?"),
        ("stall_mial=notify:$MAIL", "no rule of this run named 'stall_mial'; did you mean 'stall_mail'?"),
        ("*=notify:$NOWHERE", "--on *=notify:$NOWHERE: the variable NOWHERE is not set; export it before the start"),
        ("*=notify:$EMPTY", "the variable EMPTY is empty"),
        ("*=notify:@taem", "no target named 'taem'"),
        ("*=notify:$MAIL", "no-such-host.invalid:25 cannot be reached: unknown host"),
        ("*=webhook:$TORN", "--on *=webhook:$TORN: webhook: the URL"),
        ("*=webhook:ftp://host/x", "the URL must begin with http:// or https://"),
        ("*=webhook:https://no-such-host.invalid/x", "no-such-host.invalid:443 cannot be reached"),
        ("*=stop_training:now", "stop_training takes key=value after its colon, not 'now'"),
        (f"*=notify:mailto://me:{PASSWORD}@host", "url contains a secret; write it as $VARIABLE in single"),
        (f"*=run_command:curl https://me:{PASSWORD}@host", "command contains a secret"),
        (f"*=webhook:https://h/x,authorization=Bearer {PASSWORD}", "authorization contains a secret"),
        (f"notify:mailto://me:{PASSWORD}@host", "write RULE=ACTION"),
        (f"*=stop_training:mailto://me:{PASSWORD}@host", "after its colon, not 'mailto://…'"),
        ("*=ping.py:Ping:x", "--on *=ping.py:Ping:x: Ping needs Pinger: pip install 'leadline[nowhere]'"),
        ("*=ping.py:Pong:x", "no action named 'Pong'; did you mean 'Ping'?"),
        ("*=pong.py:Ping:x", "no such action file"),
    ],
)
@pytest.mark.usefixtures("variables")
def test_invalid_actions(folder: Path, capfd: pytest.CaptureFixture[str], on: str, message: str) -> None:
    (folder / "ping.py").write_text(CUSTOM)
    err = refused(capfd, "run", "--rule", "stall_mail=stalled_training:threshold=60", "--on", on, "train.py")
    assert message in err
    assert PASSWORD not in err
    assert is_empty(folder)


def test_a_closed_port(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, variables: None
) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        monkeypatch.setenv("HOOK", f"http://me:{PASSWORD}@127.0.0.1:{port}/in/{PASSWORD}")
        err = refused(capfd, "run", "--on", "*=webhook:$HOOK", "train.py")
    assert f"--on *=webhook:$HOOK: 127.0.0.1:{port} cannot be reached: connection refused" in err
    assert "probe=false" in err
    assert PASSWORD not in err
    assert is_empty(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[on]\nstall = "notfy:$MAIL"', "file.toml: on.stall: no action named 'notfy'; did you mean 'notify'?"),
        ('[on]\n"a@Fired" = "stop_training"', "file.toml: on.\"a@Fired\": no rule status named 'Fired'"),
        ("[on]\na = 5", 'file.toml: on.a: expected an action, {action = "notify", …} or a list of both, got 5'),
        ('[on]\na = ["stop_training", {target = "$MAIL"}]', "file.toml: on.a, entry 2: missing key action"),
        ('[on]\na = {action = "notify", url = "$MAIL", cooldwn = 5}', "did you mean 'cooldown'?"),
        ('[on]\na = {action = "notify", target = "$MAIL", cooldown = -5}', "cooldown must be a number >= 0, not -5"),
        (f'[on]\n"*" = "notify:mailto://me:{PASSWORD}@host"', 'file.toml: on."*": notify: url contains a secret'),
        ('[on]\na = "stop_training"', "no rule of this run named 'a'"),
        (f'[targets]\nteam = "mailto://me:{PASSWORD}@host"', "file.toml: targets.team: it contains a secret"),
        ('[targets]\nteam = ""', "file.toml: targets.team is empty"),
        ('[targets]\n"a b" = "$X"', "file.toml: targets.a b: a target name may contain only letters"),
        ("[targets]\nteam = 5", "file.toml: targets"),
        ("[presets.light]\n", "file.toml: presets.light: the name is a built-in preset"),
        ('[presets.mine]\nbas = "light"', "file.toml: presets.mine: no key named 'bas'; did you mean 'base'?"),
        (
            '[presets.mine]\nbase = "lihgt"',
            "file.toml: presets.mine: base: no preset named 'lihgt'; did you mean 'light'?",
        ),
        ("[presets.mine]\ninterval_ms = 3", "file.toml: presets.mine: interval_ms must be one of"),
        ('[presets.mine]\nbudget = "much"', "file.toml: presets.mine: budget must be a percentage"),
        (
            "[presets.mine.capture.gradients]\nevry = 3",
            "file.toml: presets.mine: capture.gradients: no key named 'evry'",
        ),
        ("[presets.mine.rules]\na = 3", "file.toml: presets.mine: rules.a: expected a table, got 3"),
        ("presets = 3", "file.toml: presets: expected a table, got 3"),
        ("[presets]\nmine = 3", "file.toml: presets.mine: expected a table, got 3"),
        ("[capture.gradients]\nevery = 0", "file.toml: capture.gradients: every must be at least 1, not 0"),
        ("[capture]\ngradients = [3]", "file.toml: capture.gradients: expected a table, got 3"),
        ("[rules.overfit]\npatienc = 3", "file.toml: rules.overfit: no parameter of overfit named 'patienc'"),
        ('[rules.a]\nrule = "overfitt"', "file.toml: rules.a: no rule named 'overfitt'; did you mean 'overfit'?"),
        ("[rules.a]\nrule = 3", "file.toml: rules.a.rule: expected the name of a rule, got 3"),
        ('[rules.job]\nrule = "overfit"', "'job' is not a valid name of a rule"),
        ('no_rules = ["overfitt"]', "no rule named 'overfitt'; did you mean 'overfit'?"),
        ("no_rules = 3", "file.toml: no_rules: expected"),
    ],
)
@pytest.mark.usefixtures("variables")
def test_invalid_files(folder: Path, capfd: pytest.CaptureFixture[str], text: str, message: str) -> None:
    (folder / "file.toml").write_text(text + "\n")
    err = refused(capfd, "run", "--config", "file.toml", "train.py")
    assert message in err
    assert PASSWORD not in err
    assert is_empty(folder)


def test_custom_presets_are_suggested(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "leadline.toml").write_text('[presets.mine]\nbase = "light"\n')
    err = refused(capfd, "run", "--preset", "mien", "train.py")
    assert "--preset: no preset named 'mien'; did you mean 'mine'?" in err


def test_a_run_without_a_stored_configuration(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from leadline.testing.runs import RunWriter

    RunWriter(folder / "leadline-runs" / "older").end()
    assert "no run named 'oldr'" in refused(capfd, "run", "--config", "oldr", "train.py")
    err = refused(capfd, "run", "--config", "older", "train.py")
    assert "which did not store configurations; give a file, or a newer run" in err
