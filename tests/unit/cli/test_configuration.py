"""What file, run and options come to together, and that a run's configuration gives the same run again."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leadline.cli.run_setup import RunOptions, prepare
from leadline.reader.find_runs import read_manifest
from leadline.records.manifest import ActionSpec, Manifest
from leadline.store.documents import read_document, write_document

MINE = "from leadline.rules import Clear, Needs, Rule\n\nclass Mine(Rule):\n    limit: float = 1\n\n"
MINE += "    def needs(self):\n        return Needs.of('losses', 'value')\n\n    def evaluate(self, window):\n"
MINE += "        return Clear()\n"
DEED = "from leadline.actions import Action, Outcome\n\nclass Deed(Action, frozen=True, kw_only=True):\n"
DEED += "    target = 'words'\n    words: str\n\n    def run(self, occasion):\n        return Outcome(self.words)\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEADLINE_ROOT", raising=False)
    monkeypatch.setenv("WORDS", "a-secret-of-the-test")
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "deed.py").write_text(DEED)
    return tmp_path


def made(**wishes: Any) -> Manifest:
    """The manifest of a run that such options make."""
    return read_manifest(prepare(RunOptions(**wishes), ["python", "train.py"]))


def sense(manifest: Manifest) -> Manifest:
    """A manifest without what differs between any two runs, and without whether a file or an option said it."""
    return replace(
        manifest,
        name="",
        uri="",
        started_ns=0,
        folder="",
        plan=replace(manifest.plan, disk_bytes=0, host_bytes=0, items=tuple(sorted(manifest.plan.items, key=str))),
        rules=tuple(replace(each, folder="", source="") for each in manifest.rules),
        actions=tuple(replace(each, source="", folder="") for each in manifest.actions),
    )


def absolute(manifest: Manifest, folder: Path) -> Manifest:
    """The same with the whole paths of files."""

    def whole(name: str) -> str:
        return re.sub(r"^(mine|deed)\.py:", rf"{folder}/\1.py:", name)

    rules = [replace(each, rule=whole(each.rule)) for each in manifest.rules]
    actions = [replace(each, action=whole(each.action)) for each in manifest.actions]
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
stall_mail = ["deed.py:Deed:@team,cooldown=60", {action = "deed.py:Deed", words = "again", episodes = "once"}]
"job@Failed" = "deed.py:Deed:@team"
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


def test_what_a_preset_of_ones_own_says_goes_first_and_options_before_it(folder: Path) -> None:
    (folder / "leadline.toml").write_text(FILE)
    manifest = made(name="a")
    assert (manifest.preset, manifest.interval_ms, manifest.plan.budget) == ("careful", 200, 0.01)
    assert {each.alias: each.parameters for each in manifest.rules}["stall_mail"] == {"threshold": 90.0}
    every = {item.collection: item.schedule.every for item in manifest.plan.items if item.source == "option"}
    assert every == {"gradients": 7, "weights": 3}
    assert {item.schedule.every for item in manifest.plan.items if item.source == "preset" and item.family is None} == {
        1,
        100,
    }
    other = made(name="b", interval_ms=500, budget="off", rules=("stall_mail=stalled_training:threshold=5",))
    assert (other.interval_ms, other.plan.budget) == (500, None)
    assert {each.alias: each.parameters for each in other.rules}["stall_mail"] == {"threshold": 5.0}
    plain = made(name="c", preset="standard")
    assert (plain.preset, plain.interval_ms) == ("standard", 1000)
    assert {each.alias: each.parameters for each in plain.rules}["stall_mail"] == {"threshold": 60.0}


def test_actions_of_the_file_in_words_and_tables(folder: Path) -> None:
    (folder / "leadline.toml").write_text(FILE)
    where = str(folder)
    assert made().actions == (
        ActionSpec(
            "stall_mail",
            "deed.py:Deed",
            ("IssuesFound",),
            {"words": "$WORDS", "cooldown": 60.0},
            "deed.py:Deed:@team,cooldown=60",
            where,
            "config",
        ),
        ActionSpec(
            "stall_mail",
            "deed.py:Deed",
            ("IssuesFound",),
            {"words": "again", "episodes": "once"},
            "deed.py:Deed:again,episodes=once",
            where,
            "config",
        ),
        ActionSpec("job", "deed.py:Deed", ("Failed",), {"words": "$WORDS"}, "deed.py:Deed:@team", where, "config"),
    )


def test_a_runs_configuration_gives_the_same_run_from_another_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "leadline.toml").write_text(FILE)
    first = made(
        name="first",
        capture=("gradients:every=5,statistics=l2,max", "losses:every=2"),
        without=("no_learning",),
        rules=("over=overfit:patience=3", "too=mine.py:Mine:limit=5"),
        on=("over=stop_training:grace=3", "*=stop_training"),
    )
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    again = made(name="again", config=first.uri)
    assert sense(again) == absolute(sense(replace(first, settings=again.settings)), folder)
    assert again.settings == first.settings
    third = made(name="third", config="again", preset="standard", interval_ms=5000)
    assert (third.preset, third.interval_ms) == ("standard", 5000)
    assert sense(third).actions == sense(again).actions


def test_a_run_without_a_file_is_repeated_as_well_as_one_without_default_rules(folder: Path) -> None:
    first = made(name="first", no_default_rules=True, rules=("overfit",), preset="sagemaker")
    again = made(name="again", config="first")
    assert sense(again) == sense(first)
    assert [each.alias for each in again.rules] == ["overfit"]


def test_what_is_stored_has_names_of_variables_only(folder: Path) -> None:
    (folder / "leadline.toml").write_text(FILE)
    run = Path(prepare(RunOptions(on=("*=deed.py:Deed:$WORDS",)), ["python", "train.py"]))
    held = b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())
    assert b"$WORDS" in held
    assert b"a-secret-of-the-test" not in held


def test_an_older_manifest_is_read(folder: Path) -> None:
    path = prepare(RunOptions(on=("*=stop_training:grace=5",)), ["python", "train.py"])
    document = read_document(f"{path}/manifest.json")
    assert isinstance(document, dict)
    del document["settings"]
    document["actions"] = [
        {"rule": "*", "action": "stop_training", "status": "IssuesFound", "parameters": {"grace": 5}}
    ]
    write_document(f"{path}/manifest.json", document)
    assert read_manifest(path).settings is None
    assert read_manifest(path).actions == (ActionSpec("*", "stop_training", ("IssuesFound",), {"grace": 5}),)


def test_two_thresholds_of_one_rule_live_side_by_side_and_only_what_is_acted_on_is_looked_at_oftener(
    folder: Path,
) -> None:
    manifest = made(
        rules=("mail=vanishing_gradient:threshold=1e-6", "stop=vanishing_gradient:threshold=1e-8"),
        on=("stop=stop_training", "*@*=deed.py:Deed:all"),
        no_default_rules=True,
    )
    assert [(each.alias, each.rule, each.parameters) for each in manifest.rules] == [
        ("mail", "vanishing_gradient", {"threshold": 1e-6}),
        ("stop", "vanishing_gradient", {"threshold": 1e-8}),
    ]
    every = {item.source: item.schedule.every for item in manifest.plan.items if item.source.startswith("rule:")}
    assert every == {"rule:mail": 50, "rule:stop": 1}


def test_what_is_asked_twice_is_done_once(folder: Path) -> None:
    (folder / "leadline.toml").write_text('[on]\n"*" = "stop_training:grace=5"\n')
    given = made(on=("*=stop_training:grace=5", "*=StopTraining:grace=5.0", "*=stop_training:grace=6")).actions
    assert [each.parameters["grace"] for each in given] == [5.0, 6.0]


@pytest.mark.parametrize(
    ("on", "statuses"),
    [
        ("*=stop_training", ("IssuesFound",)),
        ("*@Error=stop_training", ("Error",)),
        ("*@*=stop_training", ("*",)),
        ("job=deed.py:Deed:x", ("Completed", "Failed", "Interrupted", "Stopped")),
        ("*=tracker", ("*",)),
    ],
)
def test_statuses(folder: Path, on: str, statuses: tuple[str, ...]) -> None:
    assert made(on=(on,)).actions[0].statuses == statuses
