"""Recorded profile windows of a run: operators, Python functions, data loading and Horovod."""
