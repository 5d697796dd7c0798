"""Signatures that were used, so that a request that somebody has read on its way is not performed again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from leadline.serve.api_error import ApiError
from leadline.serve.signature import Signature

_CAPACITY: Final = 100_000
_REPEAT_SECONDS: Final = 5.0
"""How long a repeatable request is answered again. The time in a signature has whole seconds: a client that asks
twice in a second sends the same signature twice."""


@dataclass(slots=True)
class _Use:
    seen_at: float
    expires_at: float
    is_repeatable: bool


class UsedSignatures:
    """Remembers signatures until they expire. Only those that are right are given to it.

    **Bounded** - none is forgotten early: while as many are remembered as fit, requests are refused with the error at
    which clients wait, sign again, and repeat.

    **Restarts** - what an earlier server has performed was signed before this one started, and is refused.

    Args:
        started_at: When this server started, in seconds since the epoch.
        capacity: How many signatures are remembered.
    """

    def __init__(self, started_at: float, capacity: int = _CAPACITY) -> None:
        self._started_at, self._capacity = math.floor(started_at), capacity
        self._uses: dict[str, _Use] = {}
        self._next_expiry = math.inf

    def use(self, signature: Signature, now: float, *, is_repeatable: bool) -> None:
        """Remember a signature.

        Args:
            is_repeatable: Whether the same request is answered again for a moment.
        Raises:
            ApiError: It was used before, or there is no room.
        """
        if signature.signed_at < self._started_at:
            raise _refused("the request was signed before this server started; sign it again, and check the clocks")
        use = self._uses.get(signature.value)
        if use is not None:
            if use.is_repeatable and now - use.seen_at <= _REPEAT_SECONDS:
                return
            raise _refused("the signature was used before; sign the request again")
        if len(self._uses) >= self._capacity:
            self._forget_expired(now)
        self._uses[signature.value] = _Use(now, signature.expires_at, is_repeatable)
        self._next_expiry = min(self._next_expiry, signature.expires_at)

    def make_repeatable(self, signature: Signature) -> None:
        """Let a request be repeated for a moment, because it could not be performed."""
        self._uses[signature.value].is_repeatable = True

    def _forget_expired(self, now: float) -> None:
        if self._next_expiry < now:
            self._uses = {value: use for value, use in self._uses.items() if use.expires_at >= now}
            self._next_expiry = min((use.expires_at for use in self._uses.values()), default=math.inf)
        if len(self._uses) >= self._capacity:
            raise ApiError("ThrottlingException", f"more than {self._capacity:,} requests in the last 15 minutes")


def _refused(message: str) -> ApiError:
    return ApiError("InvalidSignatureException", message, 403)
