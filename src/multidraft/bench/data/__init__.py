"""Prompts to measure on: published data sets and files of one's own."""

from multidraft.bench.data.example import Example
from multidraft.bench.data.load import choose, fingerprint, for_chat, load_examples, parse_names

__all__ = ["Example", "choose", "fingerprint", "for_chat", "load_examples", "parse_names"]
