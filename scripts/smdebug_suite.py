"""What smdebug's own tests have around them in scripts/smdebug-conformance: fixtures, simulated jobs, a bare AWS."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import leadline.compat.smdebug
from leadline.compat.smdebug.core import singleton, utils
from leadline.compat.smdebug.core.config_constants import (
    CONFIG_FILE_PATH_ENV_STR,
    DEFAULT_SAGEMAKER_OUTDIR,
    TENSORBOARD_CONFIG_FILE_PATH_ENV_STR,
)
from leadline.compat.smdebug.profiler.profiler_config_parser import ProfilerConfigParser

leadline.compat.smdebug.install(replace=True)
pytest_plugins = ["tests.fixtures.error_handling_agent"]
TRACES = "/tmp/test"
_REGIONS = ({"RegionName": "us-east-1"}, {"RegionName": "cn-north-1"})


class SagemakerSimulator:
    """The variables and files of a job of SageMaker, below /tmp."""

    def __init__(self, json_file_contents: str = "{}", tensorboard_dir: str = "/tmp/tensorboard", **_: Any) -> None:
        self.out_dir, self.tensorboard_dir, self._contents = (
            DEFAULT_SAGEMAKER_OUTDIR,
            tensorboard_dir,
            json_file_contents,
        )

    def __enter__(self) -> SagemakerSimulator:
        self._before = dict(os.environ)
        hook, board = Path("/tmp/zcc_config.json"), Path("/tmp/tensorboardoutputconfig.json")
        hook.write_text(self._contents)
        board.write_text(f'{{"LocalPath": "{self.tensorboard_dir}"}}')
        os.environ[CONFIG_FILE_PATH_ENV_STR] = str(hook)
        os.environ[TENSORBOARD_CONFIG_FILE_PATH_ENV_STR] = str(board)
        os.environ["TRAINING_JOB_NAME"] = "sm_job"
        return self

    def __exit__(self, *_: object) -> None:
        os.environ.clear()
        os.environ.update(self._before)


class ScriptSimulator:
    """The folders of a script, empty before and after it."""

    def __init__(self, out_dir: str = "/tmp/test", tensorboard_dir: str | None = None) -> None:
        self.out_dir, self.tensorboard_dir = out_dir, tensorboard_dir

    def __enter__(self) -> ScriptSimulator:
        self.__exit__()
        return self

    def __exit__(self, *_: object) -> None:
        for folder in filter(None, (self.out_dir, self.tensorboard_dir)):
            shutil.rmtree(folder, ignore_errors=True)


utils.SagemakerSimulator, utils.ScriptSimulator = SagemakerSimulator, ScriptSimulator  # type: ignore[attr-defined]


ACCOUNT = "needs an AWS account"
INNER = "inner part of smdebug: "
"""The beginning of the reason why a test is skipped that uses one."""
STAND_INS = {
    "core.access_layer": {ACCOUNT: ["TSAccessS3"]},
    "core.access_layer.s3": {ACCOUNT: ["TSAccessS3"]},
    "core.access_layer.s3handler": {ACCOUNT: ["S3Handler", "DeleteRequest", "ListRequest", "ReadObjectRequest"]},
    "core.access_layer.utils": {ACCOUNT: ["delete_s3_prefixes"]},
    "core.access_layer.file": {
        f"{INNER}names of temporary files of its writer": ["get_temp_path", "SMDEBUG_TEMP_PATH_SUFFIX"]
    },
    "core.index_reader": {
        ACCOUNT: ["S3IndexReader"],
        f"{INNER}the reader of index files below a trial": ["IndexReader", "LocalIndexReader"],
        f"{INNER}the cache of index files that were read": ["ReadIndexFilesCache"],
    },
    "core.s3_utils": {ACCOUNT: ["list_s3_objects"]},
    "core.config_constants": {
        f"{INNER}the address to which it reports its use": ["PROFILER_REPORT_VERSION", "PROFILER_TELEMETRY_URL"],
    },
    "core.utils": {f"{INNER}the address to which it reports its use": ["_prepare_telemetry_url"]},
}
"""Names that modules of smdebug's tests import although Leadline has no such part, by module and reason."""


class _StandIn:
    """Stands for a part that Leadline does not have: a test that uses it is skipped."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __call__(self, *_: object, **__: object) -> None:
        pytest.skip(self._reason)

    def __getattr__(self, name: str) -> None:
        if name.startswith("_"):
            raise AttributeError(name)
        pytest.skip(self._reason)


def _stand_in() -> None:
    for name, reasons in STAND_INS.items():
        try:
            module = import_module(f"leadline.compat.smdebug.{name}")
        except ModuleNotFoundError:
            module = sys.modules[f"smdebug.{name}"] = ModuleType(f"smdebug.{name}")
        for reason, parts in reasons.items():
            for part in parts:
                setattr(module, part, _StandIn(reason))


_stand_in()


def _export_events() -> None:
    """Write the event files that some tests look for into the folder of a closed hook: leadline export makes them."""
    from leadline.exports.smdebug import export_trial
    from leadline.exports.span import Span
    from leadline.reader.run import open_run

    test = sys.modules.get("tests.core.utils")
    if test is None or hasattr(test.check_tf_events, "is_exporting"):
        return
    check = test.check_tf_events

    def check_tf_events(out_dir: str, saved_scalars: Any = None) -> None:
        exported = f"{out_dir}.exported"
        export_trial(open_run(out_dir), exported, Span())
        try:
            check(exported, saved_scalars)
        finally:
            shutil.rmtree(exported)

    check_tf_events.is_exporting = True  # type: ignore[attr-defined]
    for module in [module for name, module in sys.modules.items() if name.startswith("tests.")]:
        if getattr(module, "check_tf_events", None) is check:
            module.check_tf_events = check_tf_events  # type: ignore[attr-defined]


class _Regions:
    def describe_regions(self) -> dict[str, Any]:
        return {"Regions": list(_REGIONS)}


def _name_regions() -> None:
    """Name regions without an account: a module of tests asks for them when it is imported."""
    import boto3

    client = boto3.client
    boto3.client = lambda name, *given, **named: _Regions() if name == "ec2" else client(name, *given, **named)


_name_regions()


@pytest.fixture
def out_dir(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder that is not there yet; that of the trace files is named in the tests' configuration files."""
    if not request.module.__name__.endswith("test_timeline_writer"):
        return str(tmp_path / "out")
    shutil.rmtree(TRACES, ignore_errors=True)
    return TRACES


@pytest.fixture
def simple_profiler_config_parser(set_up_smprofiler_config_path: None) -> ProfilerConfigParser:
    return ProfilerConfigParser()


@pytest.fixture
def config_folder() -> str:
    return "tests/core/json_configs"


@pytest.fixture
def set_up_smprofiler_config_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMPROFILER_CONFIG_PATH", "tests/core/json_configs/simple_profiler_config_parser.json")


@pytest.fixture
def microbenchmark_range() -> int:
    return 1_000


@pytest.fixture
def microbenchmark_repeat() -> int:
    return 1


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the hook after a test, and undo what it set in the environment."""
    before = dict(os.environ)
    _export_events()
    yield
    if singleton._hook is not None:
        singleton._hook.close()
    singleton.del_hook()
    os.environ.clear()
    os.environ.update(before)
