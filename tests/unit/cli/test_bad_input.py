"""Invalid options, files and names are reported in one line with status 2, before anything is created."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from leadline.cli import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEADLINE_ROOT", raising=False)
    (tmp_path / "train.py").write_text("print('trained')\n")
    (tmp_path / "imports.py").write_text("import no_such_module\n")
    (tmp_path / "broken.py").write_text("class Rule(:\n")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "typed.toml").write_text('interval_ms = "fast"\n')
    (tmp_path / "unknown.toml").write_text("intervalms = 500\n")
    (tmp_path / "torn.toml").write_text("preset =\n")
    (tmp_path / "rule.toml").write_text('[rules.vanishing_gradient]\nthreshold = "small"\n')
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "run").mkdir()
    return tmp_path


def refused(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The error message of an invalid command line."""
    sys.argv[1:] = list(arguments)
    with pytest.raises(SystemExit) as left:
        main()
    captured = capfd.readouterr()
    assert left.value.code == 2
    assert captured.out == ""
    assert captured.err.startswith("leadline: ")
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rule", "vanishing_gradeint"), "no rule named 'vanishing_gradeint'; did you mean 'vanishing_gradient'?"),
        (("--rule", "vanishing_gradient:treshold=1"), "did you mean 'threshold'?"),
        (("--rule", "vanishing_gradient:threshold=small"), "threshold must be a number > 0, not 'small'"),
        (("--rule", "vanishing_gradient:threshold=-1"), "threshold must be a number > 0"),
        (("--rule", "imports.py:Foo"), "imports.py:1: ModuleNotFoundError: No module named 'no_such_module'"),
        (("--rule", "broken.py:Foo"), "broken.py:1: SyntaxError"),
        (("--rule", "empty.py:Foo"), "no rule named 'Foo'"),
        (("--rule", "nowhere.py:Foo"), "no such rule file"),
        (("--rule", "a=exploding_tensor", "--on", "b=stop_training"), "no rule of this run named 'b'"),
        (("--no-rule", "vanishing_gradient"), "no rule of this run named 'vanishing_gradient'"),
        (("--preset", "standrad"), "no preset named 'standrad'; did you mean 'standard'?"),
        (("--prest", "light"), "no option named '--prest'; did you mean --preset?"),
        (("--on", "exploding_tensor=stop_trainin"), "no action named 'stop_trainin'; did you mean 'stop_training'?"),
        (("--on", "exploding_tensor@Fired=stop_training"), "no rule status named 'Fired'"),
        (("--on", "exploding_tensor=stop_training:grace=soon"), "grace must be"),
        (("--capture", "gradient"), "no collection named 'gradient'; did you mean 'gradients'?"),
        (("--capture", "gradients:evry=3"), "did you mean 'every'?"),
        (("--interval-ms", "fast"), "--interval-ms"),
        (("--interval-ms", "70"), "leadline: --interval-ms must be one of 100, 200, 500"),
        (("--config", "typed.toml"), "typed.toml: interval_ms: expected int, got str"),
        (("--config", "unknown.toml"), "unknown.toml: no key named 'intervalms'; did you mean 'interval_ms'?"),
        (("--config", "torn.toml"), "torn.toml is not valid TOML"),
        (("--config", "rule.toml"), "threshold must be a number > 0, not 'small'"),
        (("--config", "nowhere.toml"), "cannot read the configuration nowhere.toml: No such file"),
        (("--out", "taken", "--name", "run"), "a run already exists at"),
        (("--name", "a/b"), "a run name may contain only letters"),
        (("--out", "/proc/nowhere"), "the run cannot be written at /proc/nowhere"),
    ],
)
def test_run_refuses(folder: Path, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    assert message in refused(capfd, "run", *arguments, "train.py")
    assert not (folder / "leadline-runs").exists() or list((folder / "leadline-runs").iterdir()) == []


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("-m", "birdcall.train"), "no module named 'birdcall' in this folder or in "),
        (("trian.py",), "no such script: 'trian.py'; did you mean 'train.py'?"),
        (("nowhere/train.py",), "there is no folder 'nowhere'"),
        (("no-such-program", "-v"), "command not found: 'no-such-program'"),
        (("train",), "command not found: 'train'; for the Python script: leadline run train.py"),
        (("./empty.toml",), "command not found: './empty.toml'"),
        ((), "no command given"),
    ],
)
def test_run_refuses_commands_that_cannot_be_launched(
    folder: Path, capfd: pytest.CaptureFixture[str], command: tuple[str, ...], message: str
) -> None:
    assert message in refused(capfd, "run", *command)
    assert not (folder / "leadline-runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show",), "leadline run"),
        (("show", "nowhere"), "no run named 'nowhere'"),
        (("stop",), "leadline run"),
        (("judge", "--rule", "explodin_tensor"), "no run"),
        (("rules", "vanishing"), "did you mean 'vanishing_gradient'?"),
        (("shwo",), "no such command 'shwo'"),
    ],
)
def test_other_commands_refuse(
    folder: Path, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused(capfd, *arguments)


def test_a_damaged_run_is_one_line(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = folder / "leadline-runs" / "torn"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text('{"name": "to')
    assert "torn" in refused(capfd, "show", "torn")


def test_secrets_of_the_command_are_masked() -> None:
    from leadline.config.secrets import scrub_command

    command = ["train.py", "--api-key", "s3cret", "--wandb-token=s3cret", "--lr", "0.1", "PASSWORD=s3cret"]
    command += ["https://user:s3cret@host/x", "--tokens", "512", "--secret", "--verbose"]
    kept = scrub_command(command)
    assert "s3cret" not in " ".join(kept)
    assert kept[:2] == ("train.py", "--api-key")
    assert "0.1" in kept
    assert "--verbose" in kept
