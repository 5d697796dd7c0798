"""A training without Leadline, with it, and with it failing; prints what Leadline leaves in the framework.

Arguments: a folder, and a kind of ``boosters.py``.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import boosters
import lightgbm
import numpy as np
import xgboost
from lightgbm.engine import CVBooster
from xgboost.callback import CallbackContainer

import leadline
from leadline.frameworks.boosting.rounds import Rounds

OWNERS = (xgboost, xgboost.Booster, CallbackContainer, lightgbm, lightgbm.Booster, lightgbm.engine, CVBooster)


def methods() -> dict[tuple[str, str], int]:
    """Return the identity of every attribute of the classes and modules that Leadline may patch."""
    return {(str(owner), name): id(value) for owner in OWNERS for name, value in vars(owner).items()}


def digest(kind: str) -> str:
    random.seed(1)
    np.random.seed(1)
    return str(getattr(boosters, kind)()["digest"])


def fail(*_: Any, **__: Any) -> None:
    raise RuntimeError("planted")


def main(folder: str, kind: str) -> None:
    original = methods()
    digests = {"bare": digest(kind)}
    with leadline.Hook(out=f"{folder}/runs", name="watched"):
        is_replaced = methods() != original
        digests["watched"] = digest(kind)
    left = changed(original)
    Rounds._end_round = fail
    hook = leadline.Hook(out=f"{folder}/runs", name="failing")
    digests["failing"] = digest(kind)
    left_after_failure = changed(original)
    hook.close()
    (document,) = leadline.open_run(hook.run).worker_documents().values()
    print(
        json.dumps(
            {
                "replaced_while_watched": is_replaced,
                "left": left,
                "left_after_failure": left_after_failure,
                "digests": digests,
                "error": document.off.error if document.off else None,
            }
        )
    )


def changed(original: dict[tuple[str, str], int]) -> list[str]:
    now = methods()
    return [" ".join(name) for name in original.keys() | now.keys() if original.get(name) != now.get(name)]


if __name__ == "__main__":
    main(*sys.argv[1:])
