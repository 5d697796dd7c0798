"""Logs of trainings that ran without Leadline: what they hold, as a run that rules can judge."""
