"""A check of whether the host of a target answers, made before the training starts."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from leadline.actions.http_client import PORTS, reason_of
from leadline.errors import ConfigurationError


def check_reachable(host: str, port: int, timeout: float = 5.0, *, scheme: str = "") -> None:
    """Open a connection and close it again, without sending anything.

    Args:
        timeout: The time limit in seconds.
        scheme: ``http`` or ``https`` if that is the protocol: the proxy of the environment is checked instead.
    Raises:
        ConfigurationError: The host does not answer; the message says how to start anyway.
    """
    proxy = _proxy(host, scheme)
    address = proxy or (host, port)
    try:
        socket.create_connection(address, timeout).close()
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(
            f"{_format_address(*address)}{' (the proxy)' if proxy else ''} cannot be reached: {_why(error, timeout)}; "
            "correct the target, or start anyway with probe=false"
        ) from None


def _proxy(host: str, scheme: str) -> tuple[str, int] | None:
    proxy = getproxies().get(scheme, "")
    if not proxy or proxy_bypass(host):
        return None
    parts = urlsplit(proxy if "://" in proxy else f"//{proxy}")
    return (parts.hostname, parts.port or PORTS.get(parts.scheme, 80)) if parts.hostname else None


def _format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _why(error: Exception, timeout: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout:g} s"
    if isinstance(error, socket.gaierror):
        return "unknown host"
    if isinstance(error, UnicodeError):
        return "not a valid host name"
    return reason_of(error)
