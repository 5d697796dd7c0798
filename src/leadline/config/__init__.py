"""Configuration: settings as they are written, read once and strictly."""
