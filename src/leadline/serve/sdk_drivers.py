"""The drivers that ``ModelTrainer`` of SDK v3 uploads beside the source, which name the folders of a container."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Final

from leadline.serve.container import ROOT
from leadline.serve.job_folder import JobFolder

_CHANNEL: Final = "sm_drivers"
_KINDS: Final = (".py", ".sh", ".json")


def place_drivers(folder: JobFolder, hosts: Sequence[str]) -> None:
    """Give each host the drivers with the paths of its own folder; nothing if the job has none.

    Raises:
        OSError: They could not be written.
    """
    first, *others = hosts
    source = folder.in_container("input", "data", _CHANNEL, host=first)
    if not os.path.isdir(source):
        return
    for host in others:
        place = folder.in_container("input", "data", _CHANNEL, host=host)
        if os.path.islink(place):  # to the drivers of the first
            os.unlink(place)
            shutil.copytree(source, place)
    for host in hosts:
        _lead(folder.in_container("input", "data", _CHANNEL, host=host), folder.container_of(host))


def _lead(drivers: str, container: str) -> None:
    """Replace the folder of a container by that of a host."""
    for parent, _, names in os.walk(drivers):
        for name in (name for name in names if name.endswith(_KINDS)):
            path = os.path.join(parent, name)
            with open(path, "rb") as file:
                content = file.read()
            with open(path, "wb") as file:
                file.write(content.replace(f"{ROOT}/".encode(), f"{container}/".encode()))
