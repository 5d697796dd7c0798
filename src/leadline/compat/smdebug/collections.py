"""Collections of a trial, in smdebug's interface."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Collection:
    """A named group of tensors: names, and regular expressions that a name must contain (``re.search``)."""

    name: str
    include_regex: list[str] = field(default_factory=list)
    tensor_names: set[str] = field(default_factory=set)
    reduction_config: dict[str, Any] | None = None
    """As in the collections file: ``save_raw_tensor``, ``reductions``, ``save_shape``."""
    save_config: dict[str, Any] | None = None
    """As in the collections file, by the name of the mode."""
    save_histogram: bool = True

    def include(self, regex: str | list[str]) -> None:
        """Add regular expressions."""
        self.include_regex += [regex] if isinstance(regex, str) else regex

    def add_tensor_name(self, name: str) -> None:
        """Add a tensor."""
        self.tensor_names.add(name)

    def remove_tensor_name(self, name: str) -> None:
        """Remove a tensor; nothing if it is no member."""
        self.tensor_names.discard(name)

    def has_tensor_name(self, name: str) -> bool:
        """Return whether a tensor is named as a member."""
        return name in self.tensor_names

    def matches(self, name: str) -> bool:
        """Return whether a tensor is a member, by its name or by a regular expression."""
        return name in self.tensor_names or any(re.search(pattern, name) for pattern in self.include_regex)
