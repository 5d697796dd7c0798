"""What a configuration may do that nobody on this machine has named: that of a cloned folder, or of another run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leadline.cli.trust import trust
from leadline.config.run_config import RunConfig
from leadline.launch.prepare import prepare
from leadline.reader.find_runs import read_manifest
from leadline.records.manifest import Manifest

RULE = """
from pathlib import Path
from leadline.rules import Clear, Needs, Rule

Path({mark!r}).touch()

class Mine(Rule):
    def needs(self):
        return Needs.of("losses", "value")

    def evaluate(self, window):
        return Clear()
"""
CLONED = """
out = "s3://somebody/else"
no_rules = ["absolute"]

[rules.inside]
rule = "mine.py:Mine"
[rules.loss_spike]
patience = 7
[rules.parent]
rule = "../outside.py:Mine"
[rules.absolute]
rule = "{folder}/outside.py:Mine"
[rules.linked]
rule = "linked.py:Mine"
[rules.exploding_tensor]
rule = "elsewhere.outside:Mine"

[on]
exploding_tensor = "stop_training"
inside = "stop_training"
parent = "stop_training"
"*" = ["run_command:touch {folder}/commanded", "webhook:https://127.0.0.1:1/,probe=false"]
"job@*" = ["notify:json://127.0.0.1:1/x", "publish_metric:to=prometheus", "../outside.py:Act"]
"""


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that somebody cloned, with files next to it that its configuration names."""
    folder = tmp_path / "clone"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "outside.py").write_text(RULE.format(mark=str(tmp_path / "imported")))
    (folder / "mine.py").write_text(RULE.format(mark=str(tmp_path / "inside")))
    (folder / "linked.py").symlink_to(tmp_path / "outside.py")
    (folder / "elsewhere").symlink_to(tmp_path)
    (folder / "leadline.toml").write_text(CLONED.format(folder=tmp_path))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("LEADLINE_TRUSTED", raising=False)
    return folder


def prepared(**options: object) -> Manifest:
    return read_manifest(prepare(RunConfig.from_options(**options), ["train.py"]))


def test_a_cloned_folder_runs_nothing_and_sends_nothing(clone: Path, capfd: pytest.CaptureFixture[str]) -> None:
    manifest = prepared()
    assert [(spec.rule, spec.action) for spec in manifest.actions] == [("inside", "stop_training")]
    rules = {spec.alias: spec.rule for spec in manifest.rules}
    assert rules["inside"] == "mine.py:Mine"
    assert rules["exploding_tensor"] == "exploding_tensor"
    assert not {"parent", "absolute", "linked"} & set(rules)
    assert Path(manifest.uri).parent == clone / "leadline-runs"
    assert {path.name for path in clone.parent.iterdir()} == {"clone", "outside.py", "inside", "state"}
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"leadline: {clone}/leadline.toml: left out, as it is not trusted: rule parent (../out")
    assert line.endswith("; read it, then: leadline trust")
    for name in ("absolute", "linked", "on * run_command", "on * webhook", "on job@* notify", "out s3://somebody/else"):
        assert name in line


def test_a_harmless_file_needs_no_trust(clone: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (clone / "leadline.toml").write_text('[rules.inside]\nrule = "mine.py:Mine"\n[on]\ninside = "stop_training"\n')
    assert [spec.action for spec in prepared().actions] == ["stop_training"]
    assert capfd.readouterr().err == ""
    trust("leadline.toml")
    assert capfd.readouterr().out == "leadline.toml does nothing that needs trust\n"


def test_a_trusted_file_is_taken_until_it_changes(clone: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = '[rules.parent]\nrule = "../outside.py:Mine"\n[on]\nparent = "run_command:true"\n'
    (clone / "leadline.toml").write_text(text)
    trust("leadline.toml")
    said = capfd.readouterr().out
    assert said == (
        "leadline.toml is trusted until it changes:\n  rule parent (../outside.py:Mine)\n  on parent run_command\n"
    )
    assert [spec.action for spec in prepared().actions] == ["run_command"]
    assert capfd.readouterr().err == ""
    (clone / "leadline.toml").write_text(text.replace("true", "false"))
    assert prepared().actions == ()
    assert "left out" in capfd.readouterr().err


def test_a_file_is_trusted_at_its_place(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (clone / "leadline.toml").write_text('[on]\n"*" = "run_command:true"\n')
    trust("leadline.toml")
    (clone / "sub" / "leadline.toml").write_text((clone / "leadline.toml").read_text())
    monkeypatch.chdir(clone / "sub")
    assert prepared().actions == ()


def test_a_file_that_an_option_names_is_taken(clone: Path) -> None:
    (clone / "leadline.toml").write_text('[on]\n"*" = "run_command:true"\n')
    assert [spec.action for spec in prepared(config="leadline.toml").actions] == ["run_command"]


def test_the_configuration_of_a_run_from_elsewhere_needs_trust(clone: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (clone / "leadline.toml").unlink()
    own = prepared(on=("*=run_command:true",), rules=("mine=../outside.py:Mine",)).uri
    assert [spec.action for spec in prepared(config=own).actions] == ["run_command"]
    (clone.parent / "imported").unlink()
    manifest = Path(own) / "manifest.json"
    document = json.loads(manifest.read_text())
    document["settings"]["on"] = {"*": [{"action": "run_command", "command": "id"}]}
    manifest.write_text(json.dumps(document))
    again = prepared(config=own)
    assert again.actions == ()
    assert "mine" not in {spec.alias for spec in again.rules}
    assert not (clone.parent / "imported").exists()
    assert capfd.readouterr().err.endswith("on * run_command; if you trust that run: --trust-run\n")
    assert [spec.action for spec in prepared(config=own, trusts_run=True).actions] == ["run_command"]
