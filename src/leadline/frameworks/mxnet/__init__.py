"""Capture of Gluon trainings with MXNet."""
