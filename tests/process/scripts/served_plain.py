"""Jobs without a framework: one that shows what it finds, one that fails, and one that waits for a file."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

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
elif options.do == "fail":
    raise ValueError("the data has a hole")
else:
    with open(f"{options.place}.started", "a") as file:
        file.write(f"{os.getpid()}\n")
    print("waiting", flush=True)
    while not os.path.exists(f"{options.place}.finish"):
        time.sleep(0.05)
