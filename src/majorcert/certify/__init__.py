"""From evidence to verdicts: one file for each method."""
