"""The run directory: the only interface between the training side and the judging side."""
