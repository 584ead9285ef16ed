"""Fits of data whose rows lie in blocks, in this process or on the workers of a Dask cluster.

Each block of rows keeps its state (data, codes, dual) where it is (:mod:`.block`). A :class:`.crew.Crew` passes
messages to all blocks and adds up their answers, whose size depends on the numbers of components and features only. The
algorithms are those of :mod:`..solvers`: :func:`..solvers.admm.follow` and :func:`..solvers.hals.descend` ask rows for
sums, and :mod:`.rows` gets these sums from a crew. Nothing here imports Dask; :mod:`.cluster` uses a given client.
"""
