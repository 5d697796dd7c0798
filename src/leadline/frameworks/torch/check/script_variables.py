"""The variables of the script where it has called the optimizer: looked at on the copy, where nothing is kept alive."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any, Final

import torch

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


def script_models() -> Iterator[tuple[str, torch.nn.Module]]:
    """Iterate over the modules that are variables of the script, or attributes of its objects, with their names."""
    seen: set[int] = set()
    for namespace in script_namespaces():
        for name, value in list(namespace.items()):
            if name == "self" or id(value) in seen or isinstance(value, type):
                continue
            seen.add(id(value))
            if isinstance(value, torch.nn.Module):
                yield name, value
            elif not type(value).__module__.startswith(("torch.", "builtins")):
                held = (getattr(value, "__dict__", None) or {}).items()
                yield from ((f"{name}.{key}", item) for key, item in list(held) if isinstance(item, torch.nn.Module))
