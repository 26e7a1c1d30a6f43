"""A second implementation, straight from the definitions, that shares nothing with the core."""
