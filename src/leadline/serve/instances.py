"""The instances of a training job: one process per instance on this machine, all in one run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from leadline.config.launch_document import LaunchDocument
from leadline.process.interpreter import own_command, own_environment
from leadline.serve import container
from leadline.serve.engine import Instance, JobEngine
from leadline.serve.job_folder import JobFolder, JobSpecification
from leadline.store.documents import make_folder

_SHARDED: Final = "ShardedByS3Key"
_FIRST_SIGNAL: Final = 128
_FAILED: Final = ".failed"
_WITH_OTHERS: Final = f"""
host=$1; touch "$0/$host"
while [ "$(ls "$0" | wc -l)" -lt "$2" ]; do sleep 0.1; done
shift 2
"$@" & child=$!
trap 'kill -TERM $child 2>/dev/null' TERM
wait $child; status=$?
while kill -0 $child 2>/dev/null; do wait $child; status=$?; done
[ $status -eq 0 ] || touch "$0/$host{_FAILED}"
exit $status
"""
"""Waits for the other hosts, and tells when its command has failed: leadline run itself may wait for their ends."""


class Instances:
    """The processes of a job, under ``leadline run``; those of several hosts join one run.

    Args:
        engine: Starts them.
        specification: The request, and the manifest of the run.
        environments: The environment of each host.
        python: The interpreter of programs in Python.
    """

    def __init__(
        self,
        engine: JobEngine,
        folder: JobFolder,
        specification: JobSpecification,
        environments: Mapping[str, Mapping[str, str]],
        python: str,
    ) -> None:
        is_shared = len(environments) > 1
        document = LaunchDocument(manifest=specification.manifest, is_shared=is_shared).encode()
        self._instances: list[Instance] = []
        self._joined = folder.joined
        for host, environment in environments.items():
            code = folder.in_container("code", host=host)
            command = container.command(specification.request, folder.container_of(host), python)
            if is_shared:
                command = [*_together(folder, host, len(environments)), *command]
            words = own_command("leadline", "run", "--config", "-", "--smdebug", "--", *command)
            words = own_command("leadline.serve.opt_ml", folder.container_of(host), *words)
            own = own_environment(container.with_python(environment, python))
            self._instances.append(engine.start(words, own, code, document))

    def poll(self) -> int | None:
        """Return the exit status when all have ended: that of a failure before those of signals; None before."""
        statuses = [instance.poll() for instance in self._instances]
        if None in statuses:
            return None
        failed = [status for status in statuses if status]
        return next((status for status in failed if 0 < status < _FIRST_SIGNAL), failed[0] if failed else 0)

    def has_failed(self) -> bool:
        """Return whether the command of one has failed."""
        try:
            return any(name.endswith(_FAILED) for name in os.listdir(self._joined))
        except FileNotFoundError:  # there is one instance
            return False

    def terminate(self) -> None:
        """Ask all that still run to end."""
        for instance in self._instances:
            if instance.poll() is None:
                instance.terminate()

    def kill(self) -> None:
        """End all that still run at once."""
        for instance in self._instances:
            if instance.poll() is None:
                instance.kill()


def _together(folder: JobFolder, host: str, count: int) -> list[str]:
    """Return the prefix of a command that waits until all hosts have started.

    One that ends before another has joined the run would end the run.
    """
    make_folder(folder.joined)
    return ["/bin/sh", "-c", _WITH_OTHERS, folder.joined, host, str(count)]


def share_channels(folder: JobFolder, request: Mapping[str, Any], hosts: Sequence[str]) -> None:
    """Give the hosts beside the first the data that was downloaded: all of it, or each host its files in turn.

    Raises:
        OSError: A file could not be linked.
    """
    for channel in request.get("InputDataConfig", ()) if len(hosts) > 1 else ():
        name = channel["ChannelName"]
        source = folder.in_container("input", "data", name)
        if channel["DataSource"]["S3DataSource"].get("S3DataDistributionType") != _SHARDED:
            for host in hosts[1:]:
                os.symlink(source, folder.in_container("input", "data", name, host=host))
            continue
        paths = sorted(os.path.join(parent, file) for parent, _, files in os.walk(source) for file in files)
        for number, path in enumerate(paths):
            host = hosts[number % len(hosts)]
            place = folder.in_container("input", "data", name, os.path.relpath(path, source), host=host)
            if place != path:
                make_folder(os.path.dirname(place))
                os.replace(path, place)
        for host in hosts[1:]:
            make_folder(folder.in_container("input", "data", name, host=host))
