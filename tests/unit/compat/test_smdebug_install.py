"""``import smdebug`` without smdebug, beside it, and in its place."""

from __future__ import annotations

import inspect
import pkgutil
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


@pytest.mark.parametrize(
    ("place", "method", "names"),
    [
        ("core.collection.Collection", "include", ["t"]),
        ("core.collection.Collection", "add_tensor_name", ["tname"]),
        ("core.collection_manager.CollectionManager", "add", ["arg"]),
        ("core.save_config.SaveConfig", "should_save_step", ["mode", "step_num"]),
        ("core.save_config.SaveConfigMode", "should_save_step", ["step_num"]),
        ("core.reduction_config.ReductionConfig", "from_json", ["json_str"]),
        ("pytorch.singleton_utils", "set_hook", ["custom_hook"]),
        ("core.access_layer.utils", "has_training_ended", ["trial_prefix"]),
        ("trials.trial.Trial", "tensor", ["tname"]),
        ("trials.utils", "create_trial", ["path", "name", "range_steps"]),
        ("trials.local_trial.LocalTrial", "__init__", ["name", "dirname"]),
        ("trials.s3_trial.S3Trial", "__init__", ["name", "bucket_name", "prefix_name"]),
        ("rules.action.action.Actions", "__init__", ["actions_str", "rule_name"]),
        ("rules.rule.Rule", "__init__", ["base_trial", "action_str", "other_trials"]),
        ("profiler.LocalAlgorithmMetricsReader", "get_events", ["start_time", "end_time", "unit", "event_type"]),
        ("exceptions.NoMoreProfilerData", "__init__", ["timestamp"]),
    ],
)
def test_places_and_names_of_arguments_are_smdebugs(place: str, method: str, names: list[str]) -> None:
    owner = pkgutil.resolve_name(f"leadline.compat.smdebug.{place}")
    parameters = [name for name in inspect.signature(getattr(owner, method)).parameters if name != "self"]
    assert parameters[: len(names)] == names
