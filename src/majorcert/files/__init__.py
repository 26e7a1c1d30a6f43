"""The only code that reads and writes files."""
