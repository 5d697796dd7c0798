"""Whatever has no adapter of its own: the script hands its arrays over."""
