"""The round loop and what stands on it."""

from multidraft.engine.decoder import Decoder, Piece
from multidraft.engine.engine import Engine, Progress
from multidraft.engine.sequence import Result, Sequence, TokenLogprob
from multidraft.engine.stats import Stats

__all__ = [
    "Decoder",
    "Engine",
    "Piece",
    "Progress",
    "Result",
    "Sequence",
    "Stats",
    "TokenLogprob",
]
