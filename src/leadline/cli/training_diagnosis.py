"""What ``leadline doctor --json`` prints of a training."""

from __future__ import annotations

from typing import TypedDict

from leadline.records.doctor_report import LossOrigin, ModelEntry, OptimizerEntry, UncapturedEntry


class PlanCost(TypedDict):
    """The overhead of a plan: of the step time, of each capture, and on disk."""

    label: str
    step_share: float
    """As the budget lets it be."""
    budget: float | None
    step_share_without_budget: float
    capture_seconds: float
    capture_every: int | None
    """In steps, as is ``activations_every``; None: it captures nothing."""
    capture_bytes: int
    activations_seconds: float
    activations_every: int | None
    bytes_per_1000_steps: int


class TrainingDiagnosis(TypedDict):
    """What is captured of a training, what is not, and what it costs."""

    framework: str | None
    processes: int
    steps: dict[str, int]
    models: list[ModelEntry]
    optimizers: list[OptimizerEntry]
    losses: list[LossOrigin]
    captured: dict[str, int]
    """The number of tensors in each collection."""
    activations: dict[str, int]
    """The number of captured outputs for each kind of module or function."""
    functions: list[str]
    uncovered: list[UncapturedEntry]
    notes: list[str]
    step_seconds: float | None
    steps_measured: int
    is_overloaded: bool
    once_seconds: float | None
    prices: list[PlanCost]
    exit_status: int | None
    stopped_by: str | None
