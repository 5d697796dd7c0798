"""The operations of CloudWatch Logs with which clients follow the log of a training."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from leadline.serve.answer import Answer
from leadline.serve.api_error import NOT_FOUND, ApiError
from leadline.serve.job_folder import FIRST_HOST
from leadline.serve.job_queue import JobQueue
from leadline.serve.log_times import first_and_last, line_times

TRAINING_LOGS: Final = "/aws/sagemaker/TrainingJobs"
PROCESSING_LOGS: Final = "/aws/sagemaker/ProcessingJobs"
_MILLISECOND_NS: Final = 1_000_000
_MAX_BYTES: Final = 1 << 20
_MAX_EVENTS: Final = 10_000
_TOKEN: Final = re.compile(r"[fb]/(\d{1,15})", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Stream:
    """A log stream."""

    owner: str
    """The name of the training or processing job."""
    path: str
    time_ms: int
    """The creation of the job."""

    @property
    def name(self) -> str:
        return f"{self.owner}/{FIRST_HOST}-{self.time_ms}"


class LogOperations:
    """DescribeLogStreams and GetLogEvents.

    Each takes a request that is valid according to the model, and returns the answer.

    Raises:
        ApiError: There is no such log.
    """

    def __init__(self, queue: JobQueue) -> None:
        self._queue = queue

    def describe_streams(self, request: Mapping[str, Any]) -> Answer:
        """List the log streams of jobs, all at once: SDK v2 would not use a token."""
        prefix = request.get("logStreamNamePrefix", "")
        return {
            "logStreams": [
                {"logStreamName": stream.name, "creationTime": stream.time_ms, **_event_times(stream)}
                for stream in self._streams(request)
                if stream.name.startswith(prefix)
            ]
        }

    def get_events(self, request: Mapping[str, Any]) -> Answer:
        """Return the lines of a log from a token on; a token is a number of bytes."""
        name = request["logStreamName"]
        stream = next((stream for stream in self._streams(request) if stream.name == name), None)
        if stream is None:
            raise ApiError(NOT_FOUND, "The specified log stream does not exist.")
        match = _TOKEN.fullmatch(request.get("nextToken", "f/0"))
        if match is None:
            raise ApiError("InvalidParameterException", "The specified nextToken is invalid.")
        begin = int(match[1])
        lines, end = _read_lines(stream.path, begin, min(request.get("limit", _MAX_EVENTS), _MAX_EVENTS))
        times = line_times(stream.path, accumulate(map(len, lines), initial=begin))[1:]
        since, until = request.get("startTime", 0), request.get("endTime", math.inf)
        return {
            "events": [
                {"timestamp": at, "message": _text(line), "ingestionTime": at}
                for at, line in zip(times, lines, strict=True)
                if since <= at < until
            ],
            "nextForwardToken": f"f/{end}",
            "nextBackwardToken": f"b/{begin}",
        }

    def _streams(self, request: Mapping[str, Any]) -> list[_Stream]:
        """Return the logs of the jobs that have started, or of their custom rules."""
        group = request.get("logGroupName")
        if group not in (TRAINING_LOGS, PROCESSING_LOGS):
            raise ApiError(NOT_FOUND, "The specified log group does not exist.")
        streams: list[_Stream] = []
        for job in self._queue.jobs():
            folder, time_ms = self._queue.folder(job), job.created_ns // _MILLISECOND_NS
            logs = {rule.processing_job: folder.rule_log(rule.name) for rule in job.rules if rule.is_custom}
            if group == TRAINING_LOGS:
                logs = {job.name: folder.log}
            streams += [_Stream(owner, path, time_ms) for owner, path in logs.items() if os.path.exists(path)]
        return streams


def _event_times(stream: _Stream) -> dict[str, int]:
    times = first_and_last(stream.path)
    return {"firstEventTimestamp": times[0], "lastEventTimestamp": times[1]} if times is not None else {}


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r\n")


def _read_lines(path: str, begin: int, count: int) -> tuple[list[bytes], int]:
    """Return complete lines from an offset on, and the offset behind them."""
    with open(path, "rb") as file:
        file.seek(begin)
        data = file.read(_MAX_BYTES)
    end = len(data) if len(data) == _MAX_BYTES and b"\n" not in data else data.rfind(b"\n") + 1
    lines = data[:end].splitlines(keepends=True)[:count]
    return lines, begin + sum(map(len, lines))
