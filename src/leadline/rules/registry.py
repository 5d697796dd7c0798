"""Finding rules by name: built in, other people's by entry points, one's own by file or module."""

from __future__ import annotations

from functools import lru_cache
from importlib import metadata
from typing import Final

from leadline.config.class_lookup import find_class, find_in_module
from leadline.errors import UnknownNameError
from leadline.rules.rule import Rule

BUILT_IN: Final = {
    "all_zero": "leadline.rules.tensors.all_zero:AllZero",
    "batch_size": "leadline.rules.system.batch_size:BatchSize",
    "check_input_images": "leadline.rules.tensors.check_input_images:CheckInputImages",
    "class_imbalance": "leadline.rules.losses.class_imbalance:ClassImbalance",
    "confusion": "leadline.rules.losses.confusion:Confusion",
    "cpu_bottleneck": "leadline.rules.system.cpu_bottleneck:CPUBottleneck",
    "cpu_utilization": "leadline.rules.system.cpu_utilization:CPUUtilization",
    "create_xgboost_report": "leadline.rules.trees.create_xgboost_report:CreateXgboostReport",
    "dataloader": "leadline.rules.system.dataloader:Dataloader",
    "dead_relu": "leadline.rules.tensors.dead_relu:DeadRelu",
    "eval_in_train_mode": "leadline.rules.tensors.eval_in_train_mode:EvalInTrainMode",
    "exploding_gradient": "leadline.rules.tensors.exploding_gradient:ExplodingGradient",
    "exploding_tensor": "leadline.rules.tensors.exploding_tensor:ExplodingTensor",
    "feature_importance_overweight": "leadline.rules.trees.feature_importance_overweight:FeatureImportanceOverweight",
    "gpu_memory_increase": "leadline.rules.system.gpu_memory_increase:GPUMemoryIncrease",
    "gpu_throttling": "leadline.rules.system.gpu_throttling:GPUThrottling",
    "gradient_clipping": "leadline.rules.tensors.gradient_clipping:GradientClipping",
    "hardware_utilization": "leadline.rules.system.hardware_utilization:HardwareUtilization",
    "input_bound": "leadline.rules.system.input_bound:InputBound",
    "io_bottleneck": "leadline.rules.system.io_bottleneck:IOBottleneck",
    "learning_rate": "leadline.rules.losses.learning_rate:LearningRate",
    "load_balancing": "leadline.rules.system.load_balancing:LoadBalancing",
    "loss_at_start": "leadline.rules.losses.loss_at_start:LossAtStart",
    "loss_not_decreasing": "leadline.rules.losses.loss_not_decreasing:LossNotDecreasing",
    "loss_spike": "leadline.rules.losses.loss_spike:LossSpike",
    "low_gpu_utilization": "leadline.rules.system.low_gpu_utilization:LowGPUUtilization",
    "max_initialization_time": "leadline.rules.system.max_initialization_time:MaxInitializationTime",
    "memory_growth": "leadline.rules.system.memory_growth:MemoryGrowth",
    "metric_not_improving": "leadline.rules.losses.metric_not_improving:MetricNotImproving",
    "missing_zero_grad": "leadline.rules.tensors.missing_zero_grad:MissingZeroGrad",
    "nlp_sequence_ratio": "leadline.rules.tensors.nlp_sequence_ratio:NLPSequenceRatio",
    "no_learning": "leadline.rules.tensors.no_learning:NoLearning",
    "nonfinite_origin": "leadline.rules.tensors.nonfinite_origin:NonfiniteOrigin",
    "operator_time": "leadline.rules.system.operator_time:OperatorTime",
    "output_collapse": "leadline.rules.tensors.output_collapse:OutputCollapse",
    "overall_framework_metrics": "leadline.rules.system.overall_framework_metrics:OverallFrameworkMetrics",
    "overall_system_usage": "leadline.rules.system.overall_system_usage:OverallSystemUsage",
    "overfit": "leadline.rules.losses.overfit:Overfit",
    "overtraining": "leadline.rules.losses.overtraining:Overtraining",
    "poor_weight_initialization": "leadline.rules.tensors.poor_weight_initialization:PoorWeightInitialization",
    "probabilities_as_logits": "leadline.rules.losses.probabilities_as_logits:ProbabilitiesAsLogits",
    "profiler_report": "leadline.rules.system.profiler_report:ProfilerReport",
    "replica_divergence": "leadline.rules.tensors.replica_divergence:ReplicaDivergence",
    "saturated_activation": "leadline.rules.tensors.saturated_activation:SaturatedActivation",
    "similar_across_runs": "leadline.rules.tensors.similar_across_runs:SimilarAcrossRuns",
    "skipped_steps": "leadline.rules.tensors.skipped_steps:SkippedSteps",
    "stalled_training": "leadline.rules.system.stalled_training:StalledTraining",
    "step_outlier": "leadline.rules.system.step_outlier:StepOutlier",
    "straggler": "leadline.rules.system.straggler:Straggler",
    "tensor_variance": "leadline.rules.tensors.tensor_variance:TensorVariance",
    "throughput_regression": "leadline.rules.system.throughput_regression:ThroughputRegression",
    "tree_depth": "leadline.rules.trees.tree_depth:TreeDepth",
    "unchanged_tensor": "leadline.rules.tensors.unchanged_tensor:UnchangedTensor",
    "unscaled_input": "leadline.rules.tensors.unscaled_input:UnscaledInput",
    "unused_parameter": "leadline.rules.tensors.unused_parameter:UnusedParameter",
    "vanishing_gradient": "leadline.rules.tensors.vanishing_gradient:VanishingGradient",
    "weight_saturation": "leadline.rules.tensors.weight_saturation:WeightSaturation",
    "weight_update_ratio": "leadline.rules.tensors.weight_update_ratio:WeightUpdateRatio",
}
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
"""Amazon's names for them."""
DEFAULT: Final = (
    "exploding_tensor",
    "nonfinite_origin",
    "exploding_gradient",
    "loss_spike",
    "no_learning",
    "missing_zero_grad",
    "unused_parameter",
    "probabilities_as_logits",
    "skipped_steps",
    "replica_divergence",
    "stalled_training",
    "input_bound",
    "straggler",
    "memory_growth",
    "gpu_throttling",
)
"""Those that stay silent on every healthy run, and are judged unless told otherwise."""


