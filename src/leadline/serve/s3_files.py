"""Files from and to S3, through boto3."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import boto3
from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from leadline.errors import LeadlineError
from leadline.store.documents import make_folder
from leadline.store.run_files import path_below

_PARALLEL_UPLOADS: Final = 8
"""A trial has two small files for each step: most of the time is waiting for S3."""
_MAX_SINGLE_BYTES: Final = 8 << 20
"""Larger files are uploaded in parts, by threads that boto3 starts for each of them."""
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


class S3Error(LeadlineError, OSError):
    """S3 cannot be used: correct what the message names."""


class S3Files:
    """Objects of S3, or of a server with its interface: ``AWS_ENDPOINT_URL_S3`` or ``AWS_ENDPOINT_URL``.

    Args:
        region: The region of the client.
    """

    def __init__(self, region: str) -> None:
        style = "path" if any(os.environ.get(name) for name in _ENDPOINTS) else "auto"
        self._client: Any = boto3.client("s3", region_name=region, config=Config(s3={"addressing_style": style}))

    def download(self, uri: str, path: str) -> None:
        """Write an object to a file.

        Raises:
            S3Error: It could not be read.
        """
        bucket, key = _split(uri)
        make_folder(os.path.dirname(path))
        with _explained(uri):
            self._client.download_file(bucket, key, path)

    def download_prefix(self, uri: str, folder: str) -> int:
        """Write all objects whose names begin with a URI to a folder; return their number.

        Raises:
            S3Error: They could not be read, or the name of one leads out of the folder.
        """
        bucket, prefix = _split(uri)
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        count = 0
        with _explained(uri):
            for entry in (entry for page in pages for entry in page.get("Contents", ())):
                name = _relative(entry["Key"], prefix)
                if name and not name.endswith("/"):  # empty objects stand for folders
                    self.download(f"s3://{bucket}/{entry['Key']}", _below(folder, name, uri))
                    count += 1
        return count

    def upload(self, path: str, uri: str) -> None:
        """Write a file to an object.

        Raises:
            S3Error: It could not be written.
        """
        bucket, key = _split(uri)
        with _explained(uri):
            if os.path.getsize(path) > _MAX_SINGLE_BYTES:
                self._client.upload_file(path, bucket, key)
            else:
                with open(path, "rb") as file:
                    self._client.put_object(Bucket=bucket, Key=key, Body=file)

    def upload_folder(self, folder: str, uri: str) -> None:
        """Write all files of a folder, with the same names below a URI.

        Raises:
            S3Error: One could not be written.
        """
        paths = [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]
        self.upload_files(folder, [os.path.relpath(path, folder) for path in paths], uri)

    def upload_files(self, folder: str, names: Iterable[str], uri: str) -> None:
        """Write some files of a folder, in any order, with the same names below a URI.

        Raises:
            S3Error: One could not be written.
        """
        with ThreadPoolExecutor(_PARALLEL_UPLOADS) as pool:
            for _ in pool.map(lambda name: self.upload(os.path.join(folder, name), join(uri, name)), names):
                continue


def join(uri: str, *names: str) -> str:
    """Return the URI of an object below a URI."""
    return "/".join((uri.rstrip("/"), *names))


def _split(uri: str) -> tuple[str, str]:
    parts = urlsplit(uri)
    if parts.scheme != "s3" or not parts.netloc:
        raise S3Error(f"{uri} is not a URI of S3; it must begin with s3://BUCKET/")
    return parts.netloc, uri.partition(f"s3://{parts.netloc}")[2].lstrip("/")


def _relative(key: str, prefix: str) -> str:
    """Return the name of an object below a prefix; a prefix may also be an object, or the first part of a name."""
    is_folder = prefix.endswith("/") or key[len(prefix) : len(prefix) + 1] == "/"
    base = len(prefix) if is_folder else prefix.rfind("/") + 1
    return key[base:].lstrip("/")


def _below(folder: str, name: str, uri: str) -> str:
    path = path_below(folder, name)
    if path is None:
        raise S3Error(f"{uri}: the name {name!r} leads out of its folder")
    return path


@contextmanager
def _explained(uri: str) -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, Boto3Error, ClientError) as error:
        raise S3Error(f"{uri}: {error}") from error
