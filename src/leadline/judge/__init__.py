"""The judge: resolution of rules and actions, evaluation of rules on a run, and delivery of actions."""
