"""How a built-in algorithm fails."""

from __future__ import annotations

from typing import Final

USER_STATUS: Final = 1
"""The exit status where the data or a hyperparameter is to be corrected."""
OWN_STATUS: Final = 255
"""The exit status where the algorithm itself has failed."""


class UserError(Exception):
    """The data or a hyperparameter is to be corrected, as the message says in one line."""
