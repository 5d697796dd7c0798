"""Instances of training jobs on a Ray cluster: each is the child of an actor; a training job is a job of Ray.

The nodes must see the folder of the server under the same path, and have the same Python with Leadline.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import ray
from ray.exceptions import RayError
from ray.job_config import JobConfig

from leadline.serve.engine import LocalInstance

_LOST: Final = -signal.SIGKILL
_DEVICES: Final = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


class InstanceActor(LocalInstance):
    """Runs a command on the node that Ray has chosen.

    Args:
        log: The file to which its output is appended.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], folder: str, given: bytes, log: str
    ) -> None:
        devices = {name: os.environ[name] for name in _DEVICES if name in os.environ}
        with open(log, "ab") as file:
            super().__init__(command, {**environment, **devices}, folder, given, file)


class RayInstance:
    """An actor and its process, as this process sees them; an actor that is lost counts as a killed process."""

    def __init__(self, actor: Any) -> None:
        self._actor, self._answer = actor, actor.poll.remote()
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status; None while it runs or waits for resources of the cluster."""
        if self._status is None and ray.wait([self._answer], timeout=0)[0]:
            try:
                self._status = ray.get(self._answer)
                self._answer = self._actor.poll.remote()
            except RayError as error:
                sys.stderr.write(f"leadline serve: an instance is lost: {type(error).__name__}\n")
                self._status = _LOST
        return self._status

    def terminate(self) -> None:
        """Ask it to end."""
        self._actor.terminate.remote()

    def kill(self) -> None:
        """End it and its children at once; also one that still waits for resources."""
        self._actor.kill.remote()
        ray.kill(self._actor)


class RayJobEngine:
    """Starts processes on the cluster of ``RAY_ADDRESS``, or else on the one that runs on this machine.

    Args:
        name: The name of the job in Ray.
        log: The file to which the output of the instances is appended.
        resources: What Ray reserves for each instance: arguments of its actor, such as ``num_gpus``.
    Raises:
        ConnectionError: There is no cluster.
    """

    def __init__(self, name: str, log: str, resources: Mapping[str, float]) -> None:
        config = JobConfig(metadata={"job_name": name})
        ray.init(address="auto", job_config=config, log_to_driver=False, logging_level="warning")
        self._log = log
        self._remote = ray.remote(InstanceActor).options(
            **resources, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD"
        )

    def start(self, command: Sequence[str], environment: Mapping[str, str], folder: str, given: bytes) -> RayInstance:
        """Start a process when the cluster has the resources."""
        return RayInstance(self._remote.remote(list(command), dict(environment), folder, given, self._log))
