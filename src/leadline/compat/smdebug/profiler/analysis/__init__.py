"""Analysis of profiles, in smdebug's interface."""
