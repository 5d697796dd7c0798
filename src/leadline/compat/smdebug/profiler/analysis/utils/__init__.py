"""Tables of profiles, in smdebug's interface."""
