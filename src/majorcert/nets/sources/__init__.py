"""Where images come from: one file per kind of source, each of which reads one `Part`."""
