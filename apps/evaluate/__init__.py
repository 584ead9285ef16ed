"""Methods compared on data whose truth is known: one table, and jobs that go on after an interruption.

Each application has a module with a function ``study(...)``, which reads the data and returns a :class:`Study`: its
jobs, and how their rows become a table. :func:`evaluate` runs the jobs of any study. The baselines, methods that exist
to be compared with, live here as well.

Importing this package loads no numerical library; each name is loaded when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
