"""Data with known truth, and readers for research data that lies on this machine.

``make_*`` make data from a seed. ``load_*`` in :mod:`visionnmf.datasets.local` read research data sets that the user
has; nothing is downloaded.
"""

if __name__ != "visionnmf.datasets":
    raise ImportError("import this package as visionnmf.datasets, not by the name of its folder")
