"""Names of parameters, modules and losses."""
