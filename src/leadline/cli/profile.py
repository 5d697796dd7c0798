"""``leadline profile``: profile a few steps of a running job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import typer

import leadline
from leadline.cli.arguments import RunArgument
from leadline.cli.console import console
from leadline.control.requests import ask, profile_off_request, profile_request
from leadline.control.responses import await_answers
from leadline.errors import ConfigurationError
from leadline.records import describe
from leadline.records.profile_window import ProfileWindow
from leadline.records.request import Acknowledgement

_PATIENCE_SECONDS: Final = 10.0
_REASON: Final = "leadline profile"


def profile(
    run: RunArgument = None,
    at: Annotated[
        str | None, typer.Option(help="Step (120), time after the start (90s) or ISO time; default: the next step.")
    ] = None,
    length: Annotated[str | None, typer.Option("--for", help="Steps (2) or time (10s); default: one step.")] = None,
    detailed: Annotated[
        bool, typer.Option("--detailed", help="Every operator call, with module and phase (the default).")
    ] = False,
    python: Annotated[
        str | None, typer.Option(help="Python functions: cprofile[:total|cpu|off_cpu] or pyinstrument.")
    ] = None,
    dataloader: Annotated[bool, typer.Option("--dataloader", help="Activity of the data loader's workers.")] = False,
    off: Annotated[bool, typer.Option("--off", help="End open profile windows and cancel pending ones.")] = False,
) -> int:
    """Profile a few steps of a running job.

    Records operators, Python functions or data loading, and waits until the workers have answered. Profilers that
    would measure each other run one after the other.
    """
    if off and (at or length or detailed or python or dataloader):
        raise ConfigurationError("--off cannot be combined with other options")
    request = profile_request(
        at=at, length=length, is_detailed=detailed, python=python, has_loader=dataloader, reason=_REASON
    )
    if off:
        request = profile_off_request(reason=_REASON)
    opened = leadline.open_run(run)
    ask(opened, request)
    return _report(await_answers(opened, [request], _PATIENCE_SECONDS)[request.id], request.windows)


def _report(answers: Sequence[Acknowledgement], windows: Iterable[ProfileWindow]) -> int:
    """Print the answers; return the exit status."""
    for answer in answers:
        console().print(describe.response(answer), markup=False, highlight=False, soft_wrap=True)
    if not answers:
        pending = "; ".join(window.describe() for window in windows) or "end all profile windows"
        console().print(
            f"no worker reached a step boundary within {_PATIENCE_SECONDS:g} s; pending: {pending}", soft_wrap=True
        )
    return 0 if answers and not any(answer.answer.state == "refused" for answer in answers) else 1
