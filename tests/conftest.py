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

# A test run that was started in the background ignores SIGINT, and every process that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
