"""Configure page: its command line and file are accepted by the parsers."""

from __future__ import annotations

import html
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from leadline.config.restriction import trust_file
from leadline.config.run_config import RunConfig
from leadline.config.toml_file import from_table, from_toml, to_toml
from leadline.dashboard.pages.configure import COLLECTIONS, from_form
from leadline.dashboard.rule_forms import rule_choices
from leadline.judge.rule_plan import default_rules
from leadline.launch.prepare import prepare
from leadline.launch.resolve import resolve
from leadline.reader.find_runs import read_manifest
from leadline.records.manifest import ActionSpec, Manifest
from leadline.testing.runs import Capture, RunWriter

FORMS: tuple[Mapping[str, str], ...] = (
    {},
    {"preset": "light", "interval_ms": "100", "budget": "off"},
    {"preset": "sagemaker"},
    {"c.gradients.every": "10", "c.gradients.statistics": "l2,max", "c.weights.raw": "true", "c.weights.every": "200"},
    {"r.vanishing_gradient": "yes", "p.vanishing_gradient.threshold": "1e-9"},
    {
        "a0.rule": "exploding_tensor",
        "a0.action": "stop_training",
        "a1.action": "webhook",
        "a1.arguments": "$HOOK,probe=false",
    },
    {"a0.rule": "job", "a0.status": "Failed", "a0.action": "webhook", "a0.arguments": "$HOOK,probe=false"},
    {"rules": "yes"},
)


def form(**more: str) -> dict[str, str]:
    """Return a form as the page submits it, with the preset's rules selected."""
    preset = more.get("preset", "standard")
    return {**{f"r.{each.rule}": "yes" for each in default_rules(preset)}, **more}


def made(tmp_path: Path, name: str, **wishes: Any) -> Manifest:
    config = RunConfig.from_options(name=name, out=str(tmp_path / "runs"), **wishes)
    return read_manifest(prepare(config, ["python", "train.py"]))


def options(line: str) -> dict[str, Any]:
    """Parse the options of a command line as ``leadline run`` does."""
    words, found = shlex.split(line), dict[str, Any]()
    keys = {"--capture": "capture", "--rule": "rules", "--on": "on", "--no-rule": "no_rules"}
    while words and words[0].startswith("--"):
        word = words.pop(0)
        if word == "--no-default-rules":
            found["default_rules"] = False
        elif word in keys:
            found[keys[word]] = (*found.get(keys[word], ()), words.pop(0))
        else:
            value = words.pop(0)
            found[word[2:].replace("-", "_")] = int(value) if word == "--interval-ms" else value
    return found


