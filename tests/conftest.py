"""What all tests find: where the environment says CI, hypothesis draws the same examples on every run."""

from __future__ import annotations

import os

from hypothesis import settings
from hypothesis.internal.conjecture import providers

if os.environ.get("CI"):
    settings.register_profile("the same on every run", derandomize=True, deadline=None, print_blob=True)
    settings.load_profile("the same on every run")
    # Constants of our own modules are drawn too, of those that happen to be imported by then: another test's doing.
    if hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = lambda: providers._local_constants
