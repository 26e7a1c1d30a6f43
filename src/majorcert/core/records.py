"""Stands in `errors.frozen` now."""

from majorcert.errors.frozen import filled, taken

__all__ = ["filled", "taken"]
