"""Samples the machine and the job's processes; every number that could not be read is absent, never 0."""
