"""Faulty trainings or their healthy twins, each captured in a run of its own as `leadline run` would: faulty | healthy.

Reads a JSON object from standard input: the options of `leadline run` by the name of the fault.
"""

import json
import sys

import torch
from faults import trainings
from watched_runs import captured, prepared


def main() -> None:
    torch.set_num_threads(1)
    for name, words in json.load(sys.stdin).items():
        run = prepared(words, "faults.py", name)
        torch.manual_seed(0)
        with captured(run):
            trainings()[name](healthy=sys.argv[1] == "healthy")


if __name__ == "__main__":
    main()
