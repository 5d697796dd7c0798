"""Clients of Amazon's services, and what their errors mean for a next try."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from leadline.actions.action import RejectedError, RetryLaterError
from leadline.errors import ConfigurationError, MissingExtraError

_PASSING_CODES: Final = (
    "Throttl",
    "TooManyRequests",
    "RequestLimitExceeded",
    "RequestTimeout",
    "RequestExpired",
    "ExpiredToken",
    "Internal",
    "ServiceUnavailable",
)
"""What an error's code contains that a later try may not meet."""
_PORTS: Final = {"http": 80, "https": 443}


def make_client(service: str, *, action: str, region: str, endpoint: str, seconds: float) -> Any:
    """A client that tries once; trying again is the courier's.

    Args:
        service: As boto3 names it.
        action: In whose name errors speak.
        region: Empty: the one of the environment or the profile.
        endpoint: Another address than Amazon's own; empty: that.
        seconds: How long one call may take.
    Raises:
        MissingExtraError: boto3 is not installed.
        ConfigurationError: No region is known, the profile does not exist, or the endpoint is no URL.
    """
    try:
        from boto3.session import Session
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, NoRegionError
    except ImportError:
        raise MissingExtraError(f"{action} needs boto3: pip install 'leadline[aws]'") from None
    limits = Config(connect_timeout=seconds / 2, read_timeout=seconds / 2, retries={"total_max_attempts": 1})
    try:
        return Session(region_name=region or None).client(service, endpoint_url=endpoint or None, config=limits)
    except NoRegionError:
        raise ConfigurationError(f"{action}: in which region? add region=eu-central-1") from None
    except ValueError:
        raise ConfigurationError(f"{action}: endpoint is no URL; write https://host or leave it out") from None
    except BotoCoreError as error:
        raise ConfigurationError(f"{action}: {error}; see the AWS profile in use") from None


def check_credentials(action: str) -> None:
    """Refuse to start where there is nothing to sign with; it is looked for where boto3 looks.

    Raises:
        ConfigurationError: There are no credentials.
    """
    from boto3.session import Session
    from botocore.exceptions import BotoCoreError

    try:
        found = Session().get_credentials()
    except BotoCoreError as error:
        raise ConfigurationError(f"{action}: {error}; see the AWS profile in use") from None
    if found is None:
        raise ConfigurationError(
            f"{action}: no AWS credentials; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )


def place(client: Any) -> tuple[str, int, str]:
    """Host, port and scheme of what a client speaks with."""
    parts = urlsplit(client.meta.endpoint_url)
    return parts.hostname or "", parts.port or _PORTS[parts.scheme], parts.scheme


def failure(service: str, error: Exception) -> Exception:
    """What an error of botocore means: refused for good, or not."""
    from botocore.exceptions import ClientError, NoCredentialsError

    if isinstance(error, NoCredentialsError):
        return RejectedError(f"{service}: {error}")
    if not isinstance(error, ClientError):
        return RetryLaterError(f"{service}: {error}")
    said = error.response.get("Error", {})
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500))
    return answered(service, str(said.get("Code")), str(said.get("Message")), is_passing=status >= 500)


def answered(service: str, code: str, message: str, *, is_passing: bool = False) -> Exception:
    """What an error's code means: refused for good, or not."""
    told = f"{service} answered {code}: {' '.join(message.split())}"
    return RetryLaterError(told) if is_passing or any(each in code for each in _PASSING_CODES) else RejectedError(told)
