"""JSON objects whose keys are not ours: those of a rule, an action, a probe, a library or a user."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]
"""An object of JSON with any keys. One whose keys are known is a record or a ``TypedDict``."""
