"""The server: tools over the answers, by standard input and output or by HTTP."""

from __future__ import annotations

import functools
import socket
from collections.abc import Callable
from typing import Any, Final

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import ToolAnnotations

from leadline.control.requests import ask, settings_requests, stop_request
from leadline.control.responses import await_answers
from leadline.dashboard.security import Access, AccessMiddleware
from leadline.dashboard.server import call_after_start
from leadline.errors import ConfigurationError, LeadlineError
from leadline.mcp.answers import Answer, Answers, diagnose
from leadline.records import describe
from leadline.records.version import __version__
from leadline.rules.registry import grouped_rules

PATH: Final = "/mcp"
_PATIENCE_SECONDS: Final = 5.0
_INSTRUCTIONS: Final = """Leadline watches machine-learning trainings from inside and judges them by rules.
Begin with `runs`, then `why` for one of them: it names the cause, the first sign and what to try. A rule that is
undecided says nothing: its reason names what is missing. Steps are those that were captured. A training that ran
without Leadline is judged from its log by `diagnose`; to watch one, start it under `leadline run train.py`."""
_READS: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_CHANGES: Final = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)


def make_server(root: str, *, may_control: bool) -> MCPServer[Any]:
    """Return a server of the tools.

    Args:
        root: The runs directory.
        may_control: Whether there are tools that stop jobs and change their settings.
    """
    answers = Answers(root)
    server = MCPServer[Any]("leadline", version=__version__, instructions=_INSTRUCTIONS, log_level="ERROR")
    reading: list[Callable[..., Answer]] = [
        answers.runs,
        answers.why,
        answers.findings,
        answers.series,
        answers.tensors,
        answers.compare,
        answers.profile,
        diagnose,
    ]
    for function in reading:
        server.add_tool(_threaded(function), annotations=_READS, structured_output=True)
    if may_control:
        control = Control(answers)
        for function in (control.stop, control.set):
            server.add_tool(_threaded(function), annotations=_CHANGES, structured_output=True)

    @server.resource("leadline://runs/{name}", mime_type="application/json", description="The verdict of a run.")
    def verdict(name: str) -> Answer:
        return answers.why(name)

    return server


class Control:
    """The tools that change running jobs.

    Args:
        answers: Finds the runs.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def stop(self, run: str, reason: str) -> Answer:
        """Stop a running job at its next step, several workers at one step; the reason is kept in the run."""
        opened = self._answers.run(run)
        request = ask(opened, stop_request(reason=f"leadline mcp: {reason}"))
        return self._answered(opened, [request])

    def set(self, run: str, setting: str) -> Answer:
        """Change a setting of a running job: interval-ms=100, rule=NAME, rule=-NAME, capture=COLLECTION:every=500.

        Rules are built-in ones: code is not taken from here.
        """
        key, _, value = setting.partition("=")
        name = value.removeprefix("-").partition(":")[0].rpartition("=")[2]
        if key == "rule" and not value.startswith("-") and not any(name in names for names in grouped_rules().values()):
            raise ConfigurationError(f"{name!r} is no built-in rule")
        opened = self._answers.run(run)
        requests = settings_requests([setting], lambda: opened, reason="leadline mcp")
        return self._answered(opened, [ask(opened, request) for request in requests])

    def _answered(self, run: Any, requests: list[Any]) -> Answer:
        answers = await_answers(run, requests, _PATIENCE_SECONDS)
        described = [describe.response(answer) for request in requests for answer in answers[request.id]]
        return {
            "run": run.name,
            "requested": [describe.request(request) for request in requests],
            "answers": described or "none yet",
        }


def _threaded(function: Callable[..., Answer]) -> Callable[..., Any]:
    """Return a tool that runs in a thread, so that several are answered at once; its errors are one line."""

    @functools.wraps(function)
    async def tool(*args: Any, **kwargs: Any) -> Answer:
        try:
            return await anyio.to_thread.run_sync(functools.partial(function, *args, **kwargs))
        except LeadlineError as error:
            raise ToolError(str(error)) from None

    return tool


def serve_http(server: MCPServer[Any], listener: socket.socket, access: Access, on_start: Callable[[], None]) -> None:
    """Serve by HTTP until a signal arrives.

    Args:
        access: The token that clients must send, and the names of this machine.
        on_start: Called once the server answers.
    """
    settings = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # AccessMiddleware checks names
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=settings)
    config = uvicorn.Config(AccessMiddleware(app, access), log_level="critical", access_log=False, lifespan="on")
    http = uvicorn.Server(config)
    call_after_start(http, on_start)
    try:
        http.run(sockets=[listener])
    except KeyboardInterrupt:
        return  # uvicorn raises the signal again after shutdown
