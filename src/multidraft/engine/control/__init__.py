"""How much to draft: chosen before each round, from past rounds alone."""
