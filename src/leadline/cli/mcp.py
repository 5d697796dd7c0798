"""``leadline mcp``: runs as tools for agents."""

from __future__ import annotations

import os
import socket
from typing import Annotated

import typer

from leadline.cli.console import console
from leadline.config.run_config import runs_root
from leadline.errors import ConfigurationError, MissingExtraError


def mcp(
    root: Annotated[
        str | None, typer.Argument(help="Runs directory; default: $LEADLINE_ROOT or ./leadline-runs.")
    ] = None,
    allow_control: Annotated[
        bool, typer.Option("--allow-control", help="Also let the agent stop jobs and change their settings.")
    ] = False,
    http: Annotated[
        int | None, typer.Option(help="Serve by HTTP on this port of 127.0.0.1; 0: any free port.", show_default=False)
    ] = None,
) -> None:
    """Serve runs to coding agents (Model Context Protocol).

    The agent starts it, and speaks with it by standard input and output; with --http it needs the token that is
    printed, or $LEADLINE_TOKEN if it is set, as a bearer.
    """
    try:
        from leadline.dashboard.security import make_access
        from leadline.dashboard.server import bind
        from leadline.mcp.server import PATH, make_server, serve_http
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"leadline mcp needs {error.name}; install it with: pip install 'leadline[mcp]'"
        ) from error
    folder = runs_root(root)
    if root is not None and not os.path.isdir(folder):
        raise ConfigurationError(f"no such folder: {root}")
    server = make_server(folder, may_control=allow_control)
    if http is None:
        server.run("stdio")
        return
    given = os.environ.get("LEADLINE_TOKEN")
    access = make_access("127.0.0.1", token=given, needs_token=True, is_read_only=False, names={socket.gethostname()})
    listener = bind("127.0.0.1", http)
    token = "" if given else f"   Authorization: Bearer {access.token}"
    line = f"leadline  http://127.0.0.1:{listener.getsockname()[1]}{PATH}{token}   (press Ctrl-C to quit)"

    def print_address() -> None:
        console().print(line, markup=False, highlight=False, soft_wrap=True)

    serve_http(server, listener, access, print_address)
