"""The verbs of the command line, thin: they read one artifact, call the library and write the next."""
