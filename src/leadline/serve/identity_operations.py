"""The operations of STS and IAM that clients call before they start a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from leadline.serve.job_queue import ServerSettings

ROLE: Final = "leadline"
_ROLE_ID: Final = "AROALEADLINESERVE0000"
_CREATED: Final = "2026-01-01T00:00:00Z"
_TRUST: Final = (
    '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", '
    '"Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}]}'
)


class IdentityOperations:
    """GetCallerIdentity and GetRole: one account, in which every role exists."""

    def __init__(self, settings: ServerSettings) -> None:
        self._account = settings.account

    def get_caller_identity(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return an assumed role: SDK v2 takes no user."""
        return {
            "UserId": f"{_ROLE_ID}:{ROLE}",
            "Account": self._account,
            "Arn": f"arn:aws:sts::{self._account}:assumed-role/{ROLE}/{ROLE}",
        }

    def get_role(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return a role that SageMaker may assume."""
        name = request["RoleName"]
        role = {
            "Path": "/",
            "RoleName": name,
            "RoleId": _ROLE_ID,
            "Arn": role_arn(self._account, name),
            "CreateDate": _CREATED,
            "AssumeRolePolicyDocument": quote(_TRUST),
        }
        return {"Role": role}


def role_arn(account: str, name: str = ROLE) -> str:
    """Return the ARN of a role."""
    return f"arn:aws:iam::{account}:role/{name}"
