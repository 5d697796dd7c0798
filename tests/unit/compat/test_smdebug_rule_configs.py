"""Configurations of rules as smdebug_rulesconfig makes them: the options of Leadline that they become."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from leadline.compat.smdebug.exceptions import SMDebugTypeError, SMDebugValueError
from leadline.compat.smdebug.rule_configs import run_config
from leadline.errors import ConfigurationError, UnknownNameError

DOCUMENTED = {
    "AllZero": {"tensor_regex": ".*", "threshold": "100"},
    "CheckInputImages": {"threshold_mean": "0.2", "threshold_samples": "500", "regex": ".*x", "channel": "1"},
    "ClassImbalance": {
        "threshold_imbalance": "10",
        "threshold_misprediction": "0.7",
        "samples": "500",
        "argmax": "False",
        "labels_regex": ".*labels",
        "predictions_regex": ".*predictions",
    },
    "Confusion": {"category_no": "3", "labels": "labels", "predictions": "predictions", "min_diag": "0.9"},
    "CreateXgboostReport": {},
    "DeadRelu": {"tensor_regex": ".*relu_output", "threshold_inactivity": "1.0", "threshold_layer": "50.0"},
    "ExplodingTensor": {"collection_names": "weights", "only_nan": "True"},
    "FeatureImportanceOverweight": {"threshold": "0.8", "nfeatures": "3"},
    "LossNotDecreasing": {"num_steps": "10", "diff_percent": "0.1", "use_losses_collection": "True", "mode": "TRAIN"},
    "NLPSequenceRatio": {"token_values": "0", "token_thresholds_percent": "50"},
    "Overfit": {"start_step": "0", "patience": "1", "ratio_threshold": "0.1"},
    "Overtraining": {"patience_train": "5", "patience_validation": "10", "delta": "0.01"},
    "PoorWeightInitialization": {"threshold": "10.0", "distribution_range": "0.001", "patience": "5", "steps": "10"},
    "SaturatedActivation": {"threshold_tanh_min": "-9.4999", "threshold_layer": "50.0"},
    "SimilarAcrossRuns": {"other_trial_0": "/trials/other"},
    "StalledTrainingRule": {"threshold": "120", "stop_training_on_fire": "True", "training_job_name_prefix": "my"},
    "TensorVariance": {"max_threshold": "10", "min_threshold": "0.00001"},
    "TreeDepth": {"depth": "4"},
    "UnchangedTensor": {"num_steps": "3", "rtol": "1e-05", "atol": "1e-08", "equal_nan": "False"},
    "VanishingGradient": {"threshold": "0.0000001"},
    "WeightUpdateRatio": {"num_steps": "10", "large_threshold": "10", "small_threshold": "1e-8", "epsilon": "1e-9"},
}
"""The debugging rules of the developer guide with their parameters, as texts."""
PROFILER = {
    "BatchSize": {"cpu_threshold_p95": 70, "gpu_threshold_p95": 70, "gpu_memory_threshold_p95": 70, "window": 500},
    "CPUBottleneck": {"threshold": 50, "gpu_threshold": 10, "cpu_threshold": 90, "patience": 1000},
    "GPUMemoryIncrease": {"increase": 5, "patience": 1000, "window": 10},
    "IOBottleneck": {"threshold": 50, "gpu_threshold": 10, "io_threshold": 50, "patience": 1000},
    "LoadBalancing": {"threshold": 0.5, "patience": 1000},
    "LowGPUUtilization": {"threshold_p95": 70, "threshold_p5": 10, "window": 500, "patience": 1000},
    "MaxInitializationTime": {"threshold": 20},
    "OverallSystemUsage": {},
    "ProfilerReport": {"CPUBottleneck_threshold": 60, "CPUBottleneck_scan_interval_us": 1, "opt_out_telemetry": True},
    "StepOutlier": {"stddev": 3, "mode": None, "n_outliers": 10},
}


def debug_rule(name: str, *collections: dict[str, Any], **parameters: str) -> dict[str, Any]:
    """A rule as a function of smdebug_rulesconfig returns it."""
    entry = {"RuleConfigurationName": name, "RuleParameters": {"rule_to_invoke": name, **parameters}}
    return {"DebugRuleConfiguration": entry, "CollectionConfigurations": list(collections)}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_rules_and_parameters_are_known(name: str) -> None:
    (rule,) = run_config(debug_rule(name, **DOCUMENTED[name])).rules
    assert rule.alias == name
    expected = {"other_trials"} if name == "SimilarAcrossRuns" else set(DOCUMENTED[name])
    assert set(rule.parameters) == expected


@pytest.mark.parametrize("name", PROFILER)
def test_profiler_rules_are_objects(name: str) -> None:
    given = {"rule_to_invoke": name, "scan_interval_us": 60_000_000, **PROFILER[name]}
    (rule,) = run_config(SimpleNamespace(rule_name=name, rule_parameters=given)).rules
    dropped = {key for key in PROFILER[name] if key.endswith("scan_interval_us") or key == "opt_out_telemetry"}
    assert set(rule.parameters) == set(PROFILER[name]) - dropped


def test_collections_and_actions_become_options() -> None:
    gradients = {"CollectionName": "gradients", "CollectionParameters": {"save_interval": "500"}}
    relu = {
        "CollectionName": "relu_output",
        "CollectionParameters": {"include_regex": ".*relu_output", "train.save_steps": "1,2", "start_step": "5"},
    }
    stop = r"{\"training_job_prefix\": \"My-Job\", \"name\": \"stoptraining\"}"
    actions = rf"[{stop}, {{\"endpoint\": \"+1\", \"name\": \"sms\"}}]"
    first = debug_rule("VanishingGradient", gradients, threshold="1e-8", action_json=actions)
    second = debug_rule("DeadRelu", relu, gradients)
    assert run_config(first, second).to_options() == [
        *("--capture", "gradients:every=500"),
        *("--capture", "relu_output:regex=.*relu_output,every=500,start=5,steps=1,2"),
        *("--capture", "relu_output:regex=.*relu_output,modes=eval,predict,every=500,start=5"),
        *("--rule", "VanishingGradient=vanishing_gradient:threshold=1e-08", "--rule", "DeadRelu=dead_relu"),
        *("--on", "VanishingGradient=stop_training", "--on", "VanishingGradient=notify:$SMS"),
    ]


def test_what_is_no_configuration_is_named() -> None:
    with pytest.raises(SMDebugTypeError, match="not str"):
        run_config("VanishingGradient")
    with pytest.raises(SMDebugValueError, match="no RuleConfigurationName"):
        run_config({"DebugRuleConfiguration": {"RuleParameters": {}}})
    with pytest.raises(SMDebugValueError, match="no such actions: publishmetric"):
        run_config(debug_rule("AllZero", action_json='{"name": "PublishMetric"}'))
    with pytest.raises(UnknownNameError, match="VanishingGradiant"):
        run_config(debug_rule("VanishingGradiant"))
    with pytest.raises(UnknownNameError, match="treshold"):
        run_config(debug_rule("VanishingGradient", treshold="1"))
    with pytest.raises(ConfigurationError, match="threshold must be"):
        run_config(debug_rule("VanishingGradient", threshold="low"))
