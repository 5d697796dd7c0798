"""What smdebug's own tests have around them in scripts/smdebug-conformance: fixtures, simulated jobs, buckets."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import smdebug_inner

import leadline.compat.smdebug
from leadline.compat.smdebug.core import singleton, utils
from leadline.compat.smdebug.core.config_constants import (
    CONFIG_FILE_PATH_ENV_STR,
    DEFAULT_SAGEMAKER_OUTDIR,
    TENSORBOARD_CONFIG_FILE_PATH_ENV_STR,
)
from leadline.compat.smdebug.profiler.profiler_config_parser import ProfilerConfigParser

leadline.compat.smdebug.install(replace=True)
smdebug_inner.place(sys.modules)
pytest_plugins = ["tests.fixtures.error_handling_agent", "tests.fixtures.tf2_training"]
TRACES = "/tmp/test"


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


INNER = "inner part of smdebug: "
"""The beginning of the reason why a test is skipped that uses one."""
DATA = "Amazon's own data: "
"""The beginning of the reason why a test is skipped that reads it."""
REQUESTS = f"{INNER}the requests of its client of S3"
STAND_INS = {
    "core.access_layer.s3handler": {REQUESTS: ["S3Handler", "ListRequest", "ReadObjectRequest"]},
    "core.access_layer.file": {
        f"{INNER}names of temporary files of its writer": ["get_temp_path", "SMDEBUG_TEMP_PATH_SUFFIX"]
    },
    "core.index_reader": {
        f"{INNER}the reader of index files below a trial": ["IndexReader", "LocalIndexReader", "S3IndexReader"],
        f"{INNER}the cache of index files that were read": ["ReadIndexFilesCache"],
    },
    "core.s3_utils": {REQUESTS: ["list_s3_objects"]},
    "core.config_constants": {
        f"{INNER}the address to which it reports its use": ["PROFILER_REPORT_VERSION", "PROFILER_TELEMETRY_URL"],
    },
    "core.utils": {f"{INNER}the address to which it reports its use": ["_prepare_telemetry_url"]},
}
"""Names that modules of smdebug's tests import although Leadline has no such part, by module and reason."""
AMAZONS = re.compile(r"smdebug-testing/(?:resources|datasets|profiler-traces|empty-traces)|MNIST_pytorch")
"""What only Amazon's bucket holds."""
BUCKETS = ("smdebug-testing", "smdebugcodebuildtest")
SECONDS = 120
"""The time that a test may take."""


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
    from leadline.compat.export.trial import export_trial
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


def _reset() -> None:
    """Keep what tests reset after them: hooks here read the configuration when they are made."""
    validator = sys.modules["smdebug.core.config_validator"] = ModuleType("smdebug.core.config_validator")
    parser = import_module("leadline.compat.smdebug.profiler.profiler_config_parser")
    validator.reset_config_validator = parser.reset_profiler_config_parser = lambda: None  # type: ignore[attr-defined]


_reset()


def _make_buckets() -> None:
    """Make the buckets to which tests write, at the endpoint that scripts/smdebug-conformance names."""
    import boto3

    for bucket in BUCKETS:
        boto3.client("s3").create_bucket(Bucket=bucket)


class _Object(_StandIn):
    """An object in S3 that is empty when it is closed; what else smdebug's client of S3 does is an inner part."""

    def __init__(self, bucket_name: str, key_name: str, **_: object) -> None:
        super().__init__(REQUESTS)
        self._place = bucket_name, key_name

    def close(self) -> None:
        import boto3

        boto3.client("s3").put_object(Bucket=self._place[0], Key=self._place[1])


class _DeleteRequest:
    """What is deleted from S3 after a test."""

    def __init__(self, Bucket: str, Prefix: str) -> None:
        self.bucket, self.prefix = Bucket, Prefix


def _delete_prefix(path: str | None = None, delete_request: _DeleteRequest | None = None) -> None:
    """Delete what a test has written."""
    import boto3

    _, bucket, key = utils.is_s3(path or "")
    bucket, key = (delete_request.bucket, delete_request.prefix) if delete_request else (bucket, key)
    boto3.resource("s3").Bucket(bucket).objects.filter(Prefix=key).delete()


def _delete_prefixes(bucket: str, keys: Any) -> None:
    for key in [keys] if isinstance(keys, str) else keys:
        _delete_prefix(delete_request=_DeleteRequest(bucket, key))


def _delete_from_s3() -> None:
    handler = sys.modules["smdebug.core.access_layer.s3handler"]
    sys.modules["smdebug.core.access_layer.s3"] = ModuleType("smdebug.core.access_layer.s3")
    for name in ("smdebug.core.access_layer.s3", "leadline.compat.smdebug.core.access_layer"):
        sys.modules[name].TSAccessS3 = _Object  # type: ignore[attr-defined]
    handler.S3Handler.delete_prefix, handler.DeleteRequest = _delete_prefix, _DeleteRequest  # type: ignore[attr-defined]
    import_module("leadline.compat.smdebug.core.access_layer.utils").delete_s3_prefixes = _delete_prefixes


_make_buckets()
_delete_from_s3()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests aside that read what only Amazon has."""
    for item in items:
        places = [getattr(item, "function", None)]
        for definitions in getattr(item, "_fixtureinfo").name2fixturedefs.values():  # noqa: B009 - private
            places += [definition.func for definition in definitions]
        sources = "".join(inspect.getsource(place) for place in places if place is not None)
        if (found := AMAZONS.search(sources)) is not None and "local" not in item.name:
            item.add_marker(pytest.mark.skip(reason=f"{DATA}{found[0]}"))
        elif item.get_closest_marker("skip_if_py37"):
            item.add_marker(pytest.mark.skip(reason="Python 3.6"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """End a test that waits for ever."""

    def end(*_: object) -> None:
        raise TimeoutError(f"{item.name} took more than {SECONDS} s")

    signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


@pytest.fixture(scope="module")
def tf_eager_mode() -> bool:
    return True


@pytest.fixture
def out_dir() -> str:
    """The folder that the tests' configuration files name; it is not there yet."""
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


@pytest.fixture
def set_up_resource_config() -> None:
    """Name no host: no test depends on the name."""


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the hook after a test, and undo what it set in the environment."""
    before = dict(os.environ)
    shutil.rmtree(TRACES, ignore_errors=True)
    _export_events()
    yield
    if singleton._hook is not None:
        singleton._hook.close()
    singleton.del_hook()
    os.environ.clear()
    os.environ.update(before)
