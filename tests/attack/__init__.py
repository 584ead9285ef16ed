"""Attack whatever reads untrusted files or arrays: `make attack MINUTES=20`; not a part of the ordinary tests.

Sound files are made, mutated with regard to their structure, and read in worker processes whose memory and time are
watched. A case is a kind, a seed and a number: the same three make the same bytes.
"""
