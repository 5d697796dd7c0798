"""The options of ``leadline serve``."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import typer

PORT: Final = 5156

FolderOption = Annotated[str, typer.Option(help="Folder of the server: its state, the jobs and their runs.")]
HostOption = Annotated[str, typer.Option(help="Address to listen on; one that other machines can reach needs --keys.")]
PortOption = Annotated[int, typer.Option(help="Port to listen on; 0: any free port.")]
KeysOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Key pairs of clients, as in ~/.aws/credentials: every request must be signed by one."
    ),
]
EngineOption = Annotated[
    Literal["local", "ray"],
    typer.Option(help="Where jobs run: on this machine, or the cluster of $RAY_ADDRESS."),
]
GpusOption = Annotated[float, typer.Option(min=0, help="GPUs that Ray reserves for each instance of a job.")]
CpusOption = Annotated[float, typer.Option(min=0, help="CPUs that Ray reserves for each instance of a job.")]
SlotsOption = Annotated[int, typer.Option(min=1, help="How many jobs run at a time; others wait.")]
RegionOption = Annotated[str | None, typer.Option(help="Region in ARNs; default: $AWS_DEFAULT_REGION or us-east-1.")]
S3EndpointOption = Annotated[
    str | None, typer.Option(metavar="URL", help="S3 server; default: that of the environment, or AWS.")
]
EmailOption = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Target of notify for the action Email, with {address} for the recipient."),
]
SmsOption = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Target of notify for the action SMS, with {address} for the number."),
]
WebhookOption = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Post an event, as EventBridge does, when a job or rule changes its status."),
]
BucketOption = Annotated[
    str | None, typer.Option(help="With --env: default bucket of the SageMaker SDK; default: as the SDK names it.")
]
NoTokenOption = Annotated[
    bool, typer.Option("--no-token", help="Without --keys: let every user of this machine run jobs as you.")
]
EnvOption = Annotated[
    bool, typer.Option("--env", help="Print the environment for boto3 and the SageMaker SDK v2, and exit.")
]
