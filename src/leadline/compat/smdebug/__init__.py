"""smdebug's interface over Leadline: so far trials, their tensors, and rules on them; hooks are not part of it yet."""

from __future__ import annotations

from leadline.compat.smdebug.core.modes import ModeKeys as modes
from leadline.compat.smdebug.trials import Trial, create_trial

__all__ = ["Trial", "create_trial", "modes"]
