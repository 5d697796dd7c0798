"""Child processes, and their messages to each other."""
