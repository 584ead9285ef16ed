"""Attack whatever reads untrusted files or arrays: `make attack MINUTES=20`; not a part of the ordinary tests.

A case is a kind, a seed and a number: the same three make the same bytes.
"""
