"""What a verdict covers: the parts of a training that default rules look at, and what they leave out.

The outcome names the parts from this table, and ``scripts/scope_page.py`` makes the page of the documentation from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from leadline.records.describe import rule_state
from leadline.records.documents import SummarizedRule
from leadline.records.formatting import listed

TORCH, TENSORFLOW, JAX, MXNET, TREES = "PyTorch", "TensorFlow, Keras", "JAX", "MXNet", "XGBoost, LightGBM"
FRAMEWORKS: Final = (TORCH, TENSORFLOW, JAX, MXNET, TREES)


@dataclass(frozen=True, slots=True)
class CoveredPart:
    """A part of a training that default rules look at."""

    name: str
    """As the outcome names it."""
    rules: tuple[str, ...]
    looked_at: str
    """What they look at."""
    left_out: str
    """What they do not."""
    frameworks: dict[str, str] = field(default_factory=dict)
    """Where not all of it is looked at: what is missing, or that it does not apply."""


REWARD_RULES: Final = (
    "dead_groups",
    "entropy_collapse",
    "rising_entropy",
    "reward_fall",
    "truncated_completions",
    "kl_divergence",
    "policy_mismatch",
)
_OF_NETWORKS: Final = {TREES: "does not apply"}
PARTS: Final = (
    CoveredPart(
        "values",
        ("exploding_tensor", "nonfinite_origin", "broken_metric"),
        "NaN and infinity in everything that is captured, and the module or backward pass that made them; logged "
        "losses and gradient norms that become NaN or 0",
        "tensors and steps that are not captured",
    ),
    CoveredPart(
        "losses",
        ("loss_spike", "loss_at_start", "diverging_loss", "metric_not_improving"),
        "losses that jump, rise above guessing, begin far above it, or stay at its level; metrics that do not improve",
        "whether a loss could fall further, or should be another one",
        {JAX: "without the level of guessing: labels are not captured"},
    ),
    CoveredPart(
        "loss inputs",
        ("loss_input", "loss_choice", "ignored_labels"),
        "activations, labels and shapes that do not fit the loss, batches without any label",
        "losses that the script computes itself from single operations, whether labels are right",
        _OF_NETWORKS | {JAX: "no"},
    ),
    CoveredPart(
        "data",
        ("unscaled_input", "sorted_batches", "shared_samples", "validation_mismatch"),
        "inputs and labels that are not scaled, batches of one class, training samples in validation, validation data "
        "of other units or classes",
        "examples shuffled against their labels, and copies in validation that are not equal to the bit",
        {
            TENSORFLOW: "without the samples of validation",
            JAX: "inputs of layers only",
            MXNET: "without the samples of validation",
            TREES: "batches only",
        },
    ),
    CoveredPart(
        "gradients",
        ("no_gradient", "exploding_gradient", "missing_zero_grad", "unused_parameter"),
        "gradients that are exactly 0, missing, far above their median, or left from the step before",
        "gradients of a usual size that are wrong",
        _OF_NETWORKS,
    ),
    CoveredPart(
        "updates",
        ("no_learning", "learning_rate", "lost_progress", "resume_changed", "skipped_steps"),
        "parameters that no optimizer changes, a learning rate that is far off, optimizers that are made again and "
        "again, weights that are initialized again, a resumed run that continues otherwise, skipped steps",
        "whether another optimizer or schedule would do better",
        _OF_NETWORKS
        | {JAX: "without weights initialized again and skipped steps"}
        | dict.fromkeys((TENSORFLOW, MXNET), "without optimizers made again and weights initialized again"),
    ),
    CoveredPart(
        "layers",
        ("consecutive_linear", "identical_units", "eval_in_train_mode", "broken_averages"),
        "linear layers in sequence, units that stay identical, dropout and batch normalization in the wrong mode, its "
        "averages",
        "activations, unless their rules are added; whether the architecture fits the task",
        _OF_NETWORKS | {TENSORFLOW: "linear layers only", JAX: "no", MXNET: "no"},
    ),
    CoveredPart(
        "validation",
        ("rising_validation_loss", "generalization_gap"),
        "a validation loss that rises, or an accuracy that stays, while the training improves",
        "metrics that the script only prints, whether the validation set is like later data",
        {
            TENSORFLOW: "of `fit` and `evaluate`; of Keras on PyTorch not",
            JAX: 'where the script logs it, or names the mode: `leadline.mode("eval")`',
        },
    ),
    CoveredPart(
        "rewards",
        REWARD_RULES,
        "logged metrics of reinforcement learning: groups of completions whose rewards are all equal, a policy without "
        "entropy or with more and more of it, a reward that is lost again, completions that do not end any more, a "
        "divergence that is negative or runs away, a sampler with another policy",
        "rewards under names without a role, and whether rewards measure what is meant",
        {TREES: "does not apply"},
    ),
    CoveredPart(
        "trees",
        ("no_split",),
        "boosters whose trees have no split",
        "depth and dominating features, unless their rules are added",
        dict.fromkeys((TORCH, TENSORFLOW, JAX, MXNET), "does not apply"),
    ),
    CoveredPart(
        "replicas",
        ("replica_divergence", "duplicate_batches"),
        "replicas of a model that differ, ranks that are given the same batches",
        "whether ranks read the same examples in another order",
        _OF_NETWORKS | dict.fromkeys((TENSORFLOW, JAX, MXNET), "not tested"),
    ),
)
"""The parts that concern the model, in the order in which the outcome names them; ``closing_remarks`` never fires."""
OF_THE_MACHINE: Final = frozenset(
    {
        "batch_size",
        "cpu_bottleneck",
        "cpu_utilization",
        "dataloader",
        "gpu_memory_increase",
        "gpu_throttling",
        "hardware_utilization",
        "input_bound",
        "io_bottleneck",
        "load_balancing",
        "low_gpu_utilization",
        "max_initialization_time",
        "memory_growth",
        "operator_time",
        "overall_framework_metrics",
        "overall_system_usage",
        "profiler_report",
        "stalled_training",
        "recompilation",
        "step_outlier",
        "straggler",
        "throughput_regression",
    }
)
"""Rules on time and hardware, whose advice follows that of rules on the model."""


def covered(rules: Iterable[SummarizedRule]) -> tuple[list[str], list[str]]:
    """Return the parts in which a rule is clear, and those of which too little was captured for any of their rules.

    A part whose rules do not apply, or were not evaluated, is neither.
    """
    states: dict[str, set[str]] = {}
    for rule in rules:
        states.setdefault(rule.rule, set()).add(rule_state(rule))
    by_part = {part.name: set().union(*(states.get(name, set()) for name in part.rules)) for part in PARTS}
    seen = [name for name, found in by_part.items() if "clear" in found]
    unseen = [name for name, found in by_part.items() if "undecided" in found and not found & {"clear", "fired"}]
    return seen, unseen


def words(rules: Iterable[SummarizedRule]) -> tuple[str, str]:
    """Return `` in losses and updates``, and ``; too little was seen of validation``; empty where there is nothing."""
    seen, unseen = covered(rules)
    return f" in {listed(seen)}" if seen else "", f"; too little was seen of {listed(unseen)}" if unseen else ""
