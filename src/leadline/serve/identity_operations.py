"""The operations of STS and IAM that clients call before they start a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from leadline.serve.answer import Answer
from leadline.serve.job_queue import ServerSettings

ROLE: Final = "leadline"
_ROLE_ID: Final = "AROALEADLINESERVE0000"
_CREATED: Final = "2026-01-01T00:00:00Z"
_TRUST: Final = (
    '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", '
    '"Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}]}'
)


class IdentityOperations:
    """What STS and IAM say of one account, in which every role exists and may do everything."""

    def __init__(self, settings: ServerSettings) -> None:
        self._account = settings.account

    def get_caller_identity(self, request: Mapping[str, Any]) -> Answer:
        """Return an assumed role: SDK v2 takes no user."""
        return {
            "UserId": f"{_ROLE_ID}:{ROLE}",
            "Account": self._account,
            "Arn": f"arn:aws:sts::{self._account}:assumed-role/{ROLE}/{ROLE}",
        }

    def get_role(self, request: Mapping[str, Any]) -> Answer:
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

    def simulate_principal_policy(self, request: Mapping[str, Any]) -> Answer:
        """Allow every action: the user who started the server decides what a job may do, not a role."""
        resources = request.get("ResourceArns") or ["*"]
        results = [
            {"EvalActionName": action, "EvalResourceName": resource, "EvalDecision": "allowed"}
            for action in request["ActionNames"]
            for resource in resources
        ]
        return {"EvaluationResults": results, "IsTruncated": False}


def role_arn(account: str, name: str = ROLE) -> str:
    """Return the ARN of a role."""
    return f"arn:aws:iam::{account}:role/{name}"
