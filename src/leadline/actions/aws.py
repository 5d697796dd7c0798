"""Clients for Amazon's services, and the translation of their errors."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from leadline.actions.action import RejectedError, RetryLaterError
from leadline.actions.http_client import PORTS
from leadline.errors import ConfigurationError, MissingExtraError

_TRANSIENT_CODES: Final = (
    "Throttl",
    "TooManyRequests",
    "RequestLimitExceeded",
    "RequestTimeout",
    "RequestExpired",
    "ExpiredToken",
    "Internal",
    "ServiceUnavailable",
)
"""Parts of the error codes after which a retry may succeed."""


def make_client(service: str, *, action: str, region: str, endpoint: str, seconds: float) -> Any:
    """Create a client that makes one attempt per call; retries are left to the action's policy.

    Args:
        service: The name of the service in boto3.
        action: The name of the action, for error messages.
        region: The region; empty: that of the environment or the profile.
        endpoint: An endpoint other than Amazon's own; empty: Amazon's.
        seconds: The time limit of one call.
    Raises:
        MissingExtraError: boto3 is not installed.
        ConfigurationError: No region is known, the profile does not exist, or the endpoint is not a URL.
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
        raise ConfigurationError(f"{action}: the AWS region is unknown; add for example region=eu-central-1") from None
    except ValueError:
        raise ConfigurationError(f"{action}: endpoint is not a URL; write https://host or leave it out") from None
    except BotoCoreError as error:
        raise _profile_error(action, error) from None


def check_credentials(action: str) -> None:
    """Refuse to start without credentials, which are searched where boto3 searches.

    Raises:
        ConfigurationError: There are no credentials.
    """
    from boto3.session import Session
    from botocore.exceptions import BotoCoreError

    try:
        credentials = Session().get_credentials()
    except BotoCoreError as error:
        raise _profile_error(action, error) from None
    if credentials is None:
        raise ConfigurationError(
            f"{action}: no AWS credentials; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )


def _profile_error(action: str, error: Exception) -> ConfigurationError:
    return ConfigurationError(f"{action}: {type(error).__name__}; see the AWS profile in use")


def endpoint_address(client: Any) -> tuple[str, int, str]:
    """Return host, port and scheme of the endpoint of a client."""
    parts = urlsplit(client.meta.endpoint_url)
    return parts.hostname or "", parts.port or PORTS[parts.scheme], parts.scheme


def translate_error(service: str, error: Exception) -> Exception:
    """Translate an error of botocore to one that says whether a retry may succeed; its text may contain secrets."""
    from botocore.exceptions import ClientError, NoCredentialsError

    if isinstance(error, NoCredentialsError):
        return RejectedError(f"{service}: no AWS credentials")
    if not isinstance(error, ClientError):
        return RetryLaterError(f"{service}: {type(error).__name__}")
    details = error.response.get("Error", {})
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500))
    return error_for_code(service, str(details.get("Code")), is_transient=status >= 500)


def error_for_code(service: str, code: str, *, is_transient: bool = False) -> Exception:
    """Return the error for an error code, which says whether a retry may succeed."""
    text = f"{service} answered {code}"
    is_transient = is_transient or any(part in code for part in _TRANSIENT_CODES)
    return RetryLaterError(text) if is_transient else RejectedError(text)
