"""Openers of the recordings that only a framework can make: operators and data loaders."""

from __future__ import annotations

import os

from leadline.frameworks.adapter import RecordsProfiles
from leadline.frameworks.installed import Frameworks
from leadline.records.profile_window import Kind, ProfileWindow
from leadline.store import layout
from leadline.training.guard import Guard
from leadline.training.recording import Opener, ProfileUnavailableError, Recording


def framework_openers(frameworks: Frameworks, run: str, guard: Guard) -> dict[Kind, Opener]:
    """Return the openers of operator and data loader recordings, by kind of window."""

    def open_operators(window: ProfileWindow) -> Recording:
        profiles = frameworks.profiles
        if profiles is None:
            label = frameworks.label() or "no framework"
            raise ProfileUnavailableError(f"operators are recorded for PyTorch only; this process has {label}")
        return profiles.open_operators(window, guard)

    data_loading = _DataLoadingOpener(os.path.join(run, layout.PROFILES), guard)
    frameworks.connect_profiles(data_loading.connect)
    return {"detailed": open_operators, "dataloader": data_loading.open}


class _DataLoadingOpener:
    """Opens recordings of data loaders; their workers look for windows as soon as the framework is imported."""

    def __init__(self, folder: str, guard: Guard) -> None:
        self._folder, self._guard = folder, guard
        self._open: Opener | None = None

    def connect(self, profiles: RecordsProfiles) -> None:
        self._open = profiles.watch_data_loading(self._folder, self._guard)

    def open(self, window: ProfileWindow) -> Recording:
        if self._open is None:
            raise ProfileUnavailableError("data loaders are recorded for PyTorch only, and PyTorch is not imported")
        return self._open(window)
