"""Capture of the tensors of one optimizer and of forward passes."""
