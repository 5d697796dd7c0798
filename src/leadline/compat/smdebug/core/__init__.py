"""Modes and tensors of smdebug's interface, where smdebug has them."""
