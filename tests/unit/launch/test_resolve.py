"""Configuration file, options and stored configurations, resolved into manifests."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leadline.config.restriction import trust_file
from leadline.config.run_config import RunConfig
from leadline.errors import ConfigurationError
from leadline.launch.prepare import prepare
from leadline.reader.find_runs import read_manifest
from leadline.records.manifest import ActionSpec, Manifest
from leadline.store.documents import read_document, write_document

MINE = "from leadline.rules import Clear, Needs, Rule\n\nclass Mine(Rule):\n    limit: float = 1\n\n"
MINE += "    def needs(self):\n        return Needs.of('losses', 'value')\n\n    def evaluate(self, window):\n"
MINE += "        return Clear()\n"
ACTION = "from leadline.actions import Action, Outcome\n\nclass Custom(Action, frozen=True, kw_only=True):\n"
ACTION += "    target = 'words'\n    words: str\n\n    def run(self, context):\n        return Outcome(self.words)\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEADLINE_ROOT", raising=False)
    monkeypatch.setenv("WORDS", "a-secret-of-the-test")
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "custom.py").write_text(ACTION)
    return tmp_path


def test_a_url_is_no_runs_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="ftp://bucket/runs: unknown scheme 'ftp'"):
        made(out="ftp://bucket/runs")
    monkeypatch.setenv("LEADLINE_ROOT", "http://bucket")
    with pytest.raises(ConfigurationError, match="http://bucket: unknown scheme"):
        made()
    assert list(folder.glob("*:*")) == []


@pytest.mark.parametrize(
    ("script", "stem"), [("<b>x.py", "b-x"), ("-v.py", "v"), (".hidden.py", "hidden"), ("--.py", "run")]
)
def test_a_run_named_after_its_script_begins_with_a_letter_or_digit(folder: Path, script: str, stem: str) -> None:
    path = prepare(RunConfig(), ["python", script])
    assert re.fullmatch(rf"{stem}-\d{{4}}-\d{{4}}", Path(path).name)


@pytest.mark.parametrize(
    ("command", "stem"),
    [
        (("python", "-m", "birdcall.train", "--lr", "1"), "birdcall.train"),
        (("python", "-m", "torch.distributed.run", "--nproc", "2", "-m", "birdcall.train"), "birdcall.train"),
        (("torchrun", "-m", "birdcall.train", "-m", "tiny"), "birdcall.train"),
        (("python", "-m", "torch.distributed.run", "train.py"), "train"),
        (("bash", "-c", "true"), "bash"),
    ],
)
def test_a_run_of_a_module_is_named_after_it(folder: Path, command: tuple[str, ...], stem: str) -> None:
    path = prepare(RunConfig(), command)
    assert re.fullmatch(rf"{stem}-\d{{4}}-\d{{4}}", Path(path).name)


def made(**options: Any) -> Manifest:
    """The manifest of a run with these options."""
    return read_manifest(prepare(RunConfig.from_options(**options), ["python", "train.py"]))


def comparable(manifest: Manifest) -> Manifest:
    """A manifest without the fields that differ between runs, and without the sources of rules and actions."""
    return replace(
        manifest,
        name="",
        uri="",
        started_ns=0,
        folder="",
        plan=replace(manifest.plan, disk_bytes=0, host_bytes=0, items=tuple(sorted(manifest.plan.items, key=str))),
        rules=tuple(replace(spec, folder="", source="") for spec in manifest.rules),
        actions=tuple(replace(spec, source="", folder="") for spec in manifest.actions),
    )


def absolute(manifest: Manifest, folder: Path) -> Manifest:
    """The manifest with absolute paths of rule and action files."""

    def absolute_path(name: str) -> str:
        return re.sub(r"^(mine|custom)\.py:", rf"{folder}/\1.py:", name)

    rules = [replace(spec, rule=absolute_path(spec.rule)) for spec in manifest.rules]
    actions = [replace(spec, action=absolute_path(spec.action)) for spec in manifest.actions]
    return replace(manifest, rules=tuple(rules), actions=tuple(actions))


FILE = """
preset = "careful"
interval_ms = 1000
no_rules = ["loss_spike"]
[capture.gradients]
every = 7
[rules.stall_mail]
rule = "stalled_training"
threshold = 60
[rules.mine]
rule = "mine.py:Mine"
limit = 2
[on]
stall_mail = ["custom.py:Custom:@team,cooldown=60", {action = "custom.py:Custom", words = "again", episodes = "once"}]
"job@Failed" = "custom.py:Custom:@team"
[targets]
team = "$WORDS"
[presets.careful]
base = "light"
budget = "1%"
interval_ms = 200
[presets.careful.capture.weights]
every = 3
[presets.careful.rules.stall_mail]
rule = "stalled_training"
threshold = 90
"""


def test_custom_presets_override_the_file_and_options_override_both(folder: Path) -> None:
    (folder / "leadline.toml").write_text(FILE)
    manifest = made(name="a")
    assert (manifest.preset, manifest.interval_ms, manifest.plan.budget) == ("careful", 200, 0.01)
    assert {spec.alias: spec.parameters for spec in manifest.rules}["stall_mail"] == {"threshold": 90.0}
    every = {item.collection: item.schedule.every for item in manifest.plan.items if item.source == "option"}
    assert every == {"gradients": 7, "weights": 3}
    assert {item.schedule.every for item in manifest.plan.items if item.source == "preset" and item.family is None} == {
        1,
        100,
    }
    other = made(name="b", interval_ms=500, budget="off", rules=("stall_mail=stalled_training:threshold=5",))
    assert (other.interval_ms, other.plan.budget) == (500, None)
    assert {spec.alias: spec.parameters for spec in other.rules}["stall_mail"] == {"threshold": 5.0}
    plain = made(name="c", preset="standard")
    assert (plain.preset, plain.interval_ms) == ("standard", 1000)
    assert {spec.alias: spec.parameters for spec in plain.rules}["stall_mail"] == {"threshold": 60.0}


def test_actions_of_the_file_as_texts_and_tables(folder: Path) -> None:
    (folder / "leadline.toml").write_text(FILE)
    where = str(folder)
    trust_file("leadline.toml")
    assert made().actions == (
        ActionSpec(
            "stall_mail",
            "custom.py:Custom",
            ("IssuesFound",),
            {"words": "$WORDS", "cooldown": 60.0},
            "custom.py:Custom:@team,cooldown=60",
            where,
            "config",
        ),
        ActionSpec(
            "stall_mail",
            "custom.py:Custom",
            ("IssuesFound",),
            {"words": "again", "episodes": "once"},
            "custom.py:Custom:again,episodes=once",
            where,
            "config",
        ),
        ActionSpec(
            "job", "custom.py:Custom", ("Failed",), {"words": "$WORDS"}, "custom.py:Custom:@team", where, "config"
        ),
    )


def test_the_configuration_of_a_run_can_be_reused_in_another_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "leadline.toml").write_text(FILE)
    first = made(
        name="first",
        capture=("gradients:every=5,statistics=l2,max", "losses:every=2"),
        no_rules=("no_learning",),
        rules=("over=overfit:patience=3", "too=mine.py:Mine:limit=5"),
        on=("over=stop_training:grace=3", "*=stop_training"),
    )
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    again = made(name="again", config=first.uri)
    assert comparable(again) == absolute(comparable(replace(first, settings=again.settings)), folder)
    assert again.settings == first.settings
    third = made(name="third", config="again", preset="standard", interval_ms=5000)
    assert (third.preset, third.interval_ms) == ("standard", 5000)
    assert comparable(third).actions == comparable(again).actions


def test_the_configuration_of_a_run_without_file_can_be_reused(folder: Path) -> None:
    first = made(name="first", default_rules=False, rules=("overfit",), preset="sagemaker")
    again = made(name="again", config="first")
    assert comparable(again) == comparable(first)
    assert [spec.alias for spec in again.rules] == ["overfit"]


def test_only_names_of_variables_are_stored(folder: Path) -> None:
    (folder / "leadline.toml").write_text(FILE)
    run = Path(prepare(RunConfig.from_options(on=("*=custom.py:Custom:$WORDS",)), ["python", "train.py"]))
    held = b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())
    assert b"$WORDS" in held
    assert b"a-secret-of-the-test" not in held


def test_an_older_manifest_is_read(folder: Path) -> None:
    path = prepare(RunConfig.from_options(on=("*=stop_training:grace=5",)), ["python", "train.py"])
    document = read_document(f"{path}/manifest.json")
    assert isinstance(document, dict)
    del document["settings"]
    document["actions"] = [
        {"rule": "*", "action": "stop_training", "status": "IssuesFound", "parameters": {"grace": 5}}
    ]
    write_document(f"{path}/manifest.json", document)
    assert read_manifest(path).settings is None
    assert read_manifest(path).actions == (ActionSpec("*", "stop_training", ("IssuesFound",), {"grace": 5}),)


def test_two_aliases_of_a_rule_of_which_only_the_one_with_an_action_is_captured_more_often(
    folder: Path,
) -> None:
    manifest = made(
        rules=("mail=gradient_clipping:window=20", "stop=gradient_clipping:window=30"),
        on=("stop=stop_training", "*@*=custom.py:Custom:all"),
        default_rules=False,
    )
    assert [(spec.alias, spec.rule, spec.parameters) for spec in manifest.rules] == [
        ("mail", "gradient_clipping", {"window": 20}),
        ("stop", "gradient_clipping", {"window": 30}),
    ]
    norms = [item for item in manifest.plan.items if item.collection == "gradient_norms"]
    every = {(item.source, item.schedule.every) for item in norms if item.source.startswith("rule:")}
    assert every == {("rule:mail", 10), ("rule:stop", 10), ("rule:stop", 1)}


def test_an_alias_with_amazons_name_of_the_rule_is_not_a_second_rule(folder: Path) -> None:
    manifest = made(
        rules=("ExplodingTensor=exploding_tensor",), on=("ExplodingTensor=stop_training",), default_rules=False
    )
    assert [spec.alias for spec in manifest.rules] == ["ExplodingTensor"]
    assert manifest.actions[0].rule == "ExplodingTensor"


def test_identical_actions_run_once(folder: Path) -> None:
    (folder / "leadline.toml").write_text('[on]\n"*" = "stop_training:grace=5"\n')
    given = made(on=("*=stop_training:grace=5", "*=StopTraining:grace=5.0", "*=stop_training:grace=6")).actions
    assert [spec.parameters["grace"] for spec in given] == [5.0, 6.0]


@pytest.mark.parametrize(
    ("on", "statuses"),
    [
        ("*=stop_training", ("IssuesFound",)),
        ("*@Error=stop_training", ("Error",)),
        ("*@*=stop_training", ("*",)),
        ("job=custom.py:Custom:x", ("Completed", "Failed", "Interrupted", "Stopped")),
        ("*=tracker", ("*",)),
    ],
)
def test_statuses(folder: Path, on: str, statuses: tuple[str, ...]) -> None:
    assert made(on=(on,)).actions[0].statuses == statuses
