"""The plug-in of napari (``napari.yaml``): files as layers, and widgets for what a person draws or adjusts.

``visionnmf view`` opens napari. Its widgets Segment, Background and Components are made from the settings of the
applications, and show the command and the Python call that repeat what they did. Importing this package loads nothing.
"""
