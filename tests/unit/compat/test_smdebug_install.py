"""``import smdebug`` without smdebug, beside it, and in its place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys
from leadline.compat.smdebug import install
sys.path.insert(0, sys.argv[1])
print(install(replace=sys.argv[2] == "replace"))
import smdebug
print(getattr(smdebug, "IS_REAL", False))
if not hasattr(smdebug, "IS_REAL"):
    import leadline.compat.smdebug as own
    import smdebug.core.save_config
    from smdebug.exceptions import SMDebugError
    from smdebug.trials import create_trial
    from smdebug import SaveConfig, modes
    import leadline.compat.smdebug.exceptions as exceptions
    assert smdebug is own and SMDebugError is exceptions.SMDebugError
    assert smdebug.core.save_config.SaveConfig is SaveConfig
    assert smdebug.core.save_config.__spec__.name == "leadline.compat.smdebug.core.save_config"
    try:
        import smdebug.nothing
    except ImportError as error:
        print(error)
"""


@pytest.mark.parametrize(
    ("is_installed", "option", "said"),
    [
        (False, "keep", ["True", "False", "No module named 'smdebug.nothing'"]),
        (True, "keep", ["False", "True"]),
        (True, "replace", ["True", "False", "No module named 'smdebug.nothing'"]),
    ],
)
def test_only_where_smdebug_is_absent_or_to_be_replaced(
    tmp_path: Path, is_installed: bool, option: str, said: list[str]
) -> None:
    if is_installed:
        (tmp_path / "smdebug").mkdir()
        (tmp_path / "smdebug" / "__init__.py").write_text("IS_REAL = True\n")
    command = [sys.executable, "-c", CODE, str(tmp_path), option]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == said
