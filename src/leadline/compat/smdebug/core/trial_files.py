"""Files of a trial, in a folder or in S3, where boto3 is used as smdebug does."""

from __future__ import annotations

import os
from typing import Any

from leadline.compat.smdebug.core.utils import is_s3
from leadline.errors import MissingExtraError
from leadline.store.documents import make_folder, replace_file


def write_file(path: str, content: bytes) -> None:
    """Write a file, which appears with all its content.

    Raises:
        MissingExtraError: It is in S3, and boto3 is not installed.
    """
    is_remote, bucket, key = is_s3(path)
    if is_remote:
        _client(path).put_object(Bucket=bucket, Key=key, Body=content)
        return
    make_folder(os.path.dirname(path))
    with replace_file(path) as file:
        file.write(content)


def read_file(path: str) -> bytes:
    """Return the content of a file.

    Raises:
        MissingExtraError: It is in S3, and boto3 is not installed.
    """
    is_remote, bucket, key = is_s3(path)
    if is_remote:
        return bytes(_client(path).get_object(Bucket=bucket, Key=key)["Body"].read())
    with open(path, "rb") as file:
        return file.read()


def has_file(path: str) -> bool:
    """Return whether there is a file.

    Raises:
        MissingExtraError: It is in S3, and boto3 is not installed.
    """
    is_remote, bucket, key = is_s3(path)
    if not is_remote:
        return os.path.exists(path)
    listed = _client(path).list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1).get("Contents", [])
    return any(entry["Key"] == key for entry in listed)


def _client(path: str) -> Any:
    try:
        import boto3
    except ImportError:
        raise MissingExtraError(f"{path} needs boto3: pip install 'leadline[aws]'") from None
    return boto3.client("s3")
