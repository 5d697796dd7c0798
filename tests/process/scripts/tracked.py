"""Trainings of ``logged.py`` whose trackers receive rule results; with Leadline they wait for the results.

Usage: tracked.py FOLDER TRAINING…; several trainings have a process each. The diary of a training has the rows of the
tracker, without times.
"""

import atexit
import glob
import http.server
import json
import os
import sys
import threading
import time

import logged
from forks import fork_for_each

MOST_SECONDS = 240.0
WAITS = {8: 1.0, logged.STEPS - 1: 0.0}
"""The values for which the training waits, by step. The rule is clear at the last step: no row follows its 0."""


def answered(value: float) -> bool:
    """Return whether a request to log a value was acknowledged."""
    control = os.path.join(os.environ["LEADLINE_RUN"], "control")
    done = {name.partition(".")[0] for name in os.listdir(control + "/acks")}
    for name in os.listdir(control):
        if name.partition(".")[0] in done:
            with open(os.path.join(control, name)) as file:
                if json.load(file)["parameters"].get("value") == value:
                    return True
    return False


def await_tracker(step: int) -> None:
    if "LEADLINE_RUN" in os.environ and step in WAITS:
        end = time.monotonic() + MOST_SECONDS
        while not answered(WAITS[step]):
            if time.monotonic() > end:
                raise TimeoutError(f"nobody answered after step {step}")
            time.sleep(0.02)


def train(log, *, plainly=logged.train):
    def log_and_wait(step, *values):
        log(step, *values)
        await_tracker(step)

    return plainly(log_and_wait)


def wandb_by_steps(folder: str) -> tuple:
    """The script passes a step for every row."""
    import wandb

    run = wandb.init(dir=folder, mode="offline", project="tests", settings=wandb.Settings(silent=True))
    model = train(lambda step, loss, *rest: run.log({"loss": loss.item()}, step=10 * step))
    run.finish()
    wandb.teardown()
    return model, {}


def wandb_plainly(folder: str) -> tuple:
    """Rows are numbered automatically; Leadline must not log after the last."""
    import wandb

    with wandb.init(dir=folder, mode="offline", project="tests", settings=wandb.Settings(silent=True)) as run:
        model = train(lambda step, loss, *rest: run.log({"loss": loss.item()}))
    wandb.teardown()
    return model, {}


def mlflow_client(folder: str) -> tuple:
    """The script uses its own client, without an active run."""
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    from mlflow import MlflowClient

    client = MlflowClient("file:" + folder + "/mlruns")
    run = client.create_run(client.create_experiment("own"))
    model = train(lambda step, loss, *rest: client.log_metric(run.info.run_id, "loss", loss.item(), step=step))
    client.set_terminated(run.info.run_id)
    return model, {}


def several(folder: str) -> tuple:
    """TensorBoard with histograms only, a second writer, and wandb."""
    import wandb
    from torch.utils.tensorboard import SummaryWriter

    first, second = SummaryWriter(folder + "/board"), SummaryWriter(folder + "/other")
    run = wandb.init(dir=folder, mode="offline", project="tests", settings=wandb.Settings(silent=True))

    def log(step, loss, output, labels):
        first.add_histogram("output", output, step)
        second.add_scalar("loss", loss, step)
        run.log({"loss": loss.item()})

    model = train(log)
    first.close()
    second.close()
    run.finish()
    wandb.teardown()
    return model, {}


def hanging(folder: str) -> tuple:
    """An MLflow server that stops answering once the training has begun."""
    import mlflow

    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
    server = silent_server()
    mlflow.set_tracking_uri(f"http://127.0.0.1:{server.server_address[1]}")
    mlflow.start_run(experiment_id="0")
    server.has_hung.set()
    atexit.unregister(mlflow.tracking.fluent._safe_end_run)
    WAITS.clear()
    model = train(lambda step, *values: await_request() if step == 8 else None)
    time.sleep(1.0)  # by now the logging thread is busy
    return model, {}


def silent_server() -> http.server.ThreadingHTTPServer:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.server.has_hung.is_set():
                threading.Event().wait()
            info = {"run_id": "r1", "run_uuid": "r1", "experiment_id": "0", "status": "RUNNING", "start_time": 1}
            body = json.dumps({"run": {"info": info, "data": {}}, "experiment": {"experiment_id": "0"}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.has_hung = True, threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def await_request() -> None:
    """With Leadline, wait until there is a control request."""
    control = os.path.join(os.environ.get("LEADLINE_RUN", ""), "control")
    end = time.monotonic() + MOST_SECONDS
    while "LEADLINE_RUN" in os.environ and not any(name.endswith(".json") for name in os.listdir(control)):
        if time.monotonic() > end:
            raise TimeoutError("nobody asked")
        time.sleep(0.02)


def none(folder: str) -> tuple:
    """Closed and deleted trackers."""
    from torch.utils.tensorboard import SummaryWriter

    SummaryWriter(folder + "/board").close()
    return train(lambda *values: None), {}


def wandb_rows(folder: str) -> list:
    from wandb.proto.wandb_internal_pb2 import Record

    found = []
    for path in sorted(glob.glob(folder + "/wandb/offline-run*/*.wandb")):
        for data in logged.offline_records(path):
            record = Record()
            record.ParseFromString(data)
            items = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            found += [{key: value for key, value in items.items() if key not in ("_timestamp", "_runtime")}] * bool(
                items
            )
    return found


def wandb_summary(folder: str) -> dict:
    from wandb.proto.wandb_internal_pb2 import Record

    found = {}
    for path in sorted(glob.glob(folder + "/wandb/offline-run*/*.wandb")):
        for data in logged.offline_records(path):
            record = Record()
            record.ParseFromString(data)
            found |= {
                item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.summary.update
            }
    return {key: value for key, value in found.items() if key.startswith("leadline/") or key == "_step"}


def board_rows(folder: str) -> list:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found = []
    for path in sorted(glob.glob(folder + "/**/events*", recursive=True)):
        board = os.path.relpath(os.path.dirname(path), folder)
        for event in EventFileLoader(path).Load():
            found += [[board, value.tag, event.step, list(value.tensor.float_val)] for value in event.summary.value]
    return found


def mlflow_rows(folder: str) -> list:
    found = []
    for path in sorted(glob.glob(folder + "/mlruns/*/*/metrics/**/*", recursive=True)):
        if os.path.isfile(path):
            with open(path) as file:
                words = [line.split() for line in file]
            found += [[path.partition("/metrics/")[2], value, int(step)] for _, value, step in words]
    return found


def main() -> None:
    folder, name = sys.argv[1], fork_for_each(sys.argv[2:])
    logged.torch.set_num_threads(1)
    logged.train = train
    own = os.path.join(folder, name)
    os.makedirs(own)
    kind = globals().get(name) or getattr(logged, name)
    model, _ = kind(own)
    kept = {
        "wandb": wandb_rows(own) if "wandb" in sys.modules else [],
        "tensorboard": board_rows(own) if glob.glob(own + "/**/events*", recursive=True) else [],
        "mlflow": mlflow_rows(own),
        "summary": wandb_summary(own) if "wandb" in sys.modules else {},
    }
    with open(own + ".json", "w") as file:
        json.dump({"digest": logged.digest(model), "imported": sorted(sys.modules)} | kept, file)


if __name__ == "__main__":
    main()
