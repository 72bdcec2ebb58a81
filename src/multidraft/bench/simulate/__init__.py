"""The speed of a recorded run on another machine: its rounds, with costs from a table."""
