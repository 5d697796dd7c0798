"""What the operations of the API answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict

Answer = Mapping[str, object]
"""A structure of the service model, by which it is encoded."""


class JobSummary(TypedDict):
    """A training job in a list of them. Times are seconds since the epoch."""

    TrainingJobName: str
    TrainingJobArn: str
    CreationTime: float
    LastModifiedTime: float
    TrainingEndTime: NotRequired[float]
    TrainingJobStatus: str
    SecondaryStatus: str


class ProcessingSummary(TypedDict):
    """The processing job of a rule in a list of them."""

    ProcessingJobName: str
    ProcessingJobArn: str
    ProcessingJobStatus: str
    CreationTime: float
    LastModifiedTime: float
    FailureReason: NotRequired[str]


class SecondaryTransition(TypedDict):
    """A secondary status that a training job has had."""

    Status: str
    StartTime: float
    EndTime: NotRequired[float]
    StatusMessage: str


class TrainingTimes(TypedDict, total=False):
    """When a job has trained; empty: it has not."""

    TrainingStartTime: float
    TrainingEndTime: float
    TrainingTimeInSeconds: int
    BillableTimeInSeconds: int


class RuleEvaluationStatus(TypedDict):
    """The evaluation of a rule."""

    RuleConfigurationName: str
    RuleEvaluationJobArn: str
    RuleEvaluationStatus: str
    StatusDetails: NotRequired[str]
    LastModifiedTime: float
