"""What ``closing_remarks`` knows of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from leadline.rules.losses import rollout_remarks
from leadline.rules.losses.best_evaluation import BestEvaluation
from leadline.rules.losses.competing_losses import EndsOfLoss
from leadline.rules.losses.evaluations import Mean
from leadline.rules.losses.given_loss import GivenLoss
from leadline.rules.losses.gradient_sizes import GradientSizes
from leadline.rules.losses.last_evaluation import LastEvaluation
from leadline.rules.losses.logged_norms import LoggedNorm
from leadline.rules.losses.remark_parts import PARTS
from leadline.rules.losses.schedules import RateSchedule
from leadline.rules.losses.still_evaluations import StillEvaluation
from leadline.rules.losses.token_remarks import GivenTokens
from leadline.rules.losses.trivial_level import LabelsByCall

_Key = tuple[str, str]


@dataclass(slots=True)
class KnownRun:
    """The run so far."""

    updates: int = 0
    is_later: bool = False
    """Whether the training follows another one: folds, trials, clients and stages are short on purpose."""
    losses: dict[_Key, list[float]] = field(default_factory=dict)
    """The first training losses."""
    ends: dict[str, dict[str, EndsOfLoss]] = field(default_factory=dict)
    """The training losses by worker and name."""
    labels: dict[str, LabelsByCall] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    """By worker the largest median of the weights' update ratios."""
    evaluations: dict[_Key, LastEvaluation] = field(default_factory=dict)
    gradients: dict[str, GradientSizes] = field(default_factory=dict)
    schedules: dict[_Key, RateSchedule] = field(default_factory=dict)
    """By worker and optimizer."""
    norms: dict[_Key, LoggedNorm] = field(default_factory=dict)
    """By worker and logged metric."""
    by_part: list[dict[str, Any]] = field(default_factory=lambda: [{} for _ in PARTS])
    """What each of the parts has noted."""
    ignored: dict[_Key, GivenLoss] = field(default_factory=dict)
    """By worker and loss, those that ignore one of their classes."""
    rollouts: rollout_remarks.Rollouts = field(default_factory=dict)
    policies: dict[str, int] = field(default_factory=dict)
    """By fact about the loss of a policy, how often it was seen."""
    watched: list[str] = field(default_factory=list)
    """The remarks on callbacks that watch a metric the wrong way round."""
    still: dict[_Key, StillEvaluation] = field(default_factory=dict)
    """By worker and loss."""
    tokens: dict[_Key, GivenTokens] = field(default_factory=dict)
    """By worker and loss."""
    best: dict[_Key, BestEvaluation] = field(default_factory=dict)
    """By worker and metric of validation."""
    training: dict[str, Mean] = field(default_factory=dict)
    """By worker, its losses since the latest evaluation."""
    with_values: set[str] = field(default_factory=set)
    """The workers with a regression of labels that vary."""
    has_broken: bool = False
    """Whether a training loss was not finite."""

    def moved(self, worker: str) -> float:
        """Return the share of their size by which half of the weights may have moved at most; 0: it is not known."""
        return self.ratios.get(worker, 0.0) * self.updates
