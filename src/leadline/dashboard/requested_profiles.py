"""Requests for profiles, made before the start of a job or while it ran, with their states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from leadline.reader.run import Run
from leadline.records.profile_window import ProfileWindow
from leadline.records.request import Acknowledgement, Profile, UnreadableRequest
from leadline.store.control import read_acknowledgements, read_requests


@dataclass(frozen=True, slots=True)
class RequestedProfile:
    """A profile request."""

    window: str
    """Window id."""
    description: str
    by: str
    state: str
    """``recorded``, ``refused``, ``taken``, ``cancelled`` or ``waiting``."""
    answers: tuple[str, ...]
    """Responses of the workers."""


def requested_profiles(run: Run) -> list[RequestedProfile]:
    """Return every profile request, made before the start or while the job ran, with its state."""
    recorded = set(run.profiles()["id"].to_pylist())
    profiles = [_requested_profile(window, "at the start", (), recorded) for window in run.manifest.profile]
    answers = read_acknowledgements(run.path)
    for request in read_requests(run.path):
        if isinstance(request, Profile):
            given, by = answers.get(request.id, ()), request.by or "unknown"
            if request.off and any(answer.answer.is_accepted for answer in given):
                profiles = [_cancelled(profile) for profile in profiles]
            profiles += [_requested_profile(window, by, given, recorded) for window in request.windows]
        elif isinstance(request, UnreadableRequest) and request.named == Profile.kind:
            profiles.append(RequestedProfile("", "invalid request", request.by or "unknown", "refused", ()))
    return profiles


def _cancelled(profile: RequestedProfile) -> RequestedProfile:
    return replace(profile, state="cancelled") if profile.state == "taken" else profile


def _requested_profile(
    window: ProfileWindow, by: str, given: Sequence[Acknowledgement], recorded: set[str]
) -> RequestedProfile:
    if window.id in recorded:
        state = "recorded"
    elif given:
        state = "refused" if all(answer.answer.state == "refused" for answer in given) else "taken"
    else:
        state = "waiting"
    answers = sorted(f"{answer.worker}: {answer.answer}" for answer in given)
    return RequestedProfile(window.id, window.describe(), by, state, tuple(answers))
