"""The common part of List operations: filters, order and pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from leadline.serve.api_error import invalid
from leadline.serve.training_job import seconds

T = TypeVar("T")
_PAGE: Final = 10
_SORT_FIELDS: Final = {"Name": "name", "CreationTime": "created_ns", "Status": "status"}


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """Something that is listed, and what it is filtered and ordered by."""

    item: T
    name: str
    created_ns: int
    modified_ns: int
    status: str


def listed(entries: Iterable[Entry[T]], request: Mapping[str, Any]) -> tuple[list[T], dict[str, str]]:
    """Return one page of what is listed, and the member with the token of the next one.

    Args:
        request: Filters, order and page, as the List operations have them; the latest come first by default.
    Raises:
        ApiError: The token is invalid.
    """
    token = request.get("NextToken") or "0"
    if not token.isascii() or not token.isdecimal():
        raise invalid("NextToken is invalid")
    field = _SORT_FIELDS[request.get("SortBy") or "CreationTime"]
    is_descending = (request.get("SortOrder") or "Descending") == "Descending"
    found = [entry for entry in entries if _is_selected(entry, request)]
    found.sort(key=lambda entry: getattr(entry, field), reverse=is_descending)
    first = int(token)
    last = first + (request.get("MaxResults") or _PAGE)
    return [entry.item for entry in found[first:last]], {"NextToken": str(last)} if last < len(found) else {}


def _is_selected(entry: Entry[T], request: Mapping[str, Any]) -> bool:
    status, part = request.get("StatusEquals"), request.get("NameContains") or ""
    return (
        status in (None, entry.status)
        and part.lower() in entry.name.lower()
        and _is_between(entry.created_ns, "CreationTime", request)
        and _is_between(entry.modified_ns, "LastModifiedTime", request)
    )


def _is_between(time_ns: int, name: str, request: Mapping[str, Any]) -> bool:
    after, before = request.get(f"{name}After"), request.get(f"{name}Before")
    return (after is None or seconds(time_ns) > after) and (before is None or seconds(time_ns) < before)
