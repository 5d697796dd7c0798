"""Runs in object stores: upload of a local run directory, and a local mirror of an uploaded one."""
