"""``leadline serve``: accept training jobs by SageMaker's API, and run them on this machine."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from typing import Final

import typer

from leadline.cli.console import console
from leadline.cli.serve_options import (
    PORT,
    BucketOption,
    CpusOption,
    EmailOption,
    EngineOption,
    EnvOption,
    FolderOption,
    GpusOption,
    HostOption,
    KeysOption,
    NoTokenOption,
    PortOption,
    RegionOption,
    S3EndpointOption,
    SlotsOption,
    SmsOption,
    WebhookOption,
)
from leadline.config.secrets import refuse_literal
from leadline.errors import ConfigurationError, MissingExtraError

_ACCOUNT: Final = "000000000000"
_REGION: Final = "us-east-1"


def serve(
    folder: FolderOption = "./leadline-serve",
    host: HostOption = "127.0.0.1",
    port: PortOption = PORT,
    keys: KeysOption = None,
    engine: EngineOption = "local",
    gpus: GpusOption = 0.0,
    cpus: CpusOption = 1.0,
    slots: SlotsOption = 1,
    region: RegionOption = None,
    s3_endpoint: S3EndpointOption = None,
    email: EmailOption = None,
    sms: SmsOption = None,
    webhook: WebhookOption = None,
    bucket: BucketOption = None,
    no_token: NoTokenOption = False,
    env: EnvOption = False,
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
    region = _checked_region(region or os.environ.get("AWS_DEFAULT_REGION") or _REGION)
    targets = notification_targets({"email": email, "sms": sms})
    ray = None if engine == "local" else {"num_cpus": cpus, "num_gpus": gpus}
    if ray is not None and find_spec("ray") is None:
        raise MissingExtraError("--engine ray needs Ray; install it with: pip install 'leadline[ray,server]'")
    settings = ServerSettings(os.path.abspath(os.path.expanduser(folder)), slots, region, _ACCOUNT, targets, ray)
    has_token = keys is None and not no_token
    if env:
        address = f"http://{host}:{port}" + (f"/{server_token(settings.folder)}" if has_token else "")
        bucket = bucket or default_bucket(settings)
        typer.echo(client_environment(settings, address, keys=keys, bucket=bucket, s3=s3_endpoint))
        return
    pairs = key_pairs(host, keys)
    if webhook is not None:
        refuse_literal({"url": webhook}, "--webhook")
    events = None if webhook is None else StateEvents(webhook, settings, os.environ)
    if s3_endpoint is not None:
        os.environ["AWS_ENDPOINT_URL_S3"] = s3_endpoint
    access = Access(host, server_token(settings.folder) if has_token else None)
    listener = bind(host, port)
    run_server(settings, listener, access, pairs, events, lambda: _print_address(host, listener.getsockname()[1]))


def _checked_region(region: str) -> str:
    if not re.fullmatch(r"[a-z0-9-]+", region):
        raise ConfigurationError(f"--region {region!r}: a region is a name like us-east-1")
    return region


def _print_address(host: str, port: int) -> None:
    name = f"[{host}]" if ":" in host else host
    line = f"leadline  http://{name}:{port}   (press Ctrl-C to quit; leadline serve --env)"
    console().print(line, markup=False, highlight=False, soft_wrap=True)
