"""The stop of the training job that a rule watches, in smdebug's interface."""

from __future__ import annotations

from typing import Any

from leadline.compat.smdebug.core.logger import get_logger
from leadline.compat.smdebug.rules.action.aws_call import call_aws


class StopTrainingAction:
    """Stops the one running training job whose name begins with a prefix, by SageMaker's API; failures are logged.

    ``$AWS_ENDPOINT_URL_SAGEMAKER`` leads to ``leadline serve``.
    """

    def __init__(self, rule_name: str, training_job_prefix: str) -> None:
        self._rule_name, self._training_job_prefix = rule_name, training_job_prefix

    def invoke(self, message: str = "") -> None:
        """Stop the job; nothing if several have the prefix, or none."""
        get_logger().info("%s stops %s %s", self._rule_name, self._training_job_prefix, message)
        call_aws("sagemaker", self._stop, f"{self._rule_name} cannot stop {self._training_job_prefix}")

    def _stop(self, sagemaker: Any) -> None:
        prefix = self._training_job_prefix
        pages = sagemaker.get_paginator("list_training_jobs").paginate(NameContains=prefix, StatusEquals="InProgress")
        names = [job["TrainingJobName"] for page in pages for job in page["TrainingJobSummaries"]]
        named = [name for name in names if name.startswith(prefix)]
        if len(named) == 1:
            sagemaker.stop_training_job(TrainingJobName=named[0])
        else:
            get_logger().warning("no job is stopped; running with the prefix: %s", ", ".join(named) or "none")
