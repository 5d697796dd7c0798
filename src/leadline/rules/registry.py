"""The built-in rules by group, and lookup of rules by name."""

from __future__ import annotations

from typing import Final

from leadline.config.class_registry import ClassRegistry
from leadline.config.class_registry import is_custom as is_custom
from leadline.records.verdict_scope import REWARD_RULES
from leadline.rules.rule import Rule

_TABLE: Final = {
    "Gradients and weights": {
        "exploding_tensor": "tensors:ExplodingTensor",
        "nonfinite_origin": "tensors:NonfiniteOrigin",
        "exploding_gradient": "tensors:ExplodingGradient",
        "vanishing_gradient": "tensors:VanishingGradient",
        "no_gradient": "tensors:NoGradient",
        "no_learning": "tensors:NoLearning",
        "missing_zero_grad": "tensors:MissingZeroGrad",
        "unused_parameter": "tensors:UnusedParameter",
        "lost_progress": "tensors:LostProgress",
        "resume_changed": "tensors:ResumeChanged",
        "skipped_steps": "tensors:SkippedSteps",
        "gradient_clipping": "tensors:GradientClipping",
        "learning_rate": "losses:LearningRate",
        "weight_update_ratio": "tensors:WeightUpdateRatio",
        "weight_saturation": "tensors:WeightSaturation",
        "poor_weight_initialization": "tensors:PoorWeightInitialization",
        "unchanged_tensor": "tensors:UnchangedTensor",
        "tensor_variance": "tensors:TensorVariance",
        "all_zero": "tensors:AllZero",
        "replica_divergence": "tensors:ReplicaDivergence",
        "similar_across_runs": "tensors:SimilarAcrossRuns",
    },
    "Layers": {
        "consecutive_linear": "tensors:ConsecutiveLinear",
        "identical_units": "tensors:IdenticalUnits",
        "dead_relu": "tensors:DeadRelu",
        "saturated_activation": "tensors:SaturatedActivation",
        "output_collapse": "tensors:OutputCollapse",
        "eval_in_train_mode": "tensors:EvalInTrainMode",
        "broken_averages": "tensors:BrokenAverages",
        "expert_balance": "tensors:ExpertBalance",
    },
    "Losses and metrics": {
        "loss_at_start": "losses:LossAtStart",
        "loss_spike": "losses:LossSpike",
        "diverging_loss": "losses:DivergingLoss",
        "loss_not_decreasing": "losses:LossNotDecreasing",
        "loss_input": "losses:LossInput",
        "loss_choice": "losses:LossChoice",
        "ignored_labels": "losses:IgnoredLabels",
        "metric_not_improving": "losses:MetricNotImproving",
        "rising_validation_loss": "losses:RisingValidationLoss",
        "generalization_gap": "losses:GeneralizationGap",
        "broken_metric": "losses:BrokenMetric",
        "dead_groups": "losses:DeadGroups",
        "entropy_collapse": "losses:EntropyCollapse",
        "rising_entropy": "losses:RisingEntropy",
        "reward_fall": "losses:RewardFall",
        "truncated_completions": "losses:TruncatedCompletions",
        "kl_divergence": "losses:KlDivergence",
        "policy_mismatch": "losses:PolicyMismatch",
        "overfit": "losses:Overfit",
        "overtraining": "losses:Overtraining",
        "confusion": "losses:Confusion",
        "closing_remarks": "losses:ClosingRemarks",
    },
    "Data": {
        "unscaled_input": "tensors:UnscaledInput",
        "sorted_batches": "losses:SortedBatches",
        "shared_samples": "tensors:SharedSamples",
        "validation_mismatch": "tensors:ValidationMismatch",
        "duplicate_batches": "tensors:DuplicateBatches",
        "check_input_images": "tensors:CheckInputImages",
        "class_imbalance": "losses:ClassImbalance",
        "nlp_sequence_ratio": "tensors:NLPSequenceRatio",
    },
    "Speed": {
        "stalled_training": "system:StalledTraining",
        "input_bound": "system:InputBound",
        "straggler": "system:Straggler",
        "dataloader": "system:Dataloader",
        "operator_time": "system:OperatorTime",
        "recompilation": "system:Recompilation",
        "step_outlier": "system:StepOutlier",
        "throughput_regression": "system:ThroughputRegression",
        "max_initialization_time": "system:MaxInitializationTime",
        "overall_framework_metrics": "system:OverallFrameworkMetrics",
    },
    "Hardware": {
        "memory_growth": "system:MemoryGrowth",
        "gpu_throttling": "system:GPUThrottling",
        "low_gpu_utilization": "system:LowGPUUtilization",
        "gpu_memory_increase": "system:GPUMemoryIncrease",
        "load_balancing": "system:LoadBalancing",
        "batch_size": "system:BatchSize",
        "cpu_bottleneck": "system:CPUBottleneck",
        "cpu_utilization": "system:CPUUtilization",
        "io_bottleneck": "system:IOBottleneck",
        "hardware_utilization": "system:HardwareUtilization",
        "overall_system_usage": "system:OverallSystemUsage",
        "profiler_report": "system:ProfilerReport",
    },
    "Checks on a copy": {
        "mixed_samples": "checks:MixedSamples",
        "look_ahead": "checks:LookAhead",
        "padding_influence": "checks:PaddingInfluence",
        "unused_inputs": "checks:UnusedInputs",
        "loss_direction": "checks:LossDirection",
        "unlearnable_batch": "checks:UnlearnableBatch",
        "update_size": "checks:UpdateSize",
        "gradient_of_parts": "checks:GradientOfParts",
        "mode_mismatch": "checks:ModeMismatch",
        "incomplete_state": "checks:IncompleteState",
        "ignored_input": "checks:IgnoredInput",
        "model_inputs": "checks:ModelInputs",
    },
    "Boosted trees": {
        "no_split": "trees:NoSplit",
        "tree_depth": "trees:TreeDepth",
        "feature_importance_overweight": "trees:FeatureImportanceOverweight",
        "create_xgboost_report": "trees:CreateXgboostReport",
    },
}
"""The folder and the class of every built-in rule, by the title of its group."""
BUILT_IN: Final = dict(
    sorted(
        (name, f"leadline.rules.{place.replace(':', f'.{name}:')}")
        for rules in _TABLE.values()
        for name, place in rules.items()
    )
)
GROUPS: Final = {title: tuple(rules) for title, rules in _TABLE.items()}
"""The names of the built-in rules by the title of their group; the most important ones come first."""
INSTALLED: Final = "Installed packages"
"""The group of the rules that plugins register."""
AMAZON: Final = {
    "AllZero": "all_zero",
    "BatchSize": "batch_size",
    "CPUBottleneck": "cpu_bottleneck",
    "CPUUtilization": "cpu_utilization",
    "CheckInputImages": "check_input_images",
    "ClassImbalance": "class_imbalance",
    "Confusion": "confusion",
    "CreateXgboostReport": "create_xgboost_report",
    "Dataloader": "dataloader",
    "DeadRelu": "dead_relu",
    "ExplodingTensor": "exploding_tensor",
    "FeatureImportanceOverweight": "feature_importance_overweight",
    "GPUMemoryIncrease": "gpu_memory_increase",
    "GradientClipping": "gradient_clipping",
    "HardwareUtilization": "hardware_utilization",
    "IOBottleneck": "io_bottleneck",
    "LoadBalancing": "load_balancing",
    "LossNotDecreasing": "loss_not_decreasing",
    "LowGPUUtilization": "low_gpu_utilization",
    "MaxInitializationTime": "max_initialization_time",
    "NLPSequenceRatio": "nlp_sequence_ratio",
    "OverallFrameworkMetrics": "overall_framework_metrics",
    "OverallSystemUsage": "overall_system_usage",
    "Overfit": "overfit",
    "Overtraining": "overtraining",
    "PoorWeightInitialization": "poor_weight_initialization",
    "ProfilerReport": "profiler_report",
    "SaturatedActivation": "saturated_activation",
    "SimilarAcrossRuns": "similar_across_runs",
    "StalledTraining": "stalled_training",
    "StalledTrainingRule": "stalled_training",
    "StepOutlier": "step_outlier",
    "TensorVariance": "tensor_variance",
    "TfOperatorTime": "operator_time",
    "TreeDepth": "tree_depth",
    "UnchangedTensor": "unchanged_tensor",
    "VanishingGradient": "vanishing_gradient",
    "WeightUpdate": "weight_update_ratio",
    "WeightUpdateRatio": "weight_update_ratio",
}
"""SageMaker Debugger's names of the built-in rules."""
DEFAULT: Final = (
    "exploding_tensor",
    "nonfinite_origin",
    "exploding_gradient",
    "loss_at_start",
    "loss_spike",
    "diverging_loss",
    "no_gradient",
    "no_learning",
    "missing_zero_grad",
    "unused_parameter",
    "loss_input",
    "loss_choice",
    "ignored_labels",
    "consecutive_linear",
    "identical_units",
    "unscaled_input",
    "sorted_batches",
    "shared_samples",
    "validation_mismatch",
    "duplicate_batches",
    "learning_rate",
    "lost_progress",
    "resume_changed",
    "skipped_steps",
    "replica_divergence",
    "stalled_training",
    "input_bound",
    "straggler",
    "memory_growth",
    "gpu_throttling",
    "eval_in_train_mode",
    "broken_averages",
    "recompilation",
    "metric_not_improving",
    "rising_validation_loss",
    "generalization_gap",
    "broken_metric",
    *REWARD_RULES,
    "no_split",
    "closing_remarks",
)
"""Rules without false alarms on healthy runs; they are evaluated unless configured otherwise."""

REGISTRY: Final = ClassRegistry("rule", Rule, BUILT_IN, AMAZON, hint="leadline rules lists all")
canonical = REGISTRY.canonical
rule_names = REGISTRY.names
find_rule = REGISTRY.find


def grouped_rules() -> dict[str, tuple[str, ...]]:
    """Return the names of all rules by the title of their group, with those of installed packages last."""
    others = tuple(name for name in rule_names() if name not in BUILT_IN)
    return {**GROUPS, INSTALLED: others} if others else dict(GROUPS)
