"""The document of ``leadline run --config -``: what survives it, what it refuses, and the run that it describes."""

from __future__ import annotations

import io
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.cli import run as command
from leadline.config.capture import parse_capture
from leadline.config.launch_document import LaunchDocument
from leadline.config.options import ActionEntry, parse_rule
from leadline.config.run_config import RunConfig
from leadline.errors import ConfigurationError, RunExistsError
from leadline.launch import prepare
from leadline.launch.document import read_document
from leadline.launch.resolve import resolve
from leadline.reader.find_runs import read_manifest
from leadline.records.manifest import Manifest, RuleSpec

ANY_TEXT = st.text(st.one_of(st.characters(), st.sampled_from("\ud800\udcff\n\x1b\"'\\{}")), max_size=8)
PATH = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), ANY_TEXT),
    lambda values: st.one_of(st.lists(values, max_size=3), st.dictionaries(ANY_TEXT, values, max_size=3)),
    max_leaves=6,
)
PARAMETERS = st.dictionaries(ANY_TEXT, JSON, max_size=3)
CAPTURES = st.sampled_from(
    [
        parse_capture(text)
        for text in (
            "gradients",
            "weights:every_seconds=0.1,statistics=l2,max",
            "heads:modules=^head{1,2},raw=true,steps=0,5",
            'losses:{"modes": ["train", "eval"], "regex": "ä\\"b"}',
        )
    ]
)
ACTIONS = st.builds(
    ActionEntry,
    rule=ANY_TEXT.filter(lambda text: text not in ("", "job") and "@" not in text),
    status=st.sampled_from(["", "*", "IssuesFound"]),
    action=ANY_TEXT.filter(bool),
    arguments=st.one_of(st.none(), ANY_TEXT, PARAMETERS),
    folder=ANY_TEXT,
    where=ANY_TEXT,
)


def configurations(presets: st.SearchStrategy[dict[str, RunConfig]]) -> st.SearchStrategy[RunConfig]:
    texts = ("name", "spool_max", "max_disk", "preset", "budget")
    return st.builds(
        RunConfig,
        **{name: st.one_of(st.none(), ANY_TEXT) for name in texts},
        **{name: st.one_of(st.none(), PATH) for name in ("at", "config", "out")},
        report=st.one_of(st.none(), st.booleans()),
        interval_ms=st.one_of(st.none(), st.integers()),
        default_rules=st.one_of(st.none(), st.booleans()),
        no_rules=st.lists(ANY_TEXT, max_size=2).map(tuple),
        capture=st.lists(CAPTURES, max_size=2).map(tuple),
        rules=st.lists(st.builds(RuleSpec, ANY_TEXT, ANY_TEXT, PARAMETERS, ANY_TEXT, ANY_TEXT), max_size=2).map(tuple),
        on=st.lists(ACTIONS, max_size=2).map(tuple),
        profile=st.lists(ANY_TEXT, max_size=2).map(tuple),
        targets=st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=2),
        presets=presets,
        source=ANY_TEXT,
        trusts_run=st.booleans(),
        left_out=st.lists(ANY_TEXT, max_size=2).map(tuple),
    )


CONFIGURATIONS = configurations(st.dictionaries(ANY_TEXT, configurations(st.just({})), max_size=1))


def read(data: bytes) -> LaunchDocument:
    return read_document(data, "here")


@given(CONFIGURATIONS, st.lists(ANY_TEXT, max_size=3))
@settings(max_examples=200, deadline=None)
def test_any_configuration_survives(config: RunConfig, words: list[str]) -> None:
    document = LaunchDocument(config=config, command=tuple(words))
    assert repr(read(document.encode())) == repr(document)  # also equal where NaN is not


def refusal(data: bytes) -> str:
    with pytest.raises(ConfigurationError) as refused:
        read(data)
    return str(refused.value)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"config": {}}, "reads documents with version = 1"),
        ({"version": 2, "config": {}}, "reads documents with version = 1"),
        ({"version": True, "config": {}}, "Expected `int`, got `bool`"),
        ({"version": 1}, "give one of the fields config and manifest"),
        ({"version": 1, "config": {}, "colour": 1}, "unknown field colour"),
        ({"version": 1, "config": {"colour\n": 1}}, "unknown field config.colour?"),
        ({"version": 1, "config": {"rules": [{"alias": "", "rule": "a", "x": 1}]}}, "unknown field config.rules.0.x"),
        ({"version": 1, "config": {"presets": {"p": {"x": 1}}}}, "unknown field config.presets.p.x"),
        ({"version": 1, "config": {"interval_ms": "500"}}, "Expected `int | null`, got `str` - at `$.config.interval"),
        ({"version": 1, "config": {"on": [{"rule": "*"}]}}, "missing required field"),
        ({"version": 1, "config": {"on": [{"rule": "*", "status": "x", "action": "a"}]}}, "on: no rule status named"),
        ({"version": 1, "config": {"capture": [{"collection": "weight"}]}}, "capture: no collection named 'weight'"),
        ({"version": 1, "config": {"capture": [{"collection": "all", "schedule": {"every": 0}}]}}, "at least 1, not 0"),
        ({"version": 1, "config": {"at": "a\0"}}, "at is no valid path"),
        ({"version": 1, "config": {"out": "\ud800"}}, "out is no valid path"),
        ({"version": 1, "config": {"\ud800": 1}}, "the name of a field is no valid Unicode"),
        ([], "a JSON object is expected"),
    ],
)
def test_what_is_no_document_of_this_version_is_refused_by_name(document: Any, message: str) -> None:
    error = refusal(json.dumps(document).encode())
    assert error.startswith("here: ")
    assert message in error


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"version": 1, "config": ' + b'{"a":' * 50_000,
        b'{"version": 1, "config": {"interval_ms": ' + b"9" * 5000 + b"}}",
        b'{"version": NaN}',
    ],
)
def test_hostile_bytes_are_one_line(data: bytes) -> None:
    assert len(refusal(data).splitlines()) == 1


