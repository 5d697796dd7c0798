"""Profile windows: operators, Python functions and data loaders, for a few steps of a running job."""
