"""``leadline test-actions``: a test message through real servers, and the one clear error where it fails."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from endpoints import http_endpoint, mail_endpoint
from typer.testing import CliRunner

from leadline.cli.app import application
from leadline.config.restriction import trust_file
from leadline.errors import ConfigurationError, UnknownNameError

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # a library of Apprise's


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(
        application(), ["test-actions", *arguments], standalone_mode=False, catch_exceptions=False
    )
    return int(result.return_value or 0), result.stdout


def test_a_mail_says_that_it_is_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    with mail_endpoint() as server:
        monkeypatch.setenv("MAIL", f"mailto://127.0.0.1:{server.port}?from=me@example.org&to=you@example.org")
        assert answer("notify:$MAIL") == (0, "notify:$MAIL: sent: mail through 127.0.0.1\n")
    (mail,) = server.mails
    assert (mail["To"], mail["Subject"]) == ("you@example.org", "leadline test-actions: Test")
    text = mail.get_content()
    assert text.startswith("This is a test message that was sent by hand: no rule has fired.")
    assert "leadline show" not in text


def test_the_actions_of_the_configuration_file_are_tested_once_each(folder: Path) -> None:
    with http_endpoint() as server:
        (folder / "leadline.toml").write_text(
            f'[targets]\nteam = "{server.url}"\n'
            '[on]\nloss_spike = "webhook:@team"\n"*" = ["webhook:@team", "stop_training"]\n'
        )
        with pytest.raises(ConfigurationError, match=r"leadline\.toml is not trusted, .*: leadline trust"):
            answer()
        trust_file("leadline.toml")
        status, output = answer()
    assert (status, [received.json["status"] for received in server.received]) == (0, ["Test"])
    assert output.splitlines()[1] == "stop_training: checked, but not performed: it needs a running job"


def test_a_failure_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with mail_endpoint(refuses="you@example.org") as server:
        url = f"mailto://127.0.0.1:{server.port}?from=me@example.org&to=you@example.org"
        for action, why in (
            ("notify:$NOWHERE", "the variable NOWHERE is not set; export it before the start"),
            (f"*=webhook:http://127.0.0.1:{port}", f"127.0.0.1:{port}: connection refused"),
            (f"notify:{url}", "mail through 127.0.0.1: answered 550 (mailbox unavailable or not permitted)"),
        ):
            status, output = answer(action)
            assert (status, output.count("\n"), output.partition(": failed: ")[2].strip()) == (1, 1, why)
    assert server.mails == []


def test_a_dry_run_needs_no_server() -> None:
    status, output = answer(
        "notify:mailto://no-such-host.invalid:25?from=me@example.org&to=you@example.org,dry_run=true"
    )
    assert status == 0
    assert "dry run: would send (mail through no-such-host.invalid): leadline test-actions: Test" in output


def test_an_action_on_a_rule_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"no rule of this run named 'loss_spik'; did you mean 'loss_spike'\?"):
        answer("loss_spik=notify:mailto://localhost:25?to=me@example.org,dry_run=true")
    assert answer("LossNotDecreasing=notify:mailto://localhost:25?to=me@example.org,dry_run=true")[0] == 0


def test_without_an_action_it_says_how_to_name_one() -> None:
    with pytest.raises(ConfigurationError, match=r"there is no action to test: name one, as in leadline test-actions"):
        answer()
