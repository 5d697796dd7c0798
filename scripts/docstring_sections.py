"""Extension of griffe for docstrings whose sections follow each other without a blank line."""

from __future__ import annotations

import re
from typing import Any

import griffe

_SECTION = re.compile(r"(?<=[^\n])\n(?=[A-Z][\w ]*:\n)")


class SeparateSections(griffe.Extension):
    """Insert the blank line above each section that the parser expects."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Change the docstring of an object before it is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = _SECTION.sub("\n\n", obj.docstring.value)
