"""Events of state changes of jobs, posted to a webhook as EventBridge delivers those of SageMaker."""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from leadline.actions.action import RejectedError, RetryLaterError
from leadline.actions.webhook import Webhook
from leadline.config.variables import resolve
from leadline.serve.job_queue import ServerSettings
from leadline.serve.training_description import describe
from leadline.serve.training_job import TrainingJob

logger: Final = logging.getLogger(__name__)
_ATTEMPTS: Final = 4
_MAX_WAITING: Final = 1000
_TIMEOUT_SECONDS: Final = 10.0


class StateEvents:
    """Posts an event when a job or one of its rules changes its status, in the order of the changes.

    **Never blocks** - events wait in memory, at most 1,000; more are dropped, with a warning. One that was not accepted
    after 4 attempts is dropped as well.

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
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue(_MAX_WAITING)
        self._thread = threading.Thread(target=self._deliver, name="state events", daemon=True)
        self._thread.start()

    def changed(self, before: TrainingJob | None, job: TrainingJob) -> None:
        """Post an event if a status has changed."""
        if before is None or _statuses(before) != _statuses(job):
            try:
                self._events.put_nowait(event_of(job, self._settings))
            except queue.Full:
                logger.warning("an event of %s was dropped: %d are waiting", job.name, _MAX_WAITING)

    def close(self) -> None:
        """Post what waits, each event once, and end."""
        self._events.put(None)
        self._thread.join()

    def _deliver(self) -> None:
        while (event := self._events.get()) is not None:
            data = json.dumps(event).encode()
            headers = {"Content-Type": "application/json; charset=utf-8", "Idempotency-Key": event["id"]}
            for attempt in range(_ATTEMPTS):
                try:
                    self._webhook.send(data, headers)
                    break
                except RejectedError as error:
                    logger.warning("an event was refused: %s", error)
                    break
                except RetryLaterError as error:
                    if attempt == _ATTEMPTS - 1:
                        logger.warning("an event was dropped: %s", error)
                    else:
                        time.sleep(2.0**attempt)


def _statuses(job: TrainingJob) -> tuple[object, ...]:
    return job.status, job.secondary_status, [(rule.name, rule.status) for rule in job.rules]


def event_of(job: TrainingJob, settings: ServerSettings) -> dict[str, Any]:
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
