"""Where many runs are judged: here in processes, or on a Ray cluster; the verdicts are the same."""
