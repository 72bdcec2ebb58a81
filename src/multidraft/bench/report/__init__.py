"""A run folder turned into a report: statistics, tables, plots, and the files they go into."""
