"""Small trainings of the kinds that public programs have, one after another in a process: FRAMEWORK.

Prints as JSON the steps of every training by its own count, and a hash of what all of them have trained.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys

import numpy as np
from trainings_in_turn import TRAININGS


def seed(framework: str) -> None:
    if framework == "torch":
        import torch

        torch.manual_seed(0)
        torch.set_num_threads(1)
    elif framework == "tensorflow":
        import keras

        keras.utils.set_random_seed(0)
    elif framework == "mxnet":
        import mxnet as mx

        mx.random.seed(0)


def main() -> None:
    counts, trained = {}, hashlib.sha256()
    importlib.import_module("public_kinds_torch" if sys.argv[1] == "torch" else "public_kinds_others")
    seed(sys.argv[1])
    for training in TRAININGS[sys.argv[1]]:
        steps, running = 0, training()
        while True:
            try:
                next(running)
                steps += 1
            except StopIteration as ended:
                for array in ended.value:
                    array = array.detach().numpy() if hasattr(array, "detach") else np.asarray(array)
                    trained.update(np.ascontiguousarray(array).tobytes())
                break
        counts[training.__name__] = steps
    print(json.dumps({"steps": counts, "trained": trained.hexdigest()}))


main()
