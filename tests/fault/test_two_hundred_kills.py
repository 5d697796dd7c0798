"""kill -9 at random moments: every record that was flushed can be read, and none twice.

The counts are small by default; ``LEADLINE_KILLS=200`` kills 200 writers, 200 agents, and compactions and uploads.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from amazon import CREDENTIALS, REGION, amazon, client
from kill_writers import tensor
from launching import LEADLINE, PATIENCE, environment, losses, only_run, script, started, wait_for

import leadline
from leadline.process.interpreter import own_command
from leadline.reader.run import Run
from leadline.store.upload_state import UploadState, write_upload
from leadline.testing.runs import Capture, RawTensors, RunWriter

KILLS = int(os.environ.get("LEADLINE_KILLS", "40"))
SEED = 7
pytestmark = pytest.mark.slow


def check_written(run: Run, last: int) -> int:
    """Check a run of ``kill_writers.py`` of which everything up to ``last`` was flushed; return its number of steps."""
    table = run.tensor("loss").statistics("value")
    steps = table.column("step").to_pylist()
    assert steps == list(range(len(steps)))
    assert len(steps) > last
    assert table.column("value").to_pylist() == [step / 2 for step in steps]
    stored = [entry.step for entry in run.archive.stored["w"]]
    assert stored == list(range(len(stored)))
    assert len(stored) > last
    for step in {0, max(last, 0), stored[-1]}:
        assert np.array_equal(run.tensor("w").value(step), tensor(step))
    return len(steps)


def test_writers_are_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [sys.executable, str(Path(__file__).with_name("kill_writers.py")), str(tmp_path), str(KILLS), str(SEED)]
    done = subprocess.run(
        words, env=environment(OPENBLAS_NUM_THREADS="1"), capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == KILLS
    assert {signal for _, _, signal in lines} == {str(int(signal.SIGKILL))}
    damaged, steps, segments = [], 0, 0
    for name, last, _ in lines:
        run = leadline.open_run(tmp_path / name)
        steps += check_written(run, int(last))
        damaged += run.verify()
        segments += len(list((tmp_path / name).rglob("*.arrow*"))) + len(list((tmp_path / name).rglob("*.safetensors")))
    assert damaged == []
    with capsys.disabled():
        print(f"\n{KILLS} writers killed: {steps} steps in {segments} segments, 0 lost, 0 twice, 0 segments unreadable")


STEPS = 120
OPTIONS = ("--no-default-rules", "--budget", "off", "--capture", "weights:every=1,raw=true,statistics=max")


def kill_agent(root: Path, name: str, after_seconds: float) -> tuple[int, list[str]]:
    """Start a run, kill its agent, and return the number of steps and the damage when the job has ended."""
    words = ["run", "--out", str(root), "--name", name, *OPTIONS, script("numpy_steps.py"), str(STEPS), "0.003"]
    agent = subprocess.Popen([*LEADLINE, *words], env=environment(), stderr=subprocess.PIPE, start_new_session=True)
    try:
        assert agent.stderr is not None
        agent.stderr.readline()  # the run is there
        time.sleep(after_seconds)
        agent.kill()
        agent.wait()
        wait_for(lambda: not members(agent.pid), "the end of the job")
    finally:
        if agent.stderr is not None:
            agent.stderr.close()
        for pid in members(agent.pid):
            os.kill(pid, signal.SIGKILL)
    run = leadline.open_run(root / name)
    steps = check_written(run, -1) if "w" in run.archive.stored else 0
    return steps, run.verify()


def members(session: int) -> list[int]:
    """Return the processes of a session that have not ended."""
    found = []
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        try:
            fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append(int(entry))
    return found


def test_agents_are_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = random.Random(SEED)
    moments = [generator.uniform(0.0, 1.2) for _ in range(KILLS)]
    with ThreadPoolExecutor(3) as pool:
        ended = list(pool.map(lambda each: kill_agent(tmp_path, f"run-{each[0]}", each[1]), enumerate(moments)))
    assert [damage for _, damage in ended if damage] == []
    # a job either had not begun, or trained to its end
    assert {steps for steps, _ in ended} <= {0, STEPS}
    whole = sum(steps == STEPS for steps, _ in ended)
    assert whole > KILLS // 4
    with capsys.disabled():
        print(f"\n{KILLS} agents killed: {whole} jobs trained to their end, {KILLS - whole} had not begun")


def test_compactions_are_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kills, generator = max(KILLS // 10, 2), random.Random(SEED)
    writer, steps = RunWriter(tmp_path / "one"), 0
    for _ in range(kills):
        for _ in range(20):
            writer.write_all([Capture(step, {"loss": {"value": step / 2}}) for step in range(steps, steps + 100)])
            steps += 100
        words = own_command("leadline.compaction", writer.path)
        process = subprocess.Popen(words, env=environment(LEADLINE_COMPACT_BYTES="1000"))
        time.sleep(generator.uniform(0.2, 1.0))
        process.kill()
        process.wait()
    subprocess.run(words, env=environment(LEADLINE_COMPACT_BYTES="1000"), check=True, timeout=PATIENCE)
    run = leadline.open_run(writer.path)
    assert list(losses(run).items()) == [(step, step / 2) for step in range(steps)]
    assert run.verify() == []
    with capsys.disabled():
        print(f"\n{kills} compactions killed: {steps} steps, each once")


def test_uploads_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kills, generator, uri = max(KILLS // 10, 2), random.Random(SEED), "s3://kills/one"
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    writer, steps = RunWriter(tmp_path / "one"), 0
    write_upload(writer.path, UploadState(uri))
    with amazon() as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        client("s3", address).create_bucket(Bucket="kills", CreateBucketConfiguration={"LocationConstraint": REGION})
        variables = environment(AWS_ENDPOINT_URL=address, LEADLINE_CACHE=str(tmp_path / "cache"), **CREDENTIALS)
        for _ in range(kills):
            process = subprocess.Popen(own_command("leadline.remote", writer.path), env=variables)
            kill_at = time.monotonic() + generator.uniform(0.3, 2.5)
            while time.monotonic() < kill_at:
                data = tensor(steps).tobytes()
                writer.write_all([Capture(steps, {"loss": {"value": steps / 2}})])
                writer.write_all([RawTensors(steps, {"w": ("F32", (16, 16), data)})])
                steps += 1
                time.sleep(0.01)
            process.kill()
            process.wait()
        writer.end().set_status("Completed", exit_status=0)
        completed = subprocess.run([*LEADLINE, "upload", writer.path], env=variables, capture_output=True, text=True)
        assert completed.returncode == 0, completed.stderr
        run = leadline.open_run(uri)
        assert check_written(run, steps - 1) == steps
        assert run.verify() == []
    with capsys.disabled():
        print(f"\n{kills} uploads killed: {steps} steps, each once in the store")


@pytest.mark.parametrize("number", range(max(KILLS // 20, 2)))
def test_trainings_of_pytorch_are_killed(tmp_path: Path, number: int) -> None:
    moment = random.Random(number).uniform(0.0, 1.5)
    options = ("--capture", "weights:every=1,raw=true", "--no-default-rules")
    with started(options, script("deep.py"), "--steps", "100000", folder=tmp_path) as running:
        wait_for(lambda: running.flushed_steps() > 0, "a flush")
        time.sleep(moment)
        before = losses(only_run(tmp_path / "runs"))
        os.kill(running.job(), signal.SIGKILL)
        ended = running.wait()
    assert ended.status == 128 + signal.SIGKILL
    after, batches = losses(ended.run), [one for each in ended.run.archive.series.values() for one in each.batches]
    (loss,) = ended.run.tensor_names(collection="losses")
    steps = ended.run.scalars(loss).column("step").to_pylist()
    assert steps == sorted(set(steps)), "none twice"
    # of the flush that was interrupted, steps with other statistics are written after those beside them
    complete = max(int(one.numbers("complete_step").max()) for one in batches)
    assert set(range(complete + 1)) <= set(after)
    assert {step: after[step] for step in before} == before
    assert before
    assert ended.run.verify() == []
