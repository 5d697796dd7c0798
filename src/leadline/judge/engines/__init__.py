"""Engines that judge many runs, in local processes or on a Ray cluster, with the same verdicts."""
