"""Charts and training jobs for notebooks, in smdebug's interface."""
