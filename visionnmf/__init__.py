"""Robust non-negative matrix factorisation for images, video and other data full of outliers.

Estimators (scikit-learn contract): :class:`NMF`, :class:`ConservativeNMF`, :class:`MultiviewNMF`, :class:`OnlineNMF`,
:class:`ProjectiveNMF`, :class:`SymmetricNMF`; :func:`load_model` reads what their ``save`` has written,
:class:`ViewClassifier` predicts classes from several views, :func:`fit_stream` learns from data that do not fit into
memory, :func:`select_rank` proposes the number of components. Applications: :mod:`visionnmf.apps`. Made data:
:mod:`visionnmf.datasets`.

Importing this package loads no numerical library; each name is loaded when first used.
"""

from pathlib import Path

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

# In a checkout the sub-packages `apps` and `datasets` lie beside this folder, not in it; with the checkout as working
# directory it shadows the installed package, so it has to find them too.
_root = Path(__file__).resolve().parent.parent
if (_root / "apps" / "__init__.py").is_file() and (_root / "datasets" / "__init__.py").is_file():
    __path__.append(str(_root))