def canonical(name: str) -> str:
    """A rule's own name, where it has another's; else the name as it is."""
    return AMAZON.get(name, name)


def is_custom(name: str) -> bool:
    """Whether a name means a class of the user's: ``file.py:Class`` or ``module:Class``."""
    return ":" in name


@lru_cache(maxsize=1)
def other_peoples() -> dict[str, metadata.EntryPoint]:
    """Rules of installed packages, by the name of their entry point in the group ``leadline.rules``."""
    return {each.name: each for each in metadata.entry_points(group="leadline.rules")}


def rule_names() -> tuple[str, ...]:
    """Every name that a rule can be asked for by, Amazon's apart."""
    return (*BUILT_IN, *(name for name in sorted(other_peoples()) if name not in BUILT_IN))


def find_rule(name: str, folder: str = "") -> type[Rule]:
    """The class of a rule.

    Args:
        name: A rule's name, Amazon's, ``file.py:Class`` or ``module:Class``.
        folder: What a relative file is relative to; "" for the working directory.
    Raises:
        UnknownNameError: No rule has that name.
        ConfigurationError: The file or module cannot be imported, or holds no such rule.
    """
    name = canonical(name)
    if name in BUILT_IN:
        return find_class(BUILT_IN[name], Rule, "rule")
    if is_custom(name):
        return find_class(name, Rule, "rule", folder)
    if name in other_peoples():
        entry = other_peoples()[name]
        return find_in_module(entry.module, entry.attr, Rule, "rule")
    known = (*AMAZON,) if name[:1].isupper() else rule_names()
    raise UnknownNameError("rule", name, known, hint="leadline rules lists all")
