"""Where smdebug has the functions that pause the reading of new data."""
