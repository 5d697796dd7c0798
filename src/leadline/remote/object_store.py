"""An object store below a URI, through obstore, which is imported only here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from leadline.errors import LeadlineError, MissingExtraError

_RETRIES: Final = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}
_TIMEOUTS: Final = {"connect_timeout": "5 seconds", "timeout": "60 seconds"}
_METADATA_SERVICE: Final = "169.254.169.254"
_NO_BUCKET: Final = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_NO_CREDENTIALS: Final = (_METADATA_SERVICE, "Account must be specified", "no credentials", "NoCredentials")
_CREDENTIALS: Final = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE with boto3 installed",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}


class StoreError(LeadlineError, OSError):
    """An object store cannot be used: correct what the message names, or try again later."""


class ObjectExistsError(StoreError):
    """The object to create exists already."""


class ObjectMissingError(StoreError):
    """There is no such object."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as it is listed."""

    name: str
    """Relative to the URI of the store."""
    nbytes: int
    tag: str
    """Differs when the content has changed."""
    modified_seconds: float = 0.0
    """When it was written, by the clock of the store."""


class ObjectStore:
    """The objects whose names begin with a URI.

    Args:
        uri: The URI.
        backend: A store of obstore; None: that of the URI.

    Raises:
        MissingExtraError: obstore is not installed.
        StoreError: The store cannot be used as it is configured.
    """

    def __init__(self, uri: str, backend: Any = None) -> None:
        self.uri = uri
        if backend is None and find_spec("obstore") is None:
            raise MissingExtraError(
                f"{uri}: object stores need obstore; install it with: pip install 'leadline[remote]'"
            )
        with self._explained():
            self._backend = _connect(uri) if backend is None else backend

    def put(self, name: str, content: bytes | Path, *, create: bool = False) -> None:
        """Write an object; readers see the old or the new content.

        Args:
            content: The bytes, or the file that contains them.
            create: Whether to fail if the object exists; at most one of several writers succeeds.
        Raises:
            ObjectExistsError: It exists already.
            StoreError: It could not be written.
        """
        import obstore

        with self._explained():
            if create:
                obstore.put(self._backend, name, content, mode="create", use_multipart=False)
            else:
                obstore.put(self._backend, name, content)

    def get(self, name: str, offset: int = 0, end: int | None = None) -> bytes:
        """Return an object, or the bytes from ``offset`` to ``end``.

        Raises:
            ObjectMissingError: There is none.
            StoreError: It could not be read.
        """
        import obstore

        with self._explained():
            if end is not None:
                return bytes(obstore.get_range(self._backend, name, start=offset, end=end))
            return bytes(obstore.get(self._backend, name).bytes())

    def objects(self) -> list[StoredObject]:
        """Return all objects.

        Raises:
            StoreError: They could not be listed.
        """
        import obstore

        with self._explained():
            return [_listed(entry) for chunk in obstore.list(self._backend) for entry in chunk]

    def after(self, folder: str, name: str) -> list[str]:
        """Return the names of the objects below a folder that follow a name, in alphabetical order.

        Raises:
            StoreError: They could not be listed.
        """
        import obstore

        with self._explained():
            chunks = obstore.list(self._backend, folder, offset=name)
            return sorted(str(entry["path"]) for chunk in chunks for entry in chunk)

    def folder(self, name: str | None = None) -> tuple[list[str], list[StoredObject]]:
        """Return the names of the folders and the objects directly in a folder.

        Raises:
            StoreError: They could not be listed.
        """
        import obstore

        with self._explained():
            found = obstore.list_with_delimiter(self._backend, name)
        return [str(name) for name in found["common_prefixes"]], [_listed(entry) for entry in found["objects"]]

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects.

        Raises:
            StoreError: They could not be deleted.
        """
        import obstore

        if names:
            with self._explained():
                obstore.delete(self._backend, list(names))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise errors of obstore as one line that contains neither addresses nor credentials."""
        try:
            yield
        except LeadlineError:
            raise
        except FileExistsError as error:
            raise ObjectExistsError(f"{self.uri}: exists already") from error
        except Exception as error:  # noqa: BLE001 - obstore's exceptions have no public common class but Exception
            kind = type(error).__name__
            if kind == "AlreadyExistsError":
                raise ObjectExistsError(f"{self.uri}: exists already") from None
            if isinstance(error, FileNotFoundError) and not _is_bucket_missing(str(error)):
                raise ObjectMissingError(f"{self.uri}: no such object") from None
            raise StoreError(f"{self.uri}: {_reason(kind, str(error), self.uri.partition(':')[0])}") from None


def _connect(uri: str) -> Any:
    from obstore.store import from_url

    options: dict[str, Any] = {"client_options": dict(_TIMEOUTS), "retry_config": _RETRIES}
    if uri.startswith("s3://"):
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
        if endpoint:
            options["endpoint"] = endpoint
            options["client_options"]["allow_http"] = endpoint.startswith("http://")
        if not os.environ.get("AWS_ACCESS_KEY_ID") and find_spec("boto3") is not None:
            from obstore.auth.boto3 import Boto3CredentialProvider

            try:
                options["credential_provider"] = Boto3CredentialProvider()
            except ValueError as error:
                raise StoreError(f"{uri}: {_no_credentials('s3')}") from error
    return from_url(uri, **options)


def _listed(entry: Any) -> StoredObject:
    tag = entry["e_tag"] or entry["last_modified"].isoformat()
    return StoredObject(str(entry["path"]), int(entry["size"]), str(tag), entry["last_modified"].timestamp())


def _is_bucket_missing(text: str) -> bool:
    return any(sign in text for sign in _NO_BUCKET)


def _no_credentials(scheme: str) -> str:
    return f"no credentials found; set {_CREDENTIALS.get(scheme, 'those of the store')}"


def _reason(kind: str, text: str, scheme: str) -> str:
    """Return what an error means: the texts of the libraries contain addresses, and may contain signatures."""
    code = re.search(r"<Code>(\w+)</Code>", text)
    status = re.search(r"status code: (\d{3})", text)
    shown = code[1] if code else f"HTTP {status[1]}" if status else kind.removesuffix("Error")
    if _is_bucket_missing(text):
        return "no such bucket; create it, or correct the URI"
    if any(sign in text for sign in _NO_CREDENTIALS):
        return _no_credentials(scheme)
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or (status and status[1] in ("401", "403")):
        return f"access denied ({shown}); check the credentials and their permission to list, read and write"
    if "error sending request" in text or "timed out" in text:
        return "the store cannot be reached; check the network and AWS_ENDPOINT_URL"
    return f"the store refused the request ({shown})"
