"""The writer of trace files, where smdebug has it."""
