"""Runs of trainings within this process: captured by a session of their own, one after the other."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence

from leadline.cli.check import DEFAULT_SECONDS, DEFAULT_STEP
from leadline.config.capture import parse_capture
from leadline.config.presets import merge, preset_items
from leadline.config.run_config import DEFAULT_BUDGET, RunConfig, parse_budget
from leadline.judge.rule_plan import default_rules, plan, resolve_rules
from leadline.launch.prepare import prepare
from leadline.records.check_result import PROBES, CheckOrder
from leadline.records.manifest import Manifest, RuleSpec
from leadline.records.plan import CapturePlan
from leadline.rules.registry import BUILT_IN
from leadline.store import layout
from leadline.store.documents import write_document
from leadline.store.run_state import create_run, read_status, write_status
from leadline.training.session import api

NOT_JUDGED = ("similar_across_runs", "tensor_variance")
"""Rules that need another run or a user-defined threshold."""
PARAMETERS = {
    "all_zero": {"collection_names": ("gradients",)},
    "unchanged_tensor": {"collection_names": ("weights",)},
}
RULES = [RuleSpec(name, name, PARAMETERS.get(name, {})) for name in BUILT_IN if name not in NOT_JUDGED]


def is_complete(folder: str, name: str) -> bool:
    """Return whether a run is complete; what there is of an incomplete one is removed."""
    run = os.path.join(folder, name)
    if os.path.exists(run) and read_status(run).status == "Completed":
        return True
    shutil.rmtree(run, ignore_errors=True)
    return False


@contextlib.contextmanager
def watched(folder: str, name: str, *, is_default: bool = False, rules: Sequence[str] = ()) -> Iterator[None]:
    """Capture what the preset ``full`` and all rules need, without a budget.

    Args:
        is_default: Capture what is captured by default instead, with the default budget.
        rules: Names of rules in addition to the default ones.
    """
    run = os.path.join(folder, name)
    preset, specs = (
        ("standard", [*default_rules(), *(RuleSpec(rule, rule, {}) for rule in rules)])
        if is_default
        else ("full", RULES)
    )
    budget = parse_budget(DEFAULT_BUDGET, "the default") if is_default else None
    resolved = resolve_rules(specs)
    items = merge(preset_items(preset), (), plan(resolved, ()), root=folder, budget=budget)
    manifest = Manifest(
        name=name,
        uri=run,
        command=("train.py",),
        started_ns=time.time_ns(),
        leadline="0",
        preset=preset,
        folder=folder,
        plan=items,
        rules=tuple(spec for spec, _ in resolved),
    )
    create_run(run, manifest, status="InProgress")
    with captured(run):
        yield


@contextlib.contextmanager
def checked(folder: str, name: str) -> Iterator[None]:
    """Test a copy of what is trained as ``leadline check --continue`` does, into a run of the folder."""
    run = os.path.join(folder, name)
    plan_of_check = CapturePlan(items=(parse_capture("losses:every=1"),))
    create_run(run, Manifest(name, run, ("train.py",), time.time_ns(), "0", folder=folder, plan=plan_of_check))
    order: CheckOrder = {"step": DEFAULT_STEP, "seconds": DEFAULT_SECONDS, "ends": False, "probes": list(PROBES)}
    write_document(os.path.join(run, layout.CHECK), order)
    with captured(run):
        yield


def prepared(words: Sequence[str], script: str, name: str) -> str:
    """Create a run as ``leadline run`` with these options would, without a budget; return its path."""
    options = argparse.ArgumentParser()
    options.add_argument("--preset")
    options.add_argument("--capture", action="append", default=[])
    options.add_argument("--rule", action="append", default=[], dest="rules")
    options.add_argument("--no-default-rules", action="store_false", dest="default_rules")
    config = RunConfig.from_options(**vars(options.parse_args(words)), name=name, budget="off")
    return prepare(config, [script, name])


@contextlib.contextmanager
def captured(run: str) -> Iterator[None]:
    """Capture what is trained into a run that exists; it is complete then."""
    own = api.start(run)
    assert own is not None
    try:
        yield
    finally:
        is_whole = own.close()
        api.forget(own)
        now = time.time_ns()
        write_status(run, "Completed", now, ended_ns=now)
    assert own.guard.failure is None, own.guard.failure
    assert is_whole
