"""Whether the host of a target answers, asked before the training starts."""

from __future__ import annotations

import socket
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from leadline.errors import ConfigurationError

_PORTS: Final = {"http": 80, "https": 443}


def check_reachable(host: str, port: int, timeout: float = 5.0, *, scheme: str = "") -> None:
    """Open a connection and close it again; nothing is sent.

    Args:
        timeout: Seconds that the connection may take.
        scheme: ``http`` or ``https`` where it is spoken: the proxy that the environment names is asked instead.
    Raises:
        ConfigurationError: Nobody answers there; the message says how to start all the same.
    """
    proxy = _proxy(host, scheme)
    place = proxy or (host, port)
    try:
        socket.create_connection(place, timeout).close()
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(
            f"{_spoken(*place)}{' (the proxy)' if proxy else ''} cannot be reached: {_why(error, timeout)}; "
            "correct the target, or start all the same with probe=false"
        ) from None


def _proxy(host: str, scheme: str) -> tuple[str, int] | None:
    found = getproxies().get(scheme, "")
    if not found or proxy_bypass(host):
        return None
    parts = urlsplit(found if "://" in found else f"//{found}")
    return (parts.hostname, parts.port or _PORTS.get(parts.scheme, 80)) if parts.hostname else None


def _spoken(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _why(error: Exception, timeout: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout:g} s"
    if isinstance(error, socket.gaierror):
        return "no such host is known"
    if isinstance(error, UnicodeError):
        return "that is no name of a host"
    return (getattr(error, "strerror", None) or str(error)).lower()
