"""The `multidraft` command: one file per command, no logic of its own."""

from multidraft.cli.app import main

__all__ = ["main"]
