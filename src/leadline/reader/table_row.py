"""A row of an Arrow table as a dictionary."""

from __future__ import annotations

from typing import Any

TableRow = dict[str, Any]
"""The values of a row by column, of a table that is read with different columns: the types are those of its schema."""
