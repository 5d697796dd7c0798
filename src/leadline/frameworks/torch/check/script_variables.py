"""The variables of the script where it has called the optimizer: looked at on the copy, where nothing is kept alive."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any, Final

_NOT_OF_SCRIPT: Final = (
    __file__.removesuffix(os.path.join("frameworks", "torch", "check", "script_variables.py")),
    *(f"{os.sep}{packages}{os.sep}" for packages in ("site-packages", "dist-packages")),
)
"""Parts of the paths of code that is none of the script's."""


def script_namespaces() -> Iterator[Mapping[str, Any]]:
    """Iterate over the variables of the script's functions that run, the innermost first, and of their objects."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if not any(folder in frame.f_code.co_filename for folder in _NOT_OF_SCRIPT):
            attributes = getattr(frame.f_locals.get("self"), "__dict__", {})
            yield from (frame.f_locals, attributes, attributes.get("_modules") or {}, frame.f_globals)
        frame = frame.f_back
