"""Loops compiled by numba, under the names of what they do: arrays in, arrays changed in place, nothing checked."""
