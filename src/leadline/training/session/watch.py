"""``leadline.watch()``: capture without a launcher."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from leadline.errors import RunNotWritableError
from leadline.training.session import api
from leadline.training.session.session import Session

if TYPE_CHECKING:
    from leadline.config.run_config import RunConfig


class WatchedRun(str):
    """The directory of the run: a path that a notebook displays as the verdict, live while it trains."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"WatchedRun({str(self)!r})"

    def _repr_html_(self) -> str:
        from leadline.store.run_html import verdict_html

        return verdict_html(str(self))

    def _ipython_display_(self) -> None:
        from leadline.store.live_display import display_live

        display_live(str(self), repr(self))


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
    """Capture and judge the trainings of this process from now on: in a script or notebook, without a launcher.

    An agent and a judge are started beside the process; they end with it. A further call begins a new run and ends
    the previous one. Under ``leadline run`` the launcher's run continues and nothing else is started; if
    ``LEADLINE_RUN`` names a run, that run is joined, and created if it does not exist yet; with
    ``LEADLINE_DISABLED=1`` nothing happens.

    Args:
        model: The model that is trained, if there is one; models are found through their optimizers anyway.
        out: The runs directory; default ``./leadline-runs`` or ``$LEADLINE_ROOT``.
        name: The name of the run; default: script and time.
        preset: ``light``, ``standard``, ``full`` or ``sagemaker``.
        capture: Capture options, as for ``--capture``.
        rules: Rule options, as for ``--rule``, or instances of rules whose classes are defined in files of their own.
        on: Action options, as for ``--on``; instances of actions, which then follow every rule; or one or several of
            either by ``RULE[@status]``: ``{"stall_mail": Notify(url="$MAIL"), "*": ["stop_training"]}``. Secrets are
            written as ``$NAME`` in either.
        config: A configuration file, or a run whose configuration is repeated; default ``./leadline.toml``.
        profile: Profile options, as for ``--profile``.
        interval_ms: The sampling interval of system metrics.
        budget: The maximum overhead as a share of the step time, or ``off``; default ``2%``, ``light`` ``1%``.
    Returns:
        The run directory; None if nothing is captured, for example because the run cannot be written there: a line on
        standard error says so, and the training continues.
    Raises:
        ConfigurationError: An option is invalid; the message is that of the command line.
    """
    if api.is_disabled():
        return None
    from leadline.config.run_config import RunConfig

    options = RunConfig.from_options(
        preset=preset,
        capture=capture,
        rules=rules,
        on=on,
        config=config,
        profile=profile,
        interval_ms=interval_ms,
        budget=budget,
    )
    try:
        return _watched_run(_start(replace(options, out=out, name=name)), model)
    except RunNotWritableError as error:
        api.report_disabled(str(error))
        return None


def _start(config: RunConfig) -> Session | None:
    if os.environ.get("LEADLINE_RUN"):
        return api.current() or api.join(config)
    from leadline.training.session.launch_agent import start_agent

    api.stop_current()
    return api.start(start_agent(config))


def _watched_run(session: Session | None, model: object) -> WatchedRun | None:
    if session is None:
        return None
    if model is not None:
        session.register(model)
    return WatchedRun(session.run)
