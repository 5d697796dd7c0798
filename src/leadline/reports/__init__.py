"""Reports: a run as one document."""
