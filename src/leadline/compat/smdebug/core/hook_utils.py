"""The check of a hook's folder, where smdebug has it."""

from __future__ import annotations

import os

from leadline.compat.smdebug.core.hook_run import check_out_dir


def verify_and_get_out_dir(out_dir: str | os.PathLike[str] | None) -> str:
    """Return the folder of a hook; see ``check_out_dir`` for its errors."""
    return check_out_dir(out_dir)
