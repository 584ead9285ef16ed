"""Solvers that are there for comparison only: published algorithms that a newer one in the folder above surpasses."""
