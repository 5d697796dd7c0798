"""``leadline profile``: look at a few steps of a running job in depth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import typer

import leadline
from leadline.cli.console import console
from leadline.control.requests import ask, profile_off_request, profile_request
from leadline.control.responses import await_answers
from leadline.errors import ConfigurationError
from leadline.records.profile_window import ProfileWindow
from leadline.records.request import Acknowledgement

_PATIENCE_SECONDS: Final = 10.0
_REASON: Final = "leadline profile"


def profile(
    run: Annotated[str | None, typer.Argument(help="A run's name or path; default: the latest.")] = None,
    at: Annotated[
        str | None, typer.Option(help="Step (120), time after the start (90s) or ISO time; default: the next step.")
    ] = None,
    length: Annotated[str | None, typer.Option("--for", help="Steps (2) or time (10s); default: one step.")] = None,
    detailed: Annotated[
        bool, typer.Option("--detailed", help="Every operator call, with module and phase. The default.")
    ] = False,
    python: Annotated[
        str | None, typer.Option(help="Python functions: cprofile[:total|cpu|off_cpu] or pyinstrument.")
    ] = None,
    dataloader: Annotated[bool, typer.Option("--dataloader", help="What the data loader's workers do.")] = False,
    off: Annotated[
        bool, typer.Option("--off", help="End the windows that are open, and forget those asked for.")
    ] = False,
) -> int:
    """Look at a few steps of a running job in depth: operators, Python functions, data loading.

    Waits until the workers have answered. What would measure each other runs one after the other.
    """
    if off and (at or length or detailed or python or dataloader):
        raise ConfigurationError("--off goes with no other option")
    request, windows = profile_request(
        at=at, length=length, is_detailed=detailed, python=python, has_loader=dataloader, reason=_REASON
    )
    if off:
        request, windows = profile_off_request(reason=_REASON), ()
    found = leadline.open_run(run)
    ask(found, request)
    return _say(await_answers(found, [request], _PATIENCE_SECONDS)[request.id], windows)


def _say(answers: Sequence[Acknowledgement], windows: Iterable[ProfileWindow]) -> int:
    for each in answers:
        console().print(f"{each.worker}: {each.outcome}", markup=False, highlight=False, soft_wrap=True)
    if not answers:
        asked = "; ".join(each.spoken() for each in windows) or "to end all windows"
        console().print(
            f"no worker has reached a step boundary within {_PATIENCE_SECONDS:g} s; asked: {asked}", soft_wrap=True
        )
    return 0 if answers and not any(each.outcome.startswith("refused") for each in answers) else 1
