"""Windows of depth: operators, Python functions, data loaders, for a few steps of a running job."""
