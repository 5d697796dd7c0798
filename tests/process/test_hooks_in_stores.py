"""smdebug's hook with an ``out_dir`` in S3, which is moto's server over HTTP: others read the trial by its URI."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from amazon import CREDENTIALS, REGION, client
from launching import LEADLINE, environment, finish, script

from leadline.compat.smdebug import create_trial
from leadline.compat.smdebug.core.access_layer import has_training_ended

WITHOUT_LAUNCHER = "import runpy, sys; import leadline.compat.smdebug as s; s.install(replace=True); "
WITHOUT_LAUNCHER += "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, dict[str, str]]]:
    """A bucket, and the environment in which a job and its readers reach it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        port = server.get_host_and_port()[1]
        address, bucket = f"http://127.0.0.1:{port}", f"hooks-{port}"
        configuration = {"LocationConstraint": REGION}
        client("s3", address).create_bucket(Bucket=bucket, CreateBucketConfiguration=configuration)
        changes = {**CREDENTIALS, "AWS_ENDPOINT_URL": address, "LEADLINE_CACHE": str(tmp_path / "cache")}
        for name, value in changes.items():
            monkeypatch.setenv(name, value)
        yield f"s3://{bucket}", changes
    finally:
        server.stop()


def check(uri: str) -> None:
    trial = create_trial(uri)
    assert trial.loaded_all_steps
    assert trial.steps() == list(range(8))
    numbers = trial.tensor("scalar/number")
    assert {step: numbers.value(step).item() for step in numbers.steps()} == {step: step for step in range(8)}
    assert {0, 2, 4, 6} <= set(trial.tensor("Sequential_0.weight").steps())
    assert trial.tensor("Sequential_0.weight").value(6).shape == (3, 4)


def test_a_hook_writes_to_a_store(tmp_path: Path, store: tuple[str, dict[str, str]]) -> None:
    bucket, variables = store
    uri = f"{bucket}/team/tensors"
    assert not has_training_ended(uri)
    job = [sys.executable, "-c", WITHOUT_LAUNCHER, script("hook_in_store.py"), uri]
    ended = finish([*job, "reads"], tmp_path, env=environment(**variables))
    assert (ended.status, ended.out.strip()) == (0, str(list(range(8)))), ended.err
    check(uri)
    assert has_training_ended(uri)
    (tmp_path / "elsewhere").mkdir()
    again = finish(job, tmp_path / "elsewhere", env=environment(**variables))
    assert again.status == 1
    assert "an earlier training was saved there" in again.err


def test_under_the_launcher_its_agent_uploads(tmp_path: Path, store: tuple[str, dict[str, str]]) -> None:
    bucket, variables = store
    uri = f"{bucket}/launched"
    words = [*LEADLINE, "run", "--smdebug", "--no-default-rules", "--out", str(tmp_path / "runs")]
    ended = finish([*words, script("hook_in_store.py"), uri], tmp_path, env=environment(**variables))
    assert ended.status == 0, ended.err
    check(uri)
