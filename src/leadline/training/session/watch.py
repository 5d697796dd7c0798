"""``leadline.watch()``: watching without a launcher, and what it gives back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from leadline.training.session import session


class WatchedRun(str):
    """The folder of the run that is watched: a path as any other, which a notebook shows as the verdict so far."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Watching({str(self)!r})"

    def _repr_html_(self) -> str:
        from leadline.training.session.run_html import verdict_html

        return verdict_html(str(self))


def watch(
    model: object = None,
    *,
    out: str | None = None,
    name: str | None = None,
    preset: str | None = None,
    capture: Sequence[str] = (),
    rules: Sequence[object] = (),
    on: Sequence[object] | Mapping[str, object] = (),
    profile: Sequence[str] = (),
    config: str | None = None,
    interval_ms: int | None = None,
    budget: str | None = None,
) -> WatchedRun | None:
    """Watch the trainings of this process, from here on: in a script or notebook, without a launcher.

    An agent and a judge are started beside the process; they end with it. Called again, it begins a new run and
    ends the one before. Under ``leadline run`` the launcher's run goes on and nothing else is started; where
    ``LEADLINE_RUN`` names a run, that one is joined, and made if it is not there yet; with ``LEADLINE_DISABLED=1``
    nothing happens.

    Args:
        model: The model that is trained, where there is one; models are found by their optimizers anyway.
        out: The folder below which runs stand; default ``./leadline-runs`` or ``$LEADLINE_ROOT``.
        name: The run's name; default: script and time.
        preset: ``light``, ``standard``, ``full`` or ``sagemaker``.
        capture: In the words of ``--capture``.
        rules: In the words of ``--rule``, or instances of rules whose classes stand in files of their own.
        on: In the words of ``--on``; instances of actions, which then follow every rule; or by ``RULE[@status]`` one
            or several of either: ``{"stall_mail": Notify(url="$MAIL"), "*": ["stop_training"]}``. Secrets stand as
            ``$NAME`` in either.
        config: A configuration file, or a run whose configuration is repeated; default ``./leadline.toml``.
        profile: In the words of ``--profile``.
        interval_ms: How often the machine is sampled.
        budget: The share of the step time that what preset and rules ask may take, ``2%``, or ``off``.
    Returns:
        The run's folder; None where nothing is watched.
    Raises:
        ConfigurationError: A wish is wrong; the message is the command line's.
    """
    if session.is_disabled():
        return None
    from leadline.config.instances import actions_in_words, in_words

    wishes = {
        "preset": preset,
        "capture": list(capture),
        "rules": [in_words(each) for each in rules],
        "on": actions_in_words(on),
        "config": config,
        "profile": list(profile),
        "interval_ms": interval_ms,
        "budget": budget,
    }
    if os.environ.get("LEADLINE_RUN"):
        return _watched(session.current() or session.join(wishes), model)
    from leadline.training.session.launch_agent import start_agent

    session.stop_current()
    return _watched(session.start(start_agent({**wishes, "out": out, "name": name})), model)


def _watched(found: session.Session | None, model: object) -> WatchedRun | None:
    if found is None:
        return None
    if model is not None:
        found.register(model)
    return WatchedRun(found.run)
