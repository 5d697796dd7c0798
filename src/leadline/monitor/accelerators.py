"""Accelerators that are there and that nothing here can read: named, so that nobody takes silence for idleness."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from leadline.records.metric import Channel

DEVICES: Final = "/dev"
_KNOWN: Final = (
    (re.compile(r"kfd"), "AMD GPU"),
    (
        re.compile(r"accel/accel\d+|hl\d+"),
        "accelerator of the kernel's accel class (Intel Gaudi or NPU, Qualcomm, TPU)",
    ),
    (re.compile(r"accel\d+"), "Google TPU"),
    (re.compile(r"neuron\d+"), "AWS Neuron device"),
    (re.compile(r"davinci\d+"), "Huawei Ascend NPU"),
    (re.compile(r"apex_\d+"), "Google Coral TPU"),
    (re.compile(r"xpu\d+|ipu\d+"), "accelerator"),
)
"""Device files by the driver's naming; the first that matches counts."""


class UnreadAccelerators:
    """No channel, only a word on what stands in ``/dev`` and is not read.

    Args:
        are_amd_read: Whether AMD GPUs are sampled elsewhere.
    """

    kind = "accelerator"
    channels: tuple[Channel, ...] = ()

    def __init__(self, devices: str = DEVICES, *, are_amd_read: bool = False) -> None:
        found = _present(devices)
        if are_amd_read:
            del found["AMD GPU"]
        self.absent = {"accelerator": f"present, not read: {_spoken(found)}"} if found else {}

    def sample(self, now: float) -> Sequence[float | None]:
        return ()


def _present(devices: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for folder in ("", "accel/"):
        try:
            names = os.listdir(os.path.join(devices, folder))
        except OSError:  # the driver's folder is not there
            continue
        for name in names:
            found.update(what for what in [_kind(folder + name)] if what is not None)
    return found


def _kind(path: str) -> str | None:
    return next((what for pattern, what in _KNOWN if pattern.fullmatch(path)), None)


def _spoken(found: Counter[str]) -> str:
    return ", ".join(f"{count} x {what}" if count > 1 else what for what, count in sorted(found.items()))
