"""Completion of commands, runs, rules and tensors by a shell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from leadline.cli import main
from leadline.testing.runs import START_NS, Capture, RunWriter


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("leadline ru", ["run", "rules"]),
        ("leadline show ", ["new-run", "old"]),
        ("leadline rm o", ["old"]),
        ("leadline rules vanish", ["vanishing_gradient"]),
        ("leadline rules Vanish", ["VanishingGradient"]),
        ("leadline run --preset s", ["standard", "sagemaker"]),
        ("leadline tensors --collection gradient_", ["gradient_norms"]),
        ("leadline values n", ["new-loss", "new-run"]),
        ("leadline values old ", ["old-loss"]),
        ("leadline values nowhere ", []),
        ("leadline export --to p", ["perfetto", "parquet"]),
        ("leadline compare --j", ["--json"]),
    ],
)
def test_a_shell_completes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str, expected: list[str]
) -> None:
    for age, name in enumerate(("new-run", "old")):
        loss = f"{name.partition('-')[0]}-loss"
        RunWriter(tmp_path / name, started_ns=START_NS - age).write_all([Capture(0, {loss: {"value": 1.0}})]).end()
    monkeypatch.setenv("LEADLINE_ROOT", str(tmp_path))
    monkeypatch.setenv("_LEADLINE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    monkeypatch.setattr(sys, "argv", ["leadline"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.split() == expected
