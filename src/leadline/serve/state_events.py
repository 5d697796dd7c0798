"""Events of state changes of jobs, posted to a webhook as EventBridge delivers those of SageMaker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from leadline.actions.webhook import Webhook
from leadline.config.variables import resolve
from leadline.records.json_object import JsonObject
from leadline.serve.job_queue import ServerSettings
from leadline.serve.outbox import Outbox
from leadline.serve.training_description import describe
from leadline.serve.training_job import TrainingJob

_TIMEOUT_SECONDS: Final = 10.0


class StateEvents:
    """Posts an event when a job or one of its rules changes its status, in the order of the changes.

    Args:
        url: Where to post; ``$NAME`` stands for a variable of the environment.
        environment: The variables.
    Raises:
        ConfigurationError: The URL is invalid, or a variable is not set.
    """

    def __init__(self, url: str, settings: ServerSettings, environment: Mapping[str, str]) -> None:
        parameters, _ = resolve({"url": url}, environment)
        self._webhook = Webhook(**parameters, probe=False, timeout=_TIMEOUT_SECONDS)
        self._webhook.check()
        self._settings = settings
        self._outbox = Outbox("state events")

    def changed(self, before: TrainingJob | None, job: TrainingJob) -> None:
        """Post an event if a status has changed."""
        if before is None or _statuses(before) != _statuses(job):
            event = event_of(job, self._settings)
            self._outbox.add(f"an event of {job.name}", partial(self._post, event))

    def close(self) -> None:
        """Post what waits, each event once, and end."""
        self._outbox.close()

    def _post(self, event: JsonObject) -> None:
        headers = {"Content-Type": "application/json; charset=utf-8", "Idempotency-Key": event["id"]}
        self._webhook.send(json.dumps(event).encode(), headers)


def _statuses(job: TrainingJob) -> tuple[object, ...]:
    return job.status, job.secondary_status, [(rule.name, rule.status) for rule in job.rules]


def event_of(job: TrainingJob, settings: ServerSettings) -> JsonObject:
    """Return the event of a job in its current state.

    Its ``detail`` is what DescribeTrainingJob answers, with times as texts in milliseconds and tags, as on AWS.
    """
    described = describe(job, settings)
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "SageMaker Training Job State Change",
        "source": "aws.sagemaker",
        "account": settings.account,
        "time": datetime.fromtimestamp(job.modified_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": settings.region,
        "resources": [described["TrainingJobArn"]],
        "detail": _with_texts_for_times(described) | {"Tags": job.tags},
    }


def _with_texts_for_times(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _with_texts_for_times(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_texts_for_times(item) for item in value]
    return str(round(value * 1000)) if name.endswith("Time") and isinstance(value, float) else value
