"""Settings of all tests: reproducible hypothesis examples under CI, and the default handling of SIGINT."""

from __future__ import annotations

import os
import signal

from hypothesis import settings
from hypothesis.internal.conjecture import providers

if os.environ.get("CI"):
    settings.register_profile("the same on every run", derandomize=True, deadline=None, print_blob=True)
    settings.load_profile("the same on every run")
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
