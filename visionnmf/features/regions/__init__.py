"""Regions of an image, and how alike they are. Import the names from :mod:`visionnmf.features`."""
