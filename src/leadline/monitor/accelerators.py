"""Detection of accelerators that no sampler supports, so that missing metrics are not mistaken for idle devices."""

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
"""Device file patterns by driver; the first match counts."""


class UnsupportedAccelerators:
    """Has no channels; reports the accelerators in ``/dev`` that are not sampled.

    Args:
        are_amd_read: Whether AMD GPUs are sampled elsewhere.
    """

    kind = "accelerator"
    channels: tuple[Channel, ...] = ()

    def __init__(self, devices: str = DEVICES, *, are_amd_read: bool = False) -> None:
        present = _present(devices)
        if are_amd_read:
            del present["AMD GPU"]
        self.absent = {"accelerator": f"present, not supported: {_format(present)}"} if present else {}

    def sample(self, now: float) -> Sequence[float | None]:
        return ()


def _present(devices: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for folder in ("", "accel/"):
        try:
            names = os.listdir(os.path.join(devices, folder))
        except OSError:  # the driver's folder does not exist
            continue
        for name in names:
            counts.update(kind for kind in [_kind(folder + name)] if kind is not None)
    return counts


def _kind(path: str) -> str | None:
    return next((kind for pattern, kind in _KNOWN if pattern.fullmatch(path)), None)


def _format(counts: Counter[str]) -> str:
    return ", ".join(f"{count} x {kind}" if count > 1 else kind for kind, count in sorted(counts.items()))
