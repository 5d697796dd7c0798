"""``leadline serve``: accept training jobs by SageMaker's API, and run them on this machine."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from typing import Annotated, Final, Literal

import typer

from leadline.cli.console import console
from leadline.config.secrets import refuse_literal
from leadline.errors import ConfigurationError, MissingExtraError

PORT: Final = 5156
_ACCOUNT: Final = "000000000000"
_REGION: Final = "us-east-1"


def serve(
    folder: Annotated[
        str, typer.Option(help="Folder of the server: its state, the jobs and their runs.")
    ] = "./leadline-serve",
    host: Annotated[
        str, typer.Option(help="Address to listen on; one that other machines can reach needs --keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any free port.")] = PORT,
    keys: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Key pairs of clients, as in ~/.aws/credentials: every request must be signed by one."
        ),
    ] = None,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="Where jobs run: on this machine, or the cluster of $RAY_ADDRESS."),
    ] = "local",
    gpus: Annotated[float, typer.Option(min=0, help="GPUs that Ray reserves for each instance of a job.")] = 0.0,
    cpus: Annotated[float, typer.Option(min=0, help="CPUs that Ray reserves for each instance of a job.")] = 1.0,
    slots: Annotated[int, typer.Option(min=1, help="How many jobs run at a time; others wait.")] = 1,
    region: Annotated[
        str | None, typer.Option(help="Region in ARNs; default: $AWS_DEFAULT_REGION or us-east-1.")
    ] = None,
    s3_endpoint: Annotated[
        str | None, typer.Option(metavar="URL", help="S3 server; default: that of the environment, or AWS.")
    ] = None,
    email: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Target of notify for the action Email, with {address} for the recipient."),
    ] = None,
    sms: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Target of notify for the action SMS, with {address} for the number."),
    ] = None,
    webhook: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Post an event, as EventBridge does, when a job or rule changes its status."),
    ] = None,
    bucket: Annotated[
        str | None, typer.Option(help="With --env: default bucket of the SageMaker SDK; default: as the SDK names it.")
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Without --keys: let every user of this machine run jobs as you.")
    ] = False,
    env: Annotated[
        bool, typer.Option("--env", help="Print the environment for boto3 and the SageMaker SDK v2, and exit.")
    ] = False,
) -> None:
    """Run training jobs that clients create by SageMaker's API.

    Each job runs on this machine under leadline run: the code that a client sent, as the user who started the server.
    """
    try:
        from leadline.dashboard.security import Access
        from leadline.dashboard.server import bind
        from leadline.serve.client_environment import client_environment, default_bucket
        from leadline.serve.job_queue import ServerSettings
        from leadline.serve.server import key_pairs, notification_targets
        from leadline.serve.server import serve as run_server
        from leadline.serve.server_token import server_token
        from leadline.serve.state_events import StateEvents
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"leadline serve needs {error.name}; install it with: pip install 'leadline[server]'"
        ) from error
    region = region or os.environ.get("AWS_DEFAULT_REGION") or _REGION
    if not re.fullmatch(r"[a-z0-9-]+", region):
        raise ConfigurationError(f"--region {region!r}: a region is a name like us-east-1")
    targets = notification_targets({"email": email, "sms": sms})
    ray = None if engine == "local" else {"num_cpus": cpus, "num_gpus": gpus}
    if ray is not None and find_spec("ray") is None:
        raise MissingExtraError("--engine ray needs Ray; install it with: pip install 'leadline[ray,server]'")
    settings = ServerSettings(os.path.abspath(os.path.expanduser(folder)), slots, region, _ACCOUNT, targets, ray)
    has_token = keys is None and not no_token
    if env:
        address = f"http://{host}:{port}" + (f"/{server_token(settings.folder)}" if has_token else "")
        lines = client_environment(
            settings, address, keys=keys, bucket=bucket or default_bucket(settings), s3=s3_endpoint
        )
        typer.echo(lines)
        return
    pairs = key_pairs(host, keys)
    if webhook is not None:
        refuse_literal({"url": webhook}, "--webhook")
    events = None if webhook is None else StateEvents(webhook, settings, os.environ)
    if s3_endpoint is not None:
        os.environ["AWS_ENDPOINT_URL_S3"] = s3_endpoint
    access = Access(host, server_token(settings.folder) if has_token else None)
    listener = bind(host, port)
    name = f"[{host}]" if ":" in host else host
    line = f"leadline  http://{name}:{listener.getsockname()[1]}   (press Ctrl-C to quit; leadline serve --env)"

    def print_address() -> None:
        console().print(line, markup=False, highlight=False, soft_wrap=True)

    run_server(settings, listener, access, pairs, events, print_address)
