"""Comparison of methods on clips with true masks."""
