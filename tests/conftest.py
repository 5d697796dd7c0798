"""Settings of all tests: hypothesis examples of the day under CI, forked starts, the longest tests first, signals."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Generator
from datetime import UTC, datetime

import pytest
from fork_server import client
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from units import expected_seconds, unit_of

# What the person who runs the tests trusts, or has in the cache, is no business of the tests.
_state = tempfile.TemporaryDirectory(prefix="leadline-state-")
os.environ["XDG_STATE_HOME"] = _state.name
os.environ["LEADLINE_CACHE"] = os.path.join(_state.name, "cache")

if os.environ.get("CI"):
    settings.register_profile("the same all day", derandomize=False, deadline=None, print_blob=True)
    settings.load_profile("the same all day")
    # Workers and the retry of failures inherit the seed, so that they draw the same examples also past midnight.
    os.environ.setdefault("HYPOTHESIS_SEED", f"{datetime.now(UTC):%Y%m%d}")
    # Hypothesis also draws constants of imported local modules, which depend on the tests that ran before.
    if hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = lambda: providers._local_constants

# A test run that was started in the background or by nohup ignores these signals, and so would every process of a test.
for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, _handler)

if os.environ.get("FORK_STARTS"):
    client.install()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Start the processes of a test for real if it is about how processes start."""
    if item.get_closest_marker("real_starts") is None:
        return (yield)
    with client.real_starts():
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the units that take longest; without workers the order stays as it is."""
    if not hasattr(config, "workerinput"):
        return
    units = {item.nodeid: unit_of(item.nodeid, config.rootpath) for item in items}
    items.sort(key=lambda item: (-expected_seconds(units[item.nodeid]), units[item.nodeid]))


def pytest_collection_finish() -> None:
    """Exclude what exists now from garbage collection, and from searches of all objects, which would go through it."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Fill in hypothesis's own option, before hypothesis reads it; a seed from the command line stays."""
    if os.environ.get("CI") and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = os.environ["HYPOTHESIS_SEED"]


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.option.hypothesis_seed
    return None if seed is None else f"hypothesis seed: repeat these examples with --hypothesis-seed={seed}"
