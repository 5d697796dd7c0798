"""Timing of data loading, communication, operators and checkpoints."""
