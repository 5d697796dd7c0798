"""The drawer of controls on every page of a run: what is asked of the job, and what became of it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from leadline.control import requests as asking
from leadline.control.added_rule import judged_by
from leadline.control.responses import follow, interval_ms, spoken_interval
from leadline.dashboard.charts import Chart
from leadline.dashboard.page import opened, render, site
from leadline.dashboard.rule_forms import parameter_words, rule_choices
from leadline.errors import ConfigurationError
from leadline.reader.run import Run
from leadline.records import request as record
from leadline.records.metric import INTERVALS_MS
from leadline.records.names import JOB_ENDED

_REASON: Final = "the dashboard"
_PYTHON: Final = {
    "cprofile:total": "cProfile, all time",
    "cprofile:cpu": "cProfile, processor time",
    "cprofile:off_cpu": "cProfile, time off the processor",
    "pyinstrument": "pyinstrument (samples)",
}


def controls(request: Request) -> Response:
    """``/runs/{run}/controls``: the drawer's content."""
    run = opened(request).run
    said = {
        "run": run,
        "uri": run.uri,
        "interval": spoken_interval(interval_ms(run)),
        "interval_ms": interval_ms(run),
        "intervals": {each: spoken_interval(each) for each in INTERVALS_MS},
        "python": _PYTHON,
        "is_over": run.status in JOB_ENDED,
        "rules": rule_choices(),
        "known": sorted(judged_by(run)),
        "requests": follow(run),
        "now_ns": time.time_ns(),
    }
    return render(request, "controls.html", said)


def ask_for(make: Callable[[Run, Mapping[str, str]], record.Request]) -> Callable[[Request], Any]:
    """A route that turns a form into a control request."""

    async def answer(request: Request) -> Response:
        words = read_form(await request.body())
        return await run_in_threadpool(_asked, request, words, make)

    return answer


def _asked(
    request: Request, words: Mapping[str, str], make: Callable[[Run, Mapping[str, str]], record.Request]
) -> Response:
    run = Run(site(request).shelf.path(request.path_params["run"]))
    try:
        asked = asking.ask(run, make(run, words))
    except ConfigurationError as error:
        raise HTTPException(400, str(error)) from error
    except OSError as error:
        raise HTTPException(409, f"the request cannot be written: {error.strerror}") from error
    return JSONResponse({"id": asked.id})


def read_form(body: bytes) -> dict[str, str]:
    """What a form says; a field that was left blank says nothing."""
    fields = parse_qsl(body.decode("utf-8", "replace"))
    return {key: value.strip() for key, value in fields if value.strip()}


def _interval(_: Run, words: Mapping[str, str]) -> record.Request:
    return asking.interval_request(words.get("interval_ms", ""), reason=_REASON, key="the interval")


def _profile(_: Run, words: Mapping[str, str]) -> record.Request:
    """Blank fields mean: from the next step on, one step."""
    if "step" in words and "time" in words:
        raise ConfigurationError("give a first step or a time, not both")
    if "steps" in words and "seconds" in words:
        raise ConfigurationError("give a number of steps or of seconds, not both")
    if not {"detailed", "python", "dataloader"} & set(words):
        raise ConfigurationError("choose what is to be recorded")
    request, _windows = asking.profile_request(
        at=words.get("step") or words.get("time"),
        length=words.get("steps") or (f"{words['seconds']}s" if "seconds" in words else None),
        is_detailed="detailed" in words,
        python=words.get("python"),
        has_loader="dataloader" in words,
        reason=_REASON,
    )
    return request


def _profile_off(_: Run, words: Mapping[str, str]) -> record.Request:
    return asking.profile_off_request(reason=_REASON)


def _rule(run: Run, words: Mapping[str, str]) -> record.Request:
    if words.get("rule") not in {each.name for each in rule_choices()}:
        raise ConfigurationError("choose a rule")  # of files and modules only a terminal may have code run
    if not re.fullmatch(r"[A-Za-z_][\w-]*", words.get("alias", "alias")):
        raise ConfigurationError("another name has letters, digits, '_' and '-' only")
    text = parameter_words(words["rule"], {key[2:]: value for key, value in words.items() if key.startswith("p.")})
    alias = f"{words['alias']}=" if "alias" in words else ""
    return asking.rule_request(f"{alias}{text}", run, reason=_REASON)


def _stop(_: Run, words: Mapping[str, str]) -> record.Request:
    try:
        grace = float(words.get("grace", asking.GRACE_SECONDS))
    except ValueError:
        raise ConfigurationError(f"the grace time must be a number of seconds, not {words['grace']!r}") from None
    return asking.stop_request(grace_seconds=grace, reason=_REASON)


_BASE: Final = "/runs/{run}/controls"
_DEEDS: Final = {
    "interval": _interval,
    "profile": _profile,
    "profile-off": _profile_off,
    "rule": _rule,
    "stop": _stop,
}
ROUTES: Final = [
    Route(_BASE, controls),
    *(Route(f"{_BASE}/{name}", ask_for(make), methods=["POST"]) for name, make in _DEEDS.items()),
]
CHARTS: Final[dict[str, Chart]] = {}
