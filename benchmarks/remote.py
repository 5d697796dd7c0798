"""A running job that is uploaded to S3: how far a reader elsewhere is behind, what that costs, and how many objects.

``leadline run --out s3://…`` trains with NumPy for some minutes at 100 steps per second, with a loss at each step and
statistics of 20 arrays at every tenth. moto's server is the store. A reader with a cache of its own refreshes the run
once per second.

* ``lag``: from the time that a step was recorded until the reader has it, once per second; the limit applies to the
  maximum.
* ``upload, share of a core``: processor time of the process that uploads, over the time of the training.
* ``objects per hour and worker``: of the files of the worker, when the run is complete, scaled to an hour.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import harness
import moto_s3
from harness import Limit, Row

import leadline
from leadline.errors import LeadlineError
from leadline.reader.run import Run
from leadline.remote.object_store import ObjectStore

SECONDS, QUICK_SECONDS = 300, 20
_SCRIPT = """
import sys, time
import numpy as np
import leadline
hook, arrays = leadline.Hook(), [np.random.default_rng(n).normal(size=1000) for n in range(20)]
began = time.perf_counter()
step = 0
while time.perf_counter() < began + float(sys.argv[1]):
    hook.log(loss=1 / (step + 1))
    if step % 10 == 0:
        for n, array in enumerate(arrays):
            hook.save_tensor(f"w{n}", array, collections="weights")
    hook.step()
    step += 1
    time.sleep(max(0.0, began + step / 100 - time.perf_counter()))
"""


def uploader_of(agent: int) -> int | None:
    """Return the process of an agent that uploads."""
    for child in harness.children(agent):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"leadline.remote" in words:
            return child
    return None


def lag_seconds(run: Run) -> float | None:
    """Return how long ago the latest step was recorded that the reader has; None: it has none."""
    if "loss" not in run.refresh().tensor_names():
        return None
    times = run.tensor("loss").statistics("value").column("time_ns")
    return (time.time_ns() - times[-1].as_py()) / 1e9


def measure(folder: Path, bucket: str, seconds: int) -> list[Row]:
    """Train a job that is uploaded, read it at the same time, and return the rows."""
    uri = f"{bucket}/jobs/one"
    (folder / "train.py").write_text(_SCRIPT)
    words = [harness.LEADLINE, "run", "--out", f"{bucket}/jobs", "--name", "one", "--capture"]
    words += ["weights:every=1,statistics=min,max,mean,std", sys.executable, "train.py", str(seconds)]
    agent = subprocess.Popen(words, cwd=folder, env=os.environ | {"LEADLINE_CACHE": str(folder / "job")})
    os.environ["LEADLINE_CACHE"] = str(folder / "reader")
    lags: list[float] = []
    cpu_ns, training, run = 0, 0.0, None
    began = time.perf_counter()
    while agent.poll() is None:
        time.sleep(1.0)
        try:
            run = run or leadline.open_run(uri)
        except LeadlineError:
            continue
        lag = lag_seconds(run)
        upload = uploader_of(agent.pid)
        if lag is not None and upload is not None and time.perf_counter() - began < seconds:
            lags.append(lag)
            cpu_ns = harness.processor_ns(upload)
            training = time.perf_counter() - began
    if not lags:
        return [Row("lag of a reader elsewhere", "s", None, note="nothing was uploaded while the job ran")]
    objects = [stored.name for stored in ObjectStore(uri).objects() if "/rank0" in f"/{stored.name}"]
    hourly = len(objects) * 3600 / seconds
    return [
        Row("lag of a reader elsewhere", "s", harness.spread(lags), Limit(5.0, figure="most"), values=tuple(lags)),
        Row("upload, share of a core", "%", harness.spread([100 * cpu_ns / 1e9 / training]), Limit(1.0)),
        Row("objects per hour and worker", "", harness.spread([hourly]), Limit(120.0), note=f"{len(objects)} in all"),
    ]


def main() -> int:
    parser = harness.arguments(__doc__, rounds=1, quick_rounds=1)
    options = parser.parse_args()
    started = harness.machine()
    harness.RESULTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=harness.RESULTS) as scratch, moto_s3.serve() as bucket:
        rows = measure(Path(scratch), bucket, QUICK_SECONDS if options.quick else SECONDS)
    return harness.report("remote", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
