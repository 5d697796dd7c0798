"""Which hook's names the tensors of a run have in a trial."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from leadline.store import layout
from leadline.store.documents import write_document

XGBOOST: Final = "xgboost"
"""The naming of a hook for XGBoost: one name for each feature of ``full_shap``."""
KERAS: Final = "keras"
"""The naming of a hook for Keras, in its collections document."""
OF_FRAMEWORK: Final = "framework"
"""The naming of a script without a hook: that of the hook for its framework."""


def name_as_hooks_do(run: str) -> None:
    """Let trials name the tensors of a run as those of a script with a hook, which may still come."""
    path = os.path.join(run, layout.HOOK_COLLECTIONS)
    if not os.path.exists(path):
        write_document(path, {"names": OF_FRAMEWORK, "collections": {}})


def naming_of(frameworks: Iterable[str]) -> str | None:
    """Return the naming of a hook for the frameworks of a run, as worker documents name them; None: it has none."""
    names = {name.partition(" ")[0] for label in frameworks for name in label.split(", ")}
    return KERAS if "tensorflow" in names else XGBOOST if "xgboost" in names else None
