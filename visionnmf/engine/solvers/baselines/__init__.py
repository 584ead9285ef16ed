"""Solvers that are only compared with: those for least squares, and those for divergences."""