@pytest.mark.parametrize("given_form", FORMS)
def test_line_file_and_plan_mean_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_form: Mapping[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOOK", "http://127.0.0.1:9/")
    config = from_form(form(**given_form) if "rules" not in given_form else given_form)
    planned = resolve(config, str(tmp_path / "runs" / "planned"))
    by_line = made(tmp_path, "by-line", **options(shlex.join(config.to_options())))
    (tmp_path / "leadline.toml").write_text(to_toml(config))
    trust_file(str(tmp_path / "leadline.toml"))
    by_file = made(tmp_path, "by-file")
    assert set(by_line.plan.items) == set(by_file.plan.items) == set(planned.plan.items)
    assert by_line.plan.budget == by_file.plan.budget == planned.plan.budget
    assert by_line.interval_ms == by_file.interval_ms == planned.interval_ms
    assert {(each.alias, each.rule, str(each.parameters)) for each in by_line.rules} == {
        (each.alias, each.rule, str(each.parameters)) for each in by_file.rules
    }
    assert [(each.rule, each.action, each.statuses) for each in by_line.actions] == [
        (each.rule, each.action, each.statuses) for each in by_file.actions
    ]


@given(st.text(max_size=40))
def test_field_values_survive_in_the_file(value: str) -> None:
    fields = {"rules": "yes", "r.loss_spike": "yes", "p.loss_spike.regex": value}
    config = from_form({**fields, "a0.action": "run_command", "a0.arguments": value})
    written = from_table(tomllib.loads(to_toml(config)), "it")
    assert [spec.parameters for spec in written.rules] == [spec.parameters for spec in config.rules]
    assert [entry.arguments for entry in written.on if value.strip()] == [value.strip()] * bool(value.strip())


def test_the_command_is_quoted(tmp_path: Path, open_dashboard: Callable[..., TestClient]) -> None:
    RunWriter(str(tmp_path / "first")).write_all([Capture(0, {"loss": {"value": 1.0}})]).end()
    answer = open_dashboard(tmp_path).get("/runs/first/configure", params=form(command="a;b $c")).text
    assert "leadline run &#39;a;b&#39; &#39;$c&#39;" in answer


@pytest.mark.parametrize(
    ("given_form", "said"),
    [
        ({"preset": "ligth"}, "did you mean 'light'"),
        ({"interval_ms": "150"}, "must be one of"),
        ({"interval_ms": "soon"}, "an integer"),
        ({"budget": "lots"}, "budget"),
        ({"c.gradients.every": "0"}, "at least 1"),
        ({"c.gradients.statistics": "l3"}, "l3"),
        ({"c.gradients.every": "5,raw=true"}, "every must be an integer"),
        ({"r.loss_spike": "yes", "p.loss_spike.nothing": "1"}, "nothing"),
        ({"a0.action": "evil.py:Action"}, "no action named"),
        ({"a0.action": "notify"}, "notify:URL"),
        ({"a0.action": "notify", "a0.arguments": "mailto://me:secret@example.org"}, "$"),
        ({"a0.rule": "x=y", "a0.action": "stop_training"}, "not a rule name"),
    ],
)
def test_invalid_fields_show_an_error(
    tmp_path: Path, open_dashboard: Callable[..., TestClient], given_form: dict[str, str], said: str
) -> None:
    RunWriter(str(tmp_path / "first")).write_all([Capture(0, {"loss": {"value": 1.0}})]).end()
    answer = open_dashboard(tmp_path).get("/runs/first/configure", params=form(**given_form))
    assert answer.status_code == 200
    notification = answer.text.partition('class="notice bad"')[2].partition("</p>")[0]
    assert said in notification.replace("&#39;", "'"), notification
    assert "secret@" not in notification


def test_a_form_executes_no_code(tmp_path: Path, open_dashboard: Callable[..., TestClient]) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    RunWriter(str(tmp_path / "first")).write_all([Capture(0, {"loss": {"value": 1.0}})]).end()
    place = f"{tmp_path / 'evil.py'}:Rule"
    asked = {f"r.{place}": "yes", "a0.rule": "*", "a0.action": place, "preset": "standard"}
    assert open_dashboard(tmp_path).get("/runs/first/configure", params=asked).status_code == 200
    assert not (tmp_path / "ran").exists()


def test_every_rule_has_a_form() -> None:
    choices = {each.name: each for each in rule_choices()}
    threshold = next(each for each in choices["vanishing_gradient"].parameters if each.name == "threshold")
    assert (threshold.is_number, threshold.choices, threshold.default) == (True, (), "1e-07")
    assert threshold.about.startswith("Mean absolute value below which")
    assert all(each.about for each in choices.values())
    undocumented = [
        f"{rule.name}.{each.name}" for rule in choices.values() for each in rule.parameters if not each.about
    ]
    assert undocumented == []


def test_the_actions_of_the_run_fill_the_form_in(tmp_path: Path, open_dashboard: Callable[..., TestClient]) -> None:
    actions = (
        ActionSpec("exploding_tensor", "stop_training", display_name="stop_training"),
        ActionSpec("*", "webhook", ("Error",), display_name="webhook:http://127.0.0.1:9/x"),
    )
    writer = RunWriter(str(tmp_path / "first"), actions=actions)
    writer.write_all([Capture(0, {"loss": {"value": 1.0}})]).end()
    text = html.unescape(open_dashboard(tmp_path).get("/runs/first/configure").text)
    assert "--on exploding_tensor=stop_training" in text
    assert "--on '*@Error=webhook:http://127.0.0.1:9/x'" in text


def test_the_run_fills_the_form_in(tmp_path: Path, open_dashboard: Callable[..., TestClient]) -> None:
    writer = RunWriter(str(tmp_path / "first"))
    writer.write_all([Capture(0, {"loss": {"value": 1.0}})]).end()
    text = open_dashboard(tmp_path).get("/runs/first/configure").text
    assert "leadline run" in text
    assert from_toml(None, str(tmp_path)) == RunConfig()


def test_the_estimate_names_only_collections_of_the_form(
    tmp_path: Path, open_dashboard: Callable[..., TestClient]
) -> None:
    RunWriter(tmp_path / "run").write_all([Capture(step, {"loss": {"value": 1.0}}) for step in range(5)]).end()
    page = open_dashboard(tmp_path).get("/runs/run/configure?" + urlencode(form(**{"c.labels.every": "5"}))).text
    (named,) = re.findall(r"captured none: ([^<]*)\.", page)
    assert "labels" in named
    assert set(re.split(r", | and ", named)) <= set(COLLECTIONS)