@given(st.one_of(st.binary(max_size=40), JSON.map(lambda value: json.dumps({"version": 1, "config": value}).encode())))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_document_or_one_line(data: bytes) -> None:
    message = ""
    try:
        read(data)
    except ConfigurationError as error:
        message = str(error)
    assert len(message.splitlines()) <= 1


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "become_agent", lambda run, arguments: None)
    return tmp_path


def launch(monkeypatch: pytest.MonkeyPatch, document: LaunchDocument, **options: Any) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(document.encode())))
    command.run(["true"], config="-", **options)


def recorded(run: str) -> Manifest:
    """The manifest of a run without what differs between two executions."""
    manifest = read_manifest(run)
    plan = replace(manifest.plan, host_bytes=0, disk_bytes=0)
    return replace(manifest, name="", uri="", command=(), started_ns=0, folder="", versions={}, plan=plan)


def test_a_configuration_on_standard_input_is_that_of_the_same_options(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_options: dict[str, Any] = {
        "preset": "light",
        "capture": ["gradients:every=7"],
        "rule": ["loss_not_decreasing:num_steps=7"],
        "on": ["*=stop_training"],
        "profile": ["detailed:at=2,for=1"],
    }
    command.run(["true"], name="words", **given_options)
    config = RunConfig.from_options(rules=given_options.pop("rule"), **given_options)
    launch(monkeypatch, LaunchDocument(config=replace(config, name="document")))
    assert recorded("leadline-runs/document") == recorded("leadline-runs/words")


def test_options_override_a_configuration_on_standard_input(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig(name="one", preset="light", interval_ms=100, rules=(parse_rule("dead_relu"),))
    launch(monkeypatch, LaunchDocument(config=config), name="other", interval_ms=1000, rule=["vanishing_gradient"])
    manifest = read_manifest("leadline-runs/other")
    assert (manifest.preset, manifest.interval_ms) == ("light", 1000)
    assert {"dead_relu", "vanishing_gradient"} <= {spec.alias for spec in manifest.rules}


def test_a_configuration_on_standard_input_names_the_run_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch(monkeypatch, LaunchDocument(config=RunConfig(at=str(folder / "x" / "run"))))
    assert read_manifest(str(folder / "x" / "run")).command == ("true",)


def resolved(folder: Path) -> Manifest:
    config = RunConfig.from_options(preset="light", rules=["loss_not_decreasing:num_steps=7"], on=["*=stop_training"])
    return resolve(config, str(folder / "runs" / "job"))


def test_a_manifest_on_standard_input_is_not_resolved_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = resolved(folder)
    (folder / "leadline.toml").write_text("no configuration")  # of the training's folder
    monkeypatch.setattr(prepare, "resolve", None)
    limited = replace(manifest, plan=replace(manifest.plan, disk_bytes=1, host_bytes=1))
    launch(monkeypatch, LaunchDocument(manifest=limited))
    run = read_manifest(manifest.uri)
    assert (run.command, run.folder) == (("true",), str(folder))
    assert run.plan.host_bytes > 1
    assert run.plan.disk_bytes is not None
    assert run.plan.disk_bytes > 1  # the machine of the run decides
    assert recorded(manifest.uri) == replace(
        manifest, name="", uri="", plan=replace(manifest.plan, host_bytes=0, disk_bytes=0)
    )


def test_a_shared_manifest_is_joined_and_another_one_is_not(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = resolved(folder)
    launch(monkeypatch, LaunchDocument(manifest=manifest, is_shared=True))
    launch(monkeypatch, LaunchDocument(manifest=manifest, is_shared=True))
    with pytest.raises(RunExistsError):
        launch(monkeypatch, LaunchDocument(manifest=manifest))


@pytest.mark.parametrize("options", [{"preset": "full"}, {"name": "x"}, {"join": "x"}, {"profile": ["cprofile"]}])
def test_a_manifest_is_complete(folder: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="which is complete; leave out the other options"):
        launch(monkeypatch, LaunchDocument(manifest=resolved(folder)), **options)
    assert not (folder / "runs").exists()


def test_a_command_without_leadline_does_not_read_the_document(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_DISABLED", "1")

    def become(program: str, words: list[str]) -> None:
        sys.exit(len(sys.stdin.buffer.read()))

    monkeypatch.setattr(os, "execvp", become)
    with pytest.raises(SystemExit) as ended:
        launch(monkeypatch, LaunchDocument(config=RunConfig(name="x")))
    assert ended.value.code == 0
