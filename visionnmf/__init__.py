"""Robust non-negative matrix factorisation for images, video and other data full of outliers.

Estimators (scikit-learn contract): :class:`NMF`, :class:`ConservativeNMF`, :class:`MultiviewNMF`, :class:`OnlineNMF`,
:class:`ProjectiveNMF`, :class:`SymmetricNMF`; without non-negativity, as baselines, :class:`RPCA` and
:class:`GoDec`; :func:`load_model` reads what their ``save`` has written,
:func:`fit_stream` learns from data that do not fit into memory, :func:`select_rank` proposes the number of components.
Applications: :mod:`visionnmf.apps`. Made data: :mod:`visionnmf.datasets`.

Importing this package loads no numerical library; each name is loaded when first used.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from ._lazy import lazy_names
from ._version import __version__ as __version__

if TYPE_CHECKING:
    from .models import NMF as NMF
    from .models import RPCA as RPCA
    from .models import Checkpoint as Checkpoint
    from .models import ConservativeNMF as ConservativeNMF
    from .models import GoDec as GoDec
    from .models import MultiviewNMF as MultiviewNMF
    from .models import OnlineNMF as OnlineNMF
    from .models import Penalty as Penalty
    from .models import ProjectiveNMF as ProjectiveNMF
    from .models import SymmetricNMF as SymmetricNMF
    from .models import fit_stream as fit_stream
    from .models import load_model as load_model
    from .models import select_rank as select_rank

_MODELS = (
    "NMF", "RPCA", "Checkpoint", "ConservativeNMF", "GoDec", "MultiviewNMF", "OnlineNMF", "Penalty", "ProjectiveNMF",
    "SymmetricNMF", "fit_stream", "load_model", "select_rank",
)  # fmt: skip
__getattr__, __dir__, __all__ = lazy_names(__name__, {"models": _MODELS}, also=("__version__",))

# In a checkout the sub-packages `apps` and `datasets` lie beside this folder, not in it; with the checkout as working
# directory it shadows the installed package, so it has to find them too.
_root = Path(__file__).resolve().parent.parent
if (_root / "apps" / "__init__.py").is_file() and (_root / "datasets" / "__init__.py").is_file():
    __path__.append(str(_root))
