"""Read, write and cut video; :mod:`visionnmf.io` exports the public names."""
