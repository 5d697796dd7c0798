"""URIs of object stores, as given to ``--out`` and in place of a run."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from leadline.errors import ConfigurationError

SCHEMES: Final = ("s3", "gs", "az")
_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def is_uri(text: str) -> bool:
    """Return whether a text is a URI and not a path."""
    return _URI.match(text) is not None


def parse_place(text: str) -> str:
    """Return a path unchanged, a ``file://`` URI as a path, and the URI of an object store without trailing slashes.

    Raises:
        ConfigurationError: The URI has another scheme, no bucket, or contains credentials or options.
    """
    if not is_uri(text):
        return text
    parts = urlsplit(text)
    if parts.username is not None or parts.query or parts.fragment:
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        raise ConfigurationError(
            f"{shown}: only bucket and prefix belong into the URI; credentials are read from the environment"
        )
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise ConfigurationError(f"{text}: a file:// URI needs an absolute path, for example file:///mnt/runs")
        return parts.path
    if parts.scheme not in SCHEMES:
        raise ConfigurationError(f"{text}: unknown scheme {parts.scheme!r}; known: s3://, gs://, az://, file://")
    if not parts.netloc:
        raise ConfigurationError(f"{text}: the bucket is missing; for example {parts.scheme}://bucket/runs")
    return text.rstrip("/")
