"""Run programs in this process, each captured by default with the default budget, and judge the runs: FOLDER.

Reads one program per line from standard input, and writes one result per line to standard output, both as JSON. With
``KERAS_BACKEND`` in the environment the programs are those of Keras, else of PyTorch.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import random
import shutil
import sys
import time
import traceback
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from judged_runs import judge
from watched_runs import checked, watched

from leadline.reader.checks import read_checks

_IS_KERAS = "KERAS_BACKEND" in os.environ


def run(program: dict[str, Any], folder: str) -> dict[str, Any]:
    """Run a program as a script; return the results by rule, or those of its checks, and the error it ended with."""
    name, file = program["name"].replace("/", "."), program["file"]
    shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    sys.argv = [file, *program["arguments"]]
    seed(program["seed"])
    error = None
    began = time.monotonic()
    is_checked = program["is_checked"]
    observed = checked(folder, name) if is_checked else watched(folder, name, is_default=True, rules=program["rules"])
    with contextlib.redirect_stdout(io.StringIO()), observed:
        try:
            exec(compile(program["source"], file, "exec"), {"__name__": "__main__", "__file__": file})
        except Exception:  # noqa: BLE001 - a program may end as it likes; the caller decides what that means
            error = traceback.format_exc()
    if is_checked:
        found = [asdict(result) for results in read_checks(os.path.join(folder, name)).values() for result in results]
        return {"name": program["name"], "error": error, "checks": found, "seconds": time.monotonic() - began}
    told = {rule: asdict(result) for rule, result in judge(Path(folder, name)).items()}
    return {"name": program["name"], "error": error, "rules": told}


def seed(number: int) -> None:
    """Seed all random numbers, and let Keras name layers as in a new process."""
    random.seed(number)
    np.random.seed(number)
    if _IS_KERAS:
        import keras

        keras.utils.clear_session()
        keras.utils.set_random_seed(number)
    else:
        import torch

        torch.manual_seed(number)


def main() -> None:
    folder = sys.argv[1]
    if not _IS_KERAS or os.environ["KERAS_BACKEND"] == "torch":
        import torch

        torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # what the frameworks say of the mistakes
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line), folder)), flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
