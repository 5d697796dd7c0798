"""The error that an operation answers with."""

from __future__ import annotations

from typing import Final

from leadline.errors import LeadlineError

VALIDATION: Final = "ValidationException"
IN_USE: Final = "ResourceInUse"
LIMIT: Final = "ResourceLimitExceeded"
NOT_FOUND: Final = "ResourceNotFoundException"
"""CloudWatch Logs' code; SageMaker answers ``VALIDATION`` for what does not exist."""


class ApiError(LeadlineError):
    """A request is refused; clients of AWS see the code as the type of the exception.

    Attributes:
        code: AWS's code of the error.
        status: The HTTP status.
    """

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.status = code, status


def invalid(message: str) -> ApiError:
    """The error for a value that the service refuses."""
    return ApiError(VALIDATION, message)


def missing() -> ApiError:
    """The error for a job or resource that does not exist, in the words of AWS."""
    return invalid("Requested resource not found.")
