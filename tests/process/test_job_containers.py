"""What a job has of a container: its own ``/opt/ml``, and the packages of its ``requirements.txt``."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from serving import BUCKET, Server, Store, create, ended, s3_store

pytestmark = pytest.mark.slow
SCRIPT: Final = """
import json, os, sys
import torch
import tiny
with open("/opt/ml/input/data/train/number.txt") as file:
    number = int(file.read())
with open("/opt/ml/input/config/hyperparameters.json") as file:
    assert json.load(file)["sagemaker_program"]
with open("/opt/ml/model/found.json", "w") as file:
    json.dump({"number": number, "tiny": tiny.VALUE, "python": sys.executable, "opt": sorted(os.listdir("/opt"))}, file)
"""
UNPRIVILEGED: Final = """
import ctypes, os, sys
from leadline.serve import opt_ml
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as after exec: /proc/self is that of the user
opt_ml.enter(sys.argv[1])
print(os.getuid(), open("/opt/ml/x").read(), flush=True)
"""


def wheel(value: int) -> bytes:
    content = io.BytesIO()
    info = "tiny-1.0.dist-info"
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("tiny.py", f"VALUE = {value}\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\nRequires-Dist: numpy\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"tiny.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return content.getvalue()


def source(**files: bytes) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with s3_store() as store:
        requirements = b"./tiny-1.0-py3-none-any.whl\n"
        for name, value in (("first", 1), ("second", 2)):
            packed = source(
                **{
                    "train.py": SCRIPT.encode(),
                    "requirements.txt": requirements,
                    "tiny-1.0-py3-none-any.whl": wheel(value),
                }
            )
            store.put(f"{name}/sourcedir.tar.gz", packed)
        missing = b"--no-index\nno-such-package==9.9\n"
        store.put("missing/sourcedir.tar.gz", source(**{"train.py": b"", "requirements.txt": missing}))
        store.put("data/train/number.txt", "7")
        yield store


@pytest.fixture(scope="module")
def server(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("serve") / "folder", store.address, "--slots", "2")
    try:
        yield server
    finally:
        server.end()


def start(server: Server, name: str, place: str) -> None:
    uri = f"s3://{BUCKET}/{place}/sourcedir.tar.gz"
    create(server.client(), name, "train.py", {"sagemaker_submit_directory": uri})


def test_two_jobs_have_their_own_folder_and_packages(server: Server, store: Store) -> None:

    names = {"one": "first", "two": "second", "again": "first"}
    for name, place in names.items():
        start(server, name, place)
    found: dict[str, Any] = {}
    for name in names:
        job = ended(server.client(), name)
        assert job["TrainingJobStatus"] == "Completed", (server.folder / "jobs" / name / "job.log").read_text()
        found[name] = json.loads(store.archive(f"out/{name}/output/model.tar.gz")["found.json"])
        assert found[name]["number"] == 7
        assert "ml" in found[name]["opt"]
    assert [found[name]["tiny"] for name in names] == [1, 2, 1]
    assert found["one"]["python"] == found["again"]["python"] != found["two"]["python"]
    assert "Processing ./tiny" not in (server.folder / "jobs" / "again" / "job.log").read_text()


def test_a_package_that_there_is_not_is_the_reason_of_the_failure(server: Server) -> None:
    start(server, "missing", "missing")
    job = ended(server.client(), "missing")
    assert (job["TrainingJobStatus"], job["FailureReason"]) == (
        "Failed",
        "AlgorithmError: InstallRequirementsError: ERROR: No matching distribution found for no-such-package==9.9",
    )


@pytest.mark.skipif("os.getuid() != 0", reason="only root can become another user")
def test_a_user_without_privileges_has_the_folder_too(tmp_path: Path) -> None:
    folder = tmp_path / "ml"
    folder.mkdir()
    (folder / "x").write_text("mine")
    for parent in (folder, *folder.parents):
        if parent.stat().st_uid == 0 and parent.is_relative_to("/tmp/") and parent != Path("/tmp"):
            parent.chmod(0o777)
    done = subprocess.run([sys.executable, "-c", UNPRIVILEGED, str(folder)], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("65534 mine\n", "")
