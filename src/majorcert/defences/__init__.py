"""Further kinds of evidence, one room each, by the same rules as the core."""
