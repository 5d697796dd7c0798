"""``import smdebug`` without smdebug: its modules are those of this package."""

from __future__ import annotations

from leadline.instrumentation.package_alias import alias_package


def install(replace: bool = False) -> bool:
    """Make ``import smdebug`` import this package, in this process.

    Args:
        replace: Also where smdebug itself is installed.
    Returns:
        Whether it does; False: smdebug is installed and not replaced.
    """
    return alias_package("smdebug", "leadline.compat.smdebug", replace=replace)
