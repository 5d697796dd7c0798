"""A training job of SageMaker, or of ``leadline serve``, and its profiles in S3, in smdebug's interface."""

from __future__ import annotations

import time
from typing import Any, Final

from leadline.compat.smdebug.core.logger import get_logger
from leadline.compat.smdebug.profiler.algorithm_metrics_reader import S3AlgorithmMetricsReader
from leadline.compat.smdebug.profiler.system_metrics_reader import S3SystemMetricsReader
from leadline.errors import MissingExtraError
from leadline.records.json_object import JsonObject
from leadline.trials.remote_trial import is_remote_trial

logger = get_logger()
_POLL_SECONDS: Final = 5.0
_ENDED: Final = frozenset({"Completed", "Failed", "Stopped"})


class TrainingJob:
    """A training job by its name.

    Args:
        training_job_name: Its name.
        region: The region; None: that of the environment.
    Raises:
        MissingExtraError: boto3 is not installed.

    Attributes:
        name: Its name.
        profiler_config: ``ProfilerConfig`` of the job; empty if it has none.
        profiler_s3_output_path: The URI of its profiles; None: it is not profiled.
    """

    def __init__(self, training_job_name: str, region: str | None = None) -> None:
        try:
            import boto3
        except ModuleNotFoundError as error:
            raise MissingExtraError("TrainingJob needs boto3; install it with: pip install 'leadline[aws]'") from error
        self.name = training_job_name
        self._client: Any = boto3.client("sagemaker", region_name=region)
        self.profiler_config: JsonObject = {}
        self.profiler_s3_output_path: str | None = None
        self.get_config_and_profiler_s3_output_path()

    def get_sm_client(self) -> Any:
        """Return the boto3 client."""
        return self._client

    def describe_training_job(self) -> JsonObject:
        """Return what DescribeTrainingJob answers."""
        return dict(self._client.describe_training_job(TrainingJobName=self.name))

    def get_config_and_profiler_s3_output_path(self) -> None:
        """Set ``profiler_config`` and ``profiler_s3_output_path``."""
        self.profiler_config = self.describe_training_job().get("ProfilerConfig", {})
        output = self.profiler_config.get("S3OutputPath")
        self.profiler_s3_output_path = None if output is None else f"{output.rstrip('/')}/{self.name}/profiler-output"

    def get_systems_metrics_reader(self) -> S3SystemMetricsReader:
        """Return a reader of the system metrics."""
        return S3SystemMetricsReader(self._path())

    def get_framework_metrics_reader(self) -> S3AlgorithmMetricsReader:
        """Return a reader of the timeline."""
        return S3AlgorithmMetricsReader(self._path())

    def wait_for_sys_profiling_data_to_be_available(self) -> None:
        """Wait until there are profiles, or the job has ended."""
        while not is_remote_trial(self._path()):
            if self.describe_training_job()["TrainingJobStatus"] in _ENDED:
                if not is_remote_trial(self._path()):
                    logger.warning("job %s has ended without profiles at %s", self.name, self._path())
                return
            time.sleep(_POLL_SECONDS)

    def wait_for_framework_profiling_data_to_be_available(self) -> None:
        """Wait until there are profiles, or the job has ended."""
        self.wait_for_sys_profiling_data_to_be_available()

    def _path(self) -> str:
        if self.profiler_s3_output_path is None:
            raise ValueError(f"job {self.name} is not profiled: its ProfilerConfig has no S3OutputPath")
        return self.profiler_s3_output_path
