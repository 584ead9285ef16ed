"""The background of a stream, frame by frame; :mod:`visionnmf.apps.background` is its public name."""
