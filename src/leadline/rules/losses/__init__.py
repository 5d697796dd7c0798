"""Rules for losses and metrics."""
