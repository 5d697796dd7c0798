"""``python -m leadline.serve.algorithms NAME``: the training of a built-in algorithm, in the place of a script."""

from __future__ import annotations

import sys
import traceback

from leadline.serve.algorithms import job
from leadline.serve.algorithms.errors import OWN_STATUS, USER_STATUS, UserError


def main(name: str) -> int:
    """Train, and return the exit status."""
    if name == "lightgbm":
        from leadline.serve.algorithms.lightgbm_training import train
    else:
        from leadline.serve.algorithms.xgboost_training import train
    try:
        train()
    except UserError as error:
        job.say(f"ERROR: {error}")
        job.write_failure(str(error))
        return USER_STATUS
    except Exception as error:  # noqa: BLE001 - reported as the failure of the algorithm
        traceback.print_exc()
        job.write_failure(f"{type(error).__name__}: {error}")
        return OWN_STATUS
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
