"""Capture of the values that a script logs through logging libraries; none of them is imported by Leadline."""
