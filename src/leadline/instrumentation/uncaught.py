"""The exception that ends a process, in one line."""

from __future__ import annotations

import os
import re
import sys
import traceback
from typing import Final

from leadline.config.secrets import scrub
from leadline.store import layout
from leadline.store.documents import write_document

_MAX_CHARACTERS: Final = 200
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
"""Escape sequences by which libraries colour what they print."""


def uncaught_exception() -> str:
    """Return the exception that ends this process, without secrets: ``RuntimeError: …``; empty: there is none."""
    error = getattr(sys, "last_value", None)
    if not isinstance(error, BaseException):
        return ""
    text = " ".join(scrub(_COLOUR.sub("", traceback.format_exception_only(error)[-1])).split())
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 2] + " …"


def record_uncaught(run: str) -> None:
    """Write the exception that ends this process into the run, for a job that fails before its first step."""
    error = uncaught_exception()
    if error and os.path.isdir(run):
        write_document(os.path.join(run, layout.UNCAUGHT), {"error": error})
