"""Calls of AWS services by actions, which never end a rule."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from leadline.compat.smdebug.core.logger import get_logger

_REGION: Final = "us-east-1"


def call_aws(service: str, call: Callable[[Any], Any], failure: str) -> Any:
    """Return what a call of a service returns; None, after a warning that begins with ``failure``, if it fails.

    Args:
        call: Is given the client of boto3, in the region of ``$AWS_REGION``.
    """
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        get_logger().warning("%s: boto3 is not installed: pip install 'leadline[aws]'", failure)
        return None
    try:
        return call(boto3.client(service, region_name=os.environ.get("AWS_REGION", _REGION)))
    except (BotoCoreError, ClientError) as error:
        get_logger().warning("%s: %s", failure, error)
        return None
