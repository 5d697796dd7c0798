"""What ``leadline serve --env`` prints: the environment of clients, and the defaults of SDK v2."""

from __future__ import annotations

import os
from typing import Final

from leadline.serve.identity_operations import role_arn
from leadline.serve.job_queue import ServerSettings
from leadline.store.documents import make_folder, replace_file

_SERVICES: Final = ("SAGEMAKER", "CLOUDWATCH_LOGS", "STS", "IAM", "SNS")
_DEFAULTS_FILE: Final = "sagemaker.yaml"
_ANY_KEY: Final = "leadline"


def default_bucket(settings: ServerSettings) -> str:
    """Return the name that SDK v2 gives its bucket."""
    return f"sagemaker-{settings.region}-{settings.account}"


def sdk_defaults(settings: ServerSettings, bucket: str) -> str:
    """Return the defaults of SDK v2, in YAML: role and bucket, without which it asks AWS, and no telemetry."""
    return (
        "SchemaVersion: '1.0'\n"
        "SageMaker:\n"
        "  PythonSDK:\n"
        "    Modules:\n"
        "      TelemetryOptOut: true\n"
        f"      Session: {{DefaultS3Bucket: {bucket}}}\n"
        f"  TrainingJob: {{RoleArn: '{role_arn(settings.account)}'}}\n"
    )


def client_environment(settings: ServerSettings, address: str, *, keys: str | None, bucket: str, s3: str | None) -> str:
    """Write the defaults of SDK v2 to a file in the server's folder; return lines for a shell.

    Args:
        address: The URL of the server.
        keys: The file with the key pairs of the server.
        bucket: The default bucket of SDK v2.
        s3: The URL of the S3 server; None: that of AWS, or what the environment names.
    Raises:
        OSError: The file could not be written.
    """
    make_folder(settings.folder)
    path = os.path.join(settings.folder, _DEFAULTS_FILE)
    defaults = sdk_defaults(settings, bucket)
    with replace_file(path) as file:
        file.write(defaults.encode())
    variables = {f"AWS_ENDPOINT_URL_{service}": address for service in _SERVICES}
    variables |= {"AWS_DEFAULT_REGION": settings.region, "SAGEMAKER_USER_CONFIG_OVERRIDE": path}
    variables |= {"AWS_ENDPOINT_URL_S3": s3} if s3 else {}
    variables |= {"AWS_SHARED_CREDENTIALS_FILE": os.path.abspath(keys)} if keys else {}
    lines = [f"# {path}:", *(f"#   {line}" for line in defaults.splitlines())]
    lines += [f"export {name}={_quoted(value)}" for name, value in variables.items()]
    if keys is None:  # boto3 signs each request, with any key
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        lines += [f'export {name}="${{{name}:-{_ANY_KEY}}}"' for name in names]
    return "\n".join(lines)


def _quoted(value: str) -> str:
    from shlex import quote

    return quote(value)
