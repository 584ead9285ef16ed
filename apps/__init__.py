"""The applications: read, choose features, fit, report. A folder each.

=====================================  ==========================================================
:mod:`visionnmf.apps.segmentation`     image segmentation by a tree of learnt borders
:mod:`visionnmf.apps.background`       video background model and foreground masks
:mod:`visionnmf.apps.faces`            recognition and clustering of faces, shadow removal
:mod:`visionnmf.apps.masquerade`       anomaly scores of command sessions
:mod:`visionnmf.apps.cli`              the command line
=====================================  ==========================================================
"""

if __name__ != "visionnmf.apps":
    raise ImportError("import this package as visionnmf.apps, not by the name of its folder")
