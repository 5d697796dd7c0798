"""Faulty trainings or their healthy twins, each captured in a run of its own as `leadline run` would: faulty | healthy.

Reads a JSON object from standard input: the options of `leadline run` by the name of the fault.
"""

import argparse
import json
import sys

import torch
from faults import trainings
from watched_runs import captured

from leadline.config.resolve import prepare
from leadline.config.run_config import RunConfig


def read_options(words: list[str]) -> RunConfig:
    options = argparse.ArgumentParser()
    options.add_argument("--name")
    options.add_argument("--preset")
    options.add_argument("--capture", action="append", default=[])
    options.add_argument("--rule", action="append", default=[], dest="rules")
    options.add_argument("--no-default-rules", action="store_false", dest="default_rules")
    return RunConfig.from_options(**vars(options.parse_args(words)), budget="off")


def main() -> None:
    torch.set_num_threads(1)
    for name, words in json.load(sys.stdin).items():
        run = prepare(read_options([*words, "--name", name]), ["faults.py", name])
        torch.manual_seed(0)
        with captured(run):
            trainings()[name](healthy=sys.argv[1] == "healthy")


if __name__ == "__main__":
    main()
