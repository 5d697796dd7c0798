"""The groups in which the built-in rules are listed."""

from __future__ import annotations

from typing import Final

from leadline.rules import registry

INSTALLED: Final = "Installed packages"
"""The group of the rules that plugins register."""
GROUPS: Final = {
    "Gradients and weights": (
        "exploding_tensor",
        "nonfinite_origin",
        "exploding_gradient",
        "vanishing_gradient",
        "no_gradient",
        "no_learning",
        "missing_zero_grad",
        "unused_parameter",
        "skipped_steps",
        "gradient_clipping",
        "learning_rate",
        "weight_update_ratio",
        "weight_saturation",
        "poor_weight_initialization",
        "unchanged_tensor",
        "tensor_variance",
        "all_zero",
        "replica_divergence",
        "similar_across_runs",
    ),
    "Layers": (
        "consecutive_linear",
        "identical_units",
        "dead_relu",
        "saturated_activation",
        "output_collapse",
        "eval_in_train_mode",
    ),
    "Losses and metrics": (
        "loss_at_start",
        "loss_spike",
        "diverging_loss",
        "loss_not_decreasing",
        "loss_input",
        "loss_choice",
        "metric_not_improving",
        "rising_validation_loss",
        "overfit",
        "overtraining",
        "confusion",
        "closing_remarks",
    ),
    "Data": ("unscaled_input", "sorted_batches", "check_input_images", "class_imbalance", "nlp_sequence_ratio"),
    "Speed": (
        "stalled_training",
        "input_bound",
        "straggler",
        "dataloader",
        "operator_time",
        "step_outlier",
        "throughput_regression",
        "max_initialization_time",
        "overall_framework_metrics",
    ),
    "Hardware": (
        "memory_growth",
        "gpu_throttling",
        "low_gpu_utilization",
        "gpu_memory_increase",
        "load_balancing",
        "batch_size",
        "cpu_bottleneck",
        "cpu_utilization",
        "io_bottleneck",
        "hardware_utilization",
        "overall_system_usage",
        "profiler_report",
    ),
    "Boosted trees": ("no_split", "tree_depth", "feature_importance_overweight", "create_xgboost_report"),
}
"""Every built-in rule by the title of its group; the most important ones come first."""


def grouped_rules() -> dict[str, tuple[str, ...]]:
    """Return the names of all rules by the title of their group, with those of installed packages last."""
    others = tuple(name for name in registry.rule_names() if name not in registry.BUILT_IN)
    return {**GROUPS, INSTALLED: others} if others else dict(GROUPS)
