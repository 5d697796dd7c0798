"""Jobs without a framework: one that shows what it finds, one that fails, and one that waits for a file."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time


def ancestors():
    """Return the names and pids of the processes above this one."""
    pid, found = os.getppid(), []
    while pid > 1:
        with open(f"/proc/{pid}/stat") as file:
            name, _, rest = file.read().partition("(")[2].rpartition(")")
        found.append((name, pid))
        pid = int(rest.split()[1])
    return found


parser = argparse.ArgumentParser()
parser.add_argument("--do", required=True)
parser.add_argument("--place")
parser.add_argument("--depth", type=int)
options = parser.parse_args()

if options.do == "show":
    config = os.environ["SM_INPUT_CONFIG_DIR"]
    files = {name: json.load(open(os.path.join(config, name))) for name in os.listdir(config)}  # noqa: SIM115
    found = {"environment": dict(os.environ), "files": files, "arguments": sys.argv, "folder": os.getcwd()}
    with open(os.path.join(os.environ["SM_MODEL_DIR"], "found.json"), "w") as file:
        json.dump(found, file)
    with open(os.path.join(os.environ["SM_OUTPUT_DATA_DIR"], os.environ["SM_CURRENT_HOST"]), "w") as file:
        json.dump(ancestors(), file)
elif options.do == "fail" or options.do == os.environ["SM_CURRENT_HOST"]:
    raise ValueError("the data has a hole")
else:
    with open(f"{options.place}.started", "a") as file:
        file.write(f"{os.getpid()}\n")
    print("waiting", flush=True)
    while not os.path.exists(f"{options.place}.finish"):
        time.sleep(0.05)
