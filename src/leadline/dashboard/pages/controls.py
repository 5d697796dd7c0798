"""Controls drawer of a run's pages: control requests and their status."""

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

from leadline.control import requests as control_requests
from leadline.control.requests import active_rules
from leadline.control.responses import interval_ms, request_statuses
from leadline.dashboard.page import open_run, render, site
from leadline.dashboard.rule_forms import rule_choices
from leadline.errors import ConfigurationError
from leadline.reader.run import Run
from leadline.records import describe
from leadline.records import request as records
from leadline.records.manifest import RuleSpec
from leadline.records.metric import INTERVALS_MS
from leadline.records.names import JOB_ENDED

_REASON: Final = "the dashboard"
_PYTHON: Final = {
    "cprofile:total": "cProfile, wall time",
    "cprofile:cpu": "cProfile, CPU time",
    "cprofile:off_cpu": "cProfile, off-CPU time",
    "pyinstrument": "pyinstrument (sampling)",
}


def controls(request: Request) -> Response:
    """Serve ``/runs/{run}/controls``: the content of the drawer."""
    run = open_run(request).run
    context = {
        "run": run,
        "uri": run.uri,
        "interval": describe.interval(interval_ms(run)),
        "interval_ms": interval_ms(run),
        "intervals": {interval: describe.interval(interval) for interval in INTERVALS_MS},
        "python": _PYTHON,
        "is_over": run.status in JOB_ENDED,
        "rules": rule_choices(),
        "active_rules": sorted(active_rules(run)),
        "requests": request_statuses(run),
        "now_ns": time.time_ns(),
    }
    return render(request, "controls.html", context)


def form_endpoint(make: Callable[[Run, Mapping[str, str]], records.ControlRequest]) -> Callable[[Request], Any]:
    """Return an endpoint that turns a form into a control request."""

    async def respond(request: Request) -> Response:
        fields = read_form(await request.body())
        return await run_in_threadpool(_submit, request, fields, make)

    return respond


def _submit(
    request: Request, fields: Mapping[str, str], make: Callable[[Run, Mapping[str, str]], records.ControlRequest]
) -> Response:
    run = Run(site(request).run_cache.path(request.path_params["run"]))
    try:
        submitted = control_requests.ask(run, make(run, fields))
    except ConfigurationError as error:
        raise HTTPException(400, str(error)) from error
    except OSError as error:
        raise HTTPException(409, f"the request cannot be written: {error.strerror}") from error
    return JSONResponse({"id": submitted.id})


def read_form(body: bytes) -> dict[str, str]:
    """Parse a form; blank fields are omitted."""
    pairs = parse_qsl(body.decode("utf-8", "replace"))
    return {key: value.strip() for key, value in pairs if value.strip()}


def _interval(_: Run, fields: Mapping[str, str]) -> records.ControlRequest:
    return control_requests.interval_request(fields.get("interval_ms", ""), reason=_REASON, key="the interval")


def _profile(_: Run, fields: Mapping[str, str]) -> records.ControlRequest:
    """Build a profile request; blank fields mean one step, starting at the next."""
    if "step" in fields and "time" in fields:
        raise ConfigurationError("give a first step or a time, not both")
    if "steps" in fields and "seconds" in fields:
        raise ConfigurationError("give a number of steps or of seconds, not both")
    if not {"detailed", "python", "dataloader"} & set(fields):
        raise ConfigurationError("choose what to record")
    return control_requests.profile_request(
        at=fields.get("step") or fields.get("time"),
        length=fields.get("steps") or (f"{fields['seconds']}s" if "seconds" in fields else None),
        is_detailed="detailed" in fields,
        python=fields.get("python"),
        has_loader="dataloader" in fields,
        reason=_REASON,
    )


def _profile_off(_: Run, fields: Mapping[str, str]) -> records.ControlRequest:
    return control_requests.profile_off_request(reason=_REASON)


def _rule(run: Run, fields: Mapping[str, str]) -> records.ControlRequest:
    if fields.get("rule") not in {rule.name for rule in rule_choices()}:
        raise ConfigurationError("choose a rule")  # rules from files and modules are accepted only in a terminal
    if not re.fullmatch(r"[A-Za-z_][\w-]*", fields.get("alias", "alias")):
        raise ConfigurationError("the alias may contain only letters, digits, '_' and '-'")
    parameters = {key.removeprefix("p."): value for key, value in fields.items() if key.startswith("p.")}
    rule = RuleSpec(fields.get("alias", ""), fields["rule"], parameters, source="option")
    return control_requests.rule_request(rule, run, reason=_REASON)


def _stop(_: Run, fields: Mapping[str, str]) -> records.ControlRequest:
    try:
        grace = float(fields.get("grace", control_requests.GRACE_SECONDS))
    except ValueError:
        raise ConfigurationError(f"the grace time must be a number of seconds, not {fields['grace']!r}") from None
    return control_requests.stop_request(grace_seconds=grace, reason=_REASON)


REQUESTS: Final = {
    "interval": _interval,
    "profile": _profile,
    "profile-off": _profile_off,
    "rule": _rule,
    "stop": _stop,
}
"""Request of each form, by the last part of its address."""
