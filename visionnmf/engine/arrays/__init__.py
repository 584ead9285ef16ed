"""The engine on arrays of other libraries, such as PyTorch and CuPy, where the data lie: on a GPU or a processor.

Everything here is written in the array API standard, once for all libraries and devices. The loops of the solvers are
those of :mod:`..solvers`; what differs is who holds the data (:class:`.admm.AdmmOnDevice`,
:class:`.descent.DescentOnDevice`). Importing this package loads none of these libraries.

==============  ================================================================================================
module          contents
==============  ================================================================================================
namespace       the library and device of an array, copies from and to NumPy, sums, compiled functions, chunks of rows
factors         penalties of a factor, and HALS sweeps over it
passes          the elementwise part of an iteration of ADMM, for each loss
admm            continuation ADMM, and codes of fixed components by ADMM
descent         HALS with extrapolation, for least squares and the end of the Huber loss, and least-squares codes
==============  ================================================================================================
"""
