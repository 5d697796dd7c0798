"""Rules and actions are the same after every way by which a configuration travels."""

from __future__ import annotations

import json
import shlex
import tomllib
import types
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from leadline.actions import registry as actions
from leadline.actions.action import Action
from leadline.actions.notify import Notify
from leadline.actions.run_command import RunCommand
from leadline.actions.webhook import Webhook
from leadline.config.options import format_spec, format_value
from leadline.config.parameters import parameter_types
from leadline.config.run_config import RunConfig
from leadline.config.secrets import refuse_literal
from leadline.config.toml_file import from_table, to_toml
from leadline.dashboard.pages.configure import from_form
from leadline.errors import ConfigurationError
from leadline.hook import Hook
from leadline.judge.rule_plan import resolve_rule
from leadline.launch.document import read_document
from leadline.launch.prepare import prepare
from leadline.launch.resolve import resolve
from leadline.reader.find_runs import read_manifest
from leadline.records.manifest import Manifest, RuleSpec
from leadline.rules import registry as rules
from leadline.rules.losses.loss_not_decreasing import LossNotDecreasing
from leadline.rules.rule import Rule
from leadline.rules.system.stalled_training import StalledTraining
from leadline.rules.tensors.exploding_tensor import ExplodingTensor
from leadline.store.documents import encode
from leadline.training.session.watch import watch

TEXT = st.text(
    st.one_of(st.sampled_from(",{}[]()\"'`=:;@$%#&\\ \n\t|ä日🙂"), st.characters(codec="utf-8")), max_size=12
)
NOT_NONE = TEXT.filter(lambda text: text.strip().lower() != "none")
"""``none`` is how None is written."""


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a parameter's type, within its bounds."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return st.one_of(*map(values, typing.get_args(kind)))
    bounds: dict[str, Any] = {}
    if typing.get_origin(kind) is typing.Annotated:
        kind, *metadata = typing.get_args(kind)
        bounds = {name: limit for meta in metadata for name in BOUNDS if (limit := getattr(meta, name)) is not None}
    if typing.get_origin(kind) is tuple:
        return st.lists(values(typing.get_args(kind)[0]), max_size=3).map(tuple)
    if typing.get_origin(kind) is typing.Literal:
        return st.sampled_from(typing.get_args(kind))
    low, high = bounds.get("gt", bounds.get("ge")), bounds.get("lt", bounds.get("le"))
    if kind is int:
        return st.integers(low, high)
    if kind is float:
        return st.floats(low, high, exclude_min="gt" in bounds, exclude_max="lt" in bounds, allow_nan=False)
    return {bool: st.booleans(), str: NOT_NONE, type(None): st.none()}[kind]


BOUNDS = ("gt", "ge", "lt", "le")


@st.composite
def instances(draw: st.DrawFn, classes: list[type[Any]]) -> Any:
    """Instances with valid parameters."""
    kind = draw(st.sampled_from(classes))
    fields = parameter_types(kind)
    required = {field.name for field in msgspec.structs.fields(kind) if field.required}
    names = required | draw(st.sets(st.sampled_from(sorted(fields)), max_size=3) if fields else st.just(set()))
    try:
        instance = kind(**{name: draw(values(fields[name])) for name in sorted(names)})
        if isinstance(instance, Rule):
            assume(instance.needs().tensors or instance.needs().scan_seconds is not None)
    except ConfigurationError:
        assume(False)
    return instance


RULES = instances([rules.find_rule(name) for name in sorted(rules.BUILT_IN)])
ACTIONS = instances([actions.find_action(name) for name in sorted(actions.BUILT_IN)])


def watched(**options: Any) -> RunConfig:
    """The configuration that ``leadline attach`` receives from ``watch``."""
    process = mock.Mock(communicate=mock.Mock(return_value=(b'{"run": "/nowhere"}\n', None)))
    with mock.patch("subprocess.Popen", return_value=process), mock.patch("leadline.training.session.api.start"):
        watch(**options)
    (sent,) = process.communicate.call_args.args
    config = read_document(sent, "standard input").config
    assert config is not None
    return config


def reused(config: RunConfig) -> RunConfig:
    """The configuration that ``--config RUN`` reads from the manifest of a run."""
    stored = json.loads(encode(manifest_of(config).settings))
    return from_table(stored, "the run")


def from_file(config: RunConfig) -> RunConfig:
    return from_table(tomllib.loads(to_toml(config)), "leadline.toml")


