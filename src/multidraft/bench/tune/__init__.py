"""Which setting is fastest for a pair: predicted, measured, recommended."""
