"""Configuration by users: options, ``leadline.toml``, presets, parameters, budgets and secrets."""
