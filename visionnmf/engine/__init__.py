"""The mathematics, as functions of arrays: loss x penalty x solver x loop.

:mod:`.losses`, :mod:`.penalties`, :mod:`.starts`, :mod:`.solvers`, :mod:`.solving` (two factors, or codes),
:mod:`.symmetric` (one factor), :mod:`.online` (streams). Nothing here opens a file, prints, or knows an application.

The same names hold the same arrays throughout, for n_samples rows, n features and r components:

=================  ====================  ===================================================================
name               shape                 contents
=================  ====================  ===================================================================
X, M               (n_samples, n)        the data and the weights of their entries, None for 1
Wt, H              (r, n_samples|n)      the codes, transposed, and the components: the model is ``P = Wt.T @ H``
F or Ft, A         (r, n_rows), (r, n)   a factor to improve, and the fixed one; for H the problem is transposed
gram, right        (r, r), (r, n_rows)   ``A @ A.T`` and ``A @ X.T``, of ``<F, gram F> / 2 - <right, F>``
low, high, l1, l2  (r,) or a number      the bounds of a factor and the weights of its penalties
block, chunk       (start, stop)         a range of rows, which one thread works on
=================  ====================  ===================================================================

S (n, n), H and c (n,) are the affinity, the factor and the weights of the nodes of a symmetric model.
"""
