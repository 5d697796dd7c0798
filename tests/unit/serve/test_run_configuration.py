"""The debugger's members of CreateTrainingJob as the configuration of a run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from api_caller import CREATE, IMAGE, TARGETS, Caller
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leadline.compat.smdebug.profiler_settings import profile_windows
from leadline.config.launch_document import LaunchDocument
from leadline.errors import ConfigurationError
from leadline.launch.document import read_document
from leadline.records.manifest import Manifest
from leadline.serve.run_configuration import (
    capture_items,
    configured_rules,
    other_actions,
    resolved,
    run_config,
    unselected_collections,
)


def rule(name: str, **parameters: str) -> dict[str, Any]:
    return {"RuleConfigurationName": name, "RuleEvaluatorImage": IMAGE, "RuleParameters": parameters}


def manifest_of(**members: Any) -> Manifest:
    return resolved(members, "/runs/job")


def collection(name: str, **parameters: str) -> dict[str, Any]:
    return {"CollectionName": name, "CollectionParameters": parameters}


def test_rules_keep_their_names_and_parameters() -> None:
    rules = [
        rule("first", rule_to_invoke="VanishingGradient", threshold="1e-5", scan_interval_us="60000000"),
        rule("StepOutlier", rule_to_invoke="StepOutlier", stddev="4", mode="None", n_outliers="10"),
    ]
    manifest = manifest_of(DebugRuleConfigurations=rules[:1], ProfilerRuleConfigurations=rules[1:])
    assert [(spec.alias, spec.rule, spec.parameters) for spec in manifest.rules] == [
        ("first", "vanishing_gradient", {"threshold": 1e-5}),
        ("StepOutlier", "step_outlier", {"stddev": 4.0, "mode": None, "n_outliers": 10}),
    ]


def test_a_rule_that_compares_gets_the_names_of_jobs() -> None:
    given = rule(
        "Similar",
        rule_to_invoke="SimilarAcrossRuns",
        other_trial_1="s3://bucket/x/second/debug-output/",
        other_trial_0="s3://bucket/first/debug-output",
    )
    (configured,) = configured_rules({"DebugRuleConfigurations": [given]})
    assert configured.specification().parameters == {"other_trials": "first,second"}


def test_a_custom_rule_is_no_rule_of_the_run() -> None:
    given = rule("Mine", rule_to_invoke="Custom", source_s3_uri="s3://bucket/rules.py", limit="3", action_json="[]")
    assert run_config({"DebugRuleConfigurations": [given]}).rules == ()
    (configured,) = configured_rules({"DebugRuleConfigurations": [given]})
    assert (configured.source, configured.kind) == ("s3://bucket/rules.py", "Custom")
    assert configured.parameters == {"limit": "3"}


@pytest.mark.parametrize(
    "text",
    [
        '[{\\"name\\": \\"stoptraining\\", \\"training_job_prefix\\": \\"Job\\"}]',
        '{"name": "StopTraining"}',
        '[{"name": "sms", "endpoint": "+1555"}, {"name": "stoptraining"}]',
    ],
)
def test_stop_training_in_all_forms_of_the_sdk(text: str) -> None:
    manifest = manifest_of(DebugRuleConfigurations=[rule("Nan", rule_to_invoke="ExplodingTensor", action_json=text)])
    assert [(action.rule, action.action) for action in manifest.actions] == [("Nan", "stop_training")]


def test_actions_that_the_server_cannot_perform_are_named() -> None:
    actions = '[{"name": "Email", "endpoint": "a&b@c.org"}, {"name": "stoptraining"}, {"name": "sms"}]'
    request = {"DebugRuleConfigurations": [rule("Nan", rule_to_invoke="ExplodingTensor", action_json=actions)]}
    assert [action.action for action in manifest_of(**request).actions] == ["stop_training"]
    assert other_actions(request, TARGETS) == ["Nan: sms"]
    assert other_actions(request, {}) == ["Nan: Email", "Nan: sms"]


@pytest.mark.parametrize("text", ["", "stop", "[1]", '{"endpoint": "x"}', '{"name": 5}'])
def test_actions_that_are_none(text: str) -> None:
    with pytest.raises(ConfigurationError, match="RuleParameters of Nan: action_json"):
        configured_rules({"DebugRuleConfigurations": [rule("Nan", rule_to_invoke="ExplodingTensor", action_json=text)]})


def test_parameters_of_smdebug_are_those_of_leadlines_rules() -> None:
    given = rule("Loss", rule_to_invoke="LossNotDecreasing", mode="TRAIN", scan_interval_us="60000000")
    (spec,) = manifest_of(DebugRuleConfigurations=[given]).rules
    assert (spec.rule, spec.parameters) == ("loss_not_decreasing", {"mode": "train"})


def test_collections_with_schedules_of_modes() -> None:
    hook = {
        "S3OutputPath": "s3://bucket/debug",
        "HookParameters": {"save_interval": "100"},
        "CollectionConfigurations": [
            collection("gradients", save_interval="10", end_step="50"),
            collection("relus", include_regex="relu_output", **{"train.save_interval": "5", "eval.save_steps": "1,2"}),
            collection("weights", reductions="mean,max"),
        ],
    }
    items = {(item.custom or item.collection, *item.modes): item for item in capture_items(hook)}
    assert items["losses", "train", "eval", "predict"].schedule.every == 100
    assert items["metrics", "train", "eval", "predict"].schedule.every == 100
    gradients = items["gradients", "train"]
    assert (gradients.schedule.every, gradients.schedule.end, gradients.raw) == (10, 50, True)
    assert items["relus", "train"].regex == "relu_output"
    assert (items["relus", "train"].schedule.every, items["relus", "eval"].schedule.steps) == (5, (1, 2))
    assert items["relus", "predict"].schedule.every == 100
    assert (items["weights", "train"].statistics, items["weights", "train"].raw) == (("mean", "max"), False)


def test_what_is_said_of_a_collection_that_is_always_saved_counts() -> None:
    hook = {
        "HookParameters": {"save_interval": "4"},
        "CollectionConfigurations": [collection("losses", save_steps="9")],
    }
    schedules = {item.collection: item.schedule for item in capture_items({"S3OutputPath": "s3://bucket/x", **hook})}
    assert (schedules["losses"].steps, schedules["metrics"].every) == ((9,), 4)


def test_steps_of_a_collection_that_is_listed_twice_are_all_captured_in_any_order() -> None:
    entries = [collection("gradients", save_interval="500"), collection("gradients", save_interval="10")]
    orders = [{"CollectionConfigurations": entries}, {"CollectionConfigurations": entries[::-1]}]
    first, second = (set(capture_items({"S3OutputPath": "s3://b", **order})) for order in orders)
    assert first == second
    assert {item.schedule.every for item in first if item.collection == "gradients"} == {10, 500}


@pytest.mark.parametrize(
    ("key", "text", "window"),
    [
        ("DetailedProfilingConfig", '{"StartStep": 5, "NumSteps": 1, }', "detailed:at=5,for=1"),
        ("DataloaderProfilingConfig", "{}", "dataloader:at=7,for=1"),
        ("DataLoaderProfilingConfig", "{}", "dataloader:at=7,for=1"),  # as the reference of the API spells it
        (
            "PythonProfilingConfig",
            '{"StartStep": 2, "NumSteps": 4, "ProfilerName": "cprofile", "cProfileTimer": "cpu_time", }',
            "cprofile:at=2,for=4,timer=cpu",
        ),
        ("PythonProfilingConfig", '{"ProfilerName": "pyinstrument", }', "pyinstrument:at=9,for=3"),
        (
            "DetailedProfilingConfig",
            '{"StartTimeInSecSinceEpoch": 1600000000, "Duration": 10, }',
            "detailed:at=2020-09-13T12:26:40+00:00,for=10s",
        ),
    ],
)
def test_profile_windows_as_the_sdk_writes_them(key: str, text: str, window: str) -> None:
    assert list(profile_windows({key: text})) == [window]
    assert len(manifest_of(ProfilerConfig={"ProfilingParameters": {key: text}}).profile) == 1


def check_handed_over(request: dict[str, Any]) -> Manifest:
    """Check that leadline run gets what CreateTrainingJob has resolved; return it."""
    manifest = resolved(request, "/runs/job")
    read = read_document(LaunchDocument(manifest=manifest).encode(), "standard input").manifest
    assert repr(read) == repr(manifest)
    return manifest


def test_leadline_run_gets_what_was_resolved() -> None:
    manifest = check_handed_over(CREATE)
    assert (manifest.preset, manifest.uri) == ("sagemaker", "/runs/job")
    assert [(spec.alias, spec.rule, spec.parameters) for spec in manifest.rules] == [
        ("VanishingGradient", "vanishing_gradient", {"threshold": 0.001}),
        ("ProfilerReport", "profiler_report", {}),
    ]


@pytest.mark.parametrize("name", ["gradient", "weight", "1abc", "my coll", "relu-output", "relu_output", "for", "é"])
def test_a_collection_has_any_name(name: str) -> None:
    hook = {"S3OutputPath": "s3://b", "CollectionConfigurations": [collection(name, include_regex="a,[b,c]{1,2}")]}
    check_handed_over({"DebugHookConfig": hook})
    (item,) = (item for item in capture_items(hook) if item.regex)
    assert item.regex == "(?:a)|(?:[b,c]{1,2})"


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        ({"end_step": "0"}, []),
        ({"start_step": "10", "end_step": "5"}, []),
        ({"end_step": "0", "save_steps": "3"}, [3]),
        ({"save_interval": "2", "train.end_step": "0"}, []),
        ({"end_step": "2", "save_interval": "1"}, [0, 1]),
    ],
)
def test_a_collection_that_ends_before_it_begins_is_off(given: dict[str, str], steps: list[int]) -> None:
    hook = {"S3OutputPath": "s3://b", "CollectionConfigurations": [collection("gradients", **given)]}
    check_handed_over({"DebugHookConfig": hook})
    schedules = [item.schedule for item in capture_items(hook) if item.collection == "gradients"]
    assert [step for step in range(20) if any(one.should_capture(step) for one in schedules)] == steps


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            {"DebugHookConfig": {"CollectionConfigurations": [collection("c", include_regex="((")]}},
            "DebugHookConfig: collection c: include_regex '((' is not a valid regular expression",
        ),
        (
            {"DebugHookConfig": {"CollectionConfigurations": [collection("losses", include_regex="a)(?:b,c")]}},
            "collection losses: include_regex",
        ),
        (
            {"DebugHookConfig": {"HookParameters": {"include_regex": "a{99999999999}"}}},
            "DebugHookConfig: include_regex 'a{99999999999}' is not a valid regular expression",
        ),
        (
            {"DebugRuleConfigurations": [rule("A", rule_to_invoke="ExplodingTensor", tensor_regex="a{99999999999}")]},
            "tensor_regex 'a{99999999999}' is not a valid regular expression",
        ),
        (
            {"DebugRuleConfigurations": [rule("A", rule_to_invoke="Mine", source_s3_uri="mine.py")]},
            "RuleParameters of A: source_s3_uri must begin with s3://: 'mine.py'",
        ),
    ],
)
def test_what_the_run_would_refuse_is_refused_at_the_call(members: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        resolved(members, "/runs/job")
    assert message in str(refused.value)


TEXTS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            *("[", "(", "1e999", "-1", "0", "nan", "true", "1,,2", "[" * 250, "\\", '[{"name": 1}]'),
            *("{'a': ", "{'StartTimeInSecSinceEpoch': 1e300}", "{'StartTimeInSecSinceEpoch': []}", "{'NumSteps': {}}"),
        ]
    ),
)
KEYS = st.sampled_from(
    [
        "rule_to_invoke",
        "action_json",
        "source_s3_uri",
        "threshold",
        "other_trial_0",
        "tensor_regex",
        "save_interval",
        "train.save_steps",
        "include_regex",
        "reductions",
        "save_raw_tensor",
        "start_step",
        "end_step",
        "save_all",
    ]
)
ENTRIES = st.dictionaries(KEYS, TEXTS, min_size=1)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hook=ENTRIES, members=ENTRIES, parameters=ENTRIES, detailed=TEXTS, name=TEXTS)
def test_no_texts_in_a_valid_structure_cause_another_error_than_a_typed_one(
    caller: Caller, hook: dict[str, str], members: dict[str, str], parameters: dict[str, str], detailed: str, name: str
) -> None:
    request = CREATE | {
        "DebugHookConfig": {
            "S3OutputPath": "s3://bucket/debug",
            "HookParameters": hook,
            "CollectionConfigurations": [collection("gradients", **members), collection(name or "x", **members)],
        },
        "DebugRuleConfigurations": [rule("A", **{"rule_to_invoke": "ExplodingTensor"} | parameters)],
        "ProfilerConfig": {"ProfilingParameters": {"DetailedProfilingConfig": detailed}},
    }
    status, document = caller.answer("SageMaker.CreateTrainingJob", json.dumps(request).encode())
    assert status in (200, 400), document
    if status == 200:
        check_handed_over(request)
        caller.call("StopTrainingJob", TrainingJobName="first")
        caller.call("DeleteTrainingJob", TrainingJobName="first")
    else:
        assert document["__type"] in ("ValidationException", "SerializationException")


def test_collections_that_only_the_script_can_fill_are_named() -> None:
    names = ("losses", "mine", "selected", "relu_output")
    entries = [{"CollectionName": name} for name in names]
    entries[2]["CollectionParameters"] = {"include_regex": "relu"}
    assert unselected_collections({"DebugHookConfig": {"CollectionConfigurations": entries}}) == ["mine"]
    assert unselected_collections({}) == []
