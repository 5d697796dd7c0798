"""From a configuration to a run: resolution, creation, joining and resumption; the process becomes the agent."""
