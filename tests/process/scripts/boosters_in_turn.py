"""Trainings of boosters, each captured in a run of its own as `leadline run` would.

Arguments: a folder for the records, then the kinds. Reads a JSON list from standard input: options of `leadline run`.
"""

import json
import sys

from boosters import main as train
from watched_runs import captured, prepared


def main(folder: str, *kinds: str) -> None:
    words = json.load(sys.stdin)
    for kind in kinds:
        with captured(prepared(words, "boosters.py", kind)):
            train(folder, kind)


if __name__ == "__main__":
    main(*sys.argv[1:])
