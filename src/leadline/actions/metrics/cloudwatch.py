"""Gauges for Amazon CloudWatch, whose alarms can follow them."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from typing import Any, Final

from leadline.actions.aws import failure, make_client
from leadline.actions.metrics.run_metrics import MetricSample, RunMetrics

_MOST_IN_A_CALL: Final = 500


class CloudWatch:
    """Custom metrics of one account and region, with the dimensions Run and Rule (or Status).

    CloudWatch takes no NaN: a gauge that is NaN has no point, which an alarm treats as missing data.

    Args:
        endpoint: Another address than Amazon's own; empty: that.
        region: Empty: the one of the environment or the profile.
        seconds: How long one sending may take.
    """

    is_pushed = True

    def __init__(self, board: RunMetrics, namespace: str, region: str, endpoint: str, seconds: float) -> None:
        self._board, self._namespace = board, namespace
        self._client = make_client(
            "cloudwatch", action="publish_metric", region=region, endpoint=endpoint, seconds=seconds
        )

    def publish(self) -> str:
        data = [_datum(each, self._board.run) for each in self._board.samples() if not math.isnan(each.value)]
        for begin in range(0, len(data), _MOST_IN_A_CALL):
            self._put(data[begin : begin + _MOST_IN_A_CALL])
        return f"put into CloudWatch's namespace {self._namespace}, {self._client.meta.region_name}"

    def _put(self, data: list[dict[str, Any]]) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self._client.put_metric_data(Namespace=self._namespace, MetricData=data)
        except (BotoCoreError, ClientError) as error:
            raise failure("CloudWatch", error) from error

    def close(self) -> None:
        self._client.close()


def _datum(sample: MetricSample, run: str) -> dict[str, Any]:
    dimensions = {"Run": run} | {key.capitalize(): value for key, value in sample.labels.items()}
    return {
        "MetricName": "".join(each.capitalize() for each in sample.name.split("_")),
        "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
        "Timestamp": datetime.fromtimestamp(time.time(), UTC),
        "Value": sample.value,
    }
