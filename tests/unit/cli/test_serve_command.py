"""``leadline serve``: what it refuses, and the environment that it prints."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leadline.cli.app import application
from leadline.errors import LeadlineError


def serve(*options: str) -> str:
    done = CliRunner().invoke(application("serve"), ["serve", *options], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--host", "0.0.0.0"), "other machines are served only with --keys FILE"),
        (("--host", "0.0.0.0", "--keys", "none"), "--keys none: no such file"),
        (("--email", "mailto://smtp.example.org?to=me@example.org"), "--email needs {address}"),
        (("--sms", "sns://AKIA/secret/eu-west-1/{address}"), "--sms: url contains"),
        (("--email", "mailtos://bob:word@smtp.example.org?to={address}"), "--email: url contains a secret"),
        (("--region", "a region"), "--region 'a region'"),
        (("--webhook", "https://bob:a-password@hooks.example.org/"), "--webhook: url contains a secret"),
        (("--webhook", "hooks.example.org"), "must begin with http"),
        (("--engine", "ray"), "--engine ray needs Ray"),
        (("--host", "no.such.host.invalid", "--keys", "keys"), "not an address of this machine"),
    ],
)
def test_what_it_refuses(
    options: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("keys").write_text("[a]\naws_access_key_id = A\naws_secret_access_key = a-secret-of-some-length\n")
    Path("keys").chmod(0o600)
    with pytest.raises(LeadlineError, match=message):
        serve(*options)
    assert not Path("leadline-serve").exists()


def test_the_environment_is_read_by_a_shell(tmp_path: Path) -> None:
    folder = tmp_path / "it's here"
    lines = serve("--env", "--folder", str(folder), "--s3-endpoint", "http://127.0.0.1:9000", "--region", "eu-west-1")
    variables = (
        "$AWS_ENDPOINT_URL_SAGEMAKER $AWS_ENDPOINT_URL_S3 $AWS_DEFAULT_REGION $AWS_ACCESS_KEY_ID "
        "$SAGEMAKER_USER_CONFIG_OVERRIDE"
    )
    script = f'{lines}\necho "{variables}"'
    done = subprocess.run(
        ["/bin/sh", "-euc", script], env={"AWS_ACCESS_KEY_ID": "mine"}, capture_output=True, text=True, check=True
    )
    path = folder / "sagemaker.yaml"
    token = (folder / "token").read_text().strip()
    assert done.stdout.strip() == f"http://127.0.0.1:5156/{token} http://127.0.0.1:9000 eu-west-1 mine {path}"
    defaults = path.read_text()
    assert "DefaultS3Bucket: sagemaker-eu-west-1-000000000000" in defaults
    assert "TelemetryOptOut: true" in defaults


def test_with_keys_clients_read_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = serve("--env", "--keys", "keys.ini", "--bucket", "mine").splitlines()
    assert f"export AWS_SHARED_CREDENTIALS_FILE={tmp_path / 'keys.ini'}" in lines
    assert not [line for line in lines if "AWS_ACCESS_KEY_ID" in line]
    assert "DefaultS3Bucket: mine" in (tmp_path / "leadline-serve" / "sagemaker.yaml").read_text()
