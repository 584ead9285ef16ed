"""Regions of one image, and how alike they are; import the names from :mod:`visionnmf.features`."""
