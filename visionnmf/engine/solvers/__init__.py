"""One file an algorithm; :mod:`.table` lists them and says what each can do."""

from typing import TYPE_CHECKING

from visionnmf._lazy import lazy_names

if TYPE_CHECKING:
    from .contract import Progress as Progress
    from .table import SOLVERS as SOLVERS
    from .table import Solver as Solver
    from .table import check_solver as check_solver
    from .table import choose as choose

_MODULES = {"contract": ("Progress",), "table": ("SOLVERS", "Solver", "check_solver", "choose")}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES)
