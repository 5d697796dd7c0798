"""What a training reports to ``leadline doctor``: an inventory, and what capturing costs."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class ModelEntry(TypedDict):
    """A model of a training; ``parameters`` and ``trainable`` count elements."""

    name: str
    wrapper: str | None
    """The class that wraps the model, such as one of a distributed training."""
    parameters: int
    trainable: int
    tensors: int
    dtypes: list[str]
    devices: list[str]
    objective: NotRequired[str]
    """Of a booster, as is the next one."""
    features: NotRequired[int]


class OptimizerEntry(TypedDict):
    """An optimizer of a training; ``parameters`` counts elements."""

    name: str
    parameters: int
    groups: int
    variables: list[str]
    """The kinds of variables that it keeps for each parameter."""


class Inventory(TypedDict):
    """What trains, and all kinds of layers that there are."""

    models: list[ModelEntry]
    optimizers: list[OptimizerEntry]
    module_kinds: list[str]


class UncapturedEntry(TypedDict):
    """What is not captured, or only in part, and why."""

    what: str
    why: str


class LossOrigin(TypedDict):
    """A loss, and where its backward pass is called."""

    name: str
    place: str


class PlanPart(TypedDict):
    """Items that are captured together at some steps."""

    share: float
    """The share of steps at which they are captured."""
    own_ns: int
    """Overhead in the training's thread, per capture."""
    bytes: int
    """Bytes stored, per capture."""


class PlanPrice(TypedDict):
    """The estimated cost of a plan."""

    label: str
    parts: list[PlanPart]
    forward_share: float
    """The share of steps at which modules and functions are captured."""
    accuracy_share: float
    """The share of further steps at which only accuracy is captured."""


class DoctorReport(Inventory):
    """The report of one process of a training."""

    pid: int
    rank: int | None
    framework: str
    steps: dict[str, int]
    backwards: int
    uncovered: list[UncapturedEntry]
    losses: list[LossOrigin]
    step_ns: int | None
    is_overloaded: bool
    captures_share: float
    steps_measured: int
    once_ns: int | None
    base_ns: int | None
    forward_ns: int | None
    accuracy_ns: int | None
    prices: list[PlanPrice]
    notes: list[str]


class DoctorOrder(TypedDict):
    """What ``leadline doctor`` asks of a training."""

    steps: int
    """The least number of steps."""
    most_steps: int
    seconds: float
    """Steps follow until they have taken so long."""
    plans: dict[str, list[dict[str, Any]]]
    """The items of plans, by label."""
