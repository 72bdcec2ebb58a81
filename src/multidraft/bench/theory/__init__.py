"""What the first draft token's acceptance would be with each method, from laws on real text."""