def from_command_line(config: RunConfig) -> RunConfig:
    words = shlex.split(shlex.join(config.to_options()))
    given: dict[str, list[str]] = {"--rule": [], "--on": []}
    assert words.pop() == "--no-default-rules"
    for option, text in zip(words[::2], words[1::2], strict=True):
        given[option].append(text)
    return RunConfig.from_options(rules=given["--rule"], on=given["--on"], default_rules=False)


def manifest_of(config: RunConfig) -> Manifest:
    with mock.patch("leadline.launch.resolve.check_runs"):  # the runs to compare with do not exist
        return resolve(config, "/nowhere/run")


def rule_of(config: RunConfig, kind: type[Rule]) -> Rule:
    (spec,) = [spec for spec in manifest_of(config).rules if rules.find_rule(spec.rule) is kind]
    return resolve_rule(RuleSpec(**json.loads(encode(asdict(spec)))))


def action_of(config: RunConfig) -> Action:
    (spec,) = manifest_of(config).actions
    return actions.make_action(spec.action, json.loads(encode(spec.parameters)))


WAYS: dict[str, Callable[[RunConfig], RunConfig]] = {
    "file": from_file,
    "run": reused,
    "command line": from_command_line,
    "run of a file": lambda config: reused(from_file(config)),
}


@given(RULES)
@settings(max_examples=100, deadline=None)
@example(ExplodingTensor(tensor_regex=("conv{1,2}",)))
@example(LossNotDecreasing(use_losses_collection=False, tensor_regex=("a=b,c=d", " ", 'e"f', "none"), mode="eval"))
@example(StalledTraining(threshold=float("inf"), training_job_name_prefix=""))
def test_a_rule_arrives_unchanged(rule: Rule) -> None:
    assert rule_of(watched(rules=[rule]), type(rule)) == rule
    config = RunConfig.from_options(rules=[rule], default_rules=False)
    for name, way in WAYS.items():
        assert rule_of(way(config), type(rule)) == rule, name


@given(RULES)
@settings(max_examples=100, deadline=None)
@example(ExplodingTensor(tensor_regex=("conv{1,2}",)))
def test_a_rule_arrives_unchanged_through_the_form(rule: Rule) -> None:
    (spec,) = RunConfig.from_options(rules=[rule]).rules
    assume("" not in spec.parameters.values())  # a blank field is the default
    form = {"rules": "yes", f"r.{spec.rule}": "yes"}
    form |= {f"p.{spec.rule}.{name}": format_value(value) for name, value in spec.parameters.items()}
    assert rule_of(from_form(form), type(rule)) == rule


@given(ACTIONS)
@settings(max_examples=100, deadline=None)
@example(Webhook(url="https://h/x?a=b,cooldown=d", authorization="Bearer $TOKEN", probe=False, retries=0))
@example(Notify(url=" \r"))
@example(RunCommand(command="""{ echo "a,dry_run=true"; }"""))
def test_an_action_arrives_unchanged(action: Action) -> None:
    given_parameters = msgspec.structs.asdict(action)
    assume(not str(given_parameters.get(action.target or "", "")).startswith("@"))  # a named target
    try:
        refuse_literal(given_parameters, "it")
    except ConfigurationError:
        assume(False)
    assert action_of(watched(on=[action])) == action
    config = RunConfig.from_options(on={"*": action}, default_rules=False)
    for name, way in WAYS.items():
        assert action_of(way(config)) == action, name
    (entry,) = config.on
    assert isinstance(entry.arguments, dict)
    words = format_spec("it", entry.arguments).removeprefix("it").removeprefix(":")
    assert action_of(from_form({"a0.action": entry.action, "a0.arguments": words})) == action


@contextmanager
def hook(folder: Path, **options: Any) -> Iterator[str]:
    with Hook(out=str(folder), name="hooked", **options) as hooked:
        assert hooked.run is not None
        yield hooked.run


def test_the_captures_of_a_hook_can_be_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    captures = ["gradients:every=7,statistics=l2,max", "heads:modules=^head{1,2},raw=true,steps=0,5"]
    with hook(tmp_path, capture=captures, budget="3%", preset="light") as run:
        items = [item for item in read_manifest(run).plan.items if item.source == "option"]
    assert len(items) == 2
    again = read_manifest(prepare(RunConfig(name="again", config=run), ["train"]))
    assert [item for item in again.plan.items if item.source == "option"] == items
    assert (again.preset, again.plan.budget) == ("light", 0.03)
