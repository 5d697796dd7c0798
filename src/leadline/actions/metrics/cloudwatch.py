"""Export of gauges to Amazon CloudWatch."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from typing import Final, TypedDict

from leadline.actions.aws import make_client, translate_error
from leadline.actions.metrics.run_metrics import MetricSample, RunMetrics

_MAX_PER_CALL: Final = 500


class CloudWatch:
    """Custom metrics of one account and region, with the dimensions Run and Rule (or Status).

    CloudWatch does not accept NaN: a gauge that is NaN has no data point, which an alarm treats as missing data.

    Args:
        endpoint: An endpoint other than Amazon's own; empty: Amazon's.
        region: The region; empty: that of the environment or the profile.
        seconds: The time limit of one export.
    """

    is_pushed = True

    def __init__(self, metrics: RunMetrics, namespace: str, region: str, endpoint: str, seconds: float) -> None:
        self._metrics, self._namespace = metrics, namespace
        self._client = make_client(
            "cloudwatch", action="publish_metric", region=region, endpoint=endpoint, seconds=seconds
        )

    def publish(self) -> str:
        samples = (sample for sample in self._metrics.samples() if not math.isnan(sample.value))
        data = [_datum(sample, self._metrics.run) for sample in samples]
        for begin in range(0, len(data), _MAX_PER_CALL):
            self._put(data[begin : begin + _MAX_PER_CALL])
        return f"put into the CloudWatch namespace {self._namespace}, {self._client.meta.region_name}"

    def _put(self, data: list[MetricDatum]) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self._client.put_metric_data(Namespace=self._namespace, MetricData=data)
        except (BotoCoreError, ClientError) as error:
            raise translate_error("CloudWatch", error) from error

    def close(self) -> None:
        self._client.close()


class MetricDatum(TypedDict):
    """A sample as CloudWatch takes it."""

    MetricName: str
    Dimensions: list[dict[str, str]]
    Timestamp: datetime
    Value: float


def _datum(sample: MetricSample, run: str) -> MetricDatum:
    dimensions = {"Run": run} | {key.capitalize(): value for key, value in sample.labels.items()}
    return {
        "MetricName": "".join(part.capitalize() for part in sample.name.split("_")),
        "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
        "Timestamp": datetime.fromtimestamp(time.time(), UTC),
        "Value": sample.value,
    }
