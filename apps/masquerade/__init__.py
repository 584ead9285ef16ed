"""Anomaly scores for sessions of commands: how far a session is from its user's habits.

=================================  ===============================================================================
:class:`SessionScorer`             learns one user's habits from sessions; scores, explains and learns on
:func:`train`                      histories in, one model file with all users out
:func:`score`                      a model and logs (or standard input) in, one result for each session out
:func:`save`, :func:`load`         model files: counts in ``.npz`` with a JSON header, never pickle
=================================  ===============================================================================

The application is that of Mex-Perera et al., "An improved non-negative matrix factorization method for masquerade
detection". Their model exactly as published is :class:`visionnmf.apps.evaluate.session_baselines.MexPereraNMF`.

Importing this package loads no numerical library; each name is loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
