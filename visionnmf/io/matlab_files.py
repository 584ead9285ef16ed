"""Read matrices of numbers from MATLAB files of the versions 4 to 7."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from visionnmf._text import one_line
from visionnmf.exceptions import UnreadableError, UnsupportedError

from .decoding import apart
from .inputs import regular_file
from .npz_files import check_names, holds_numbers

_NOT_MATLAB = "not a file of MATLAB 4 to 7, or damaged; download it again, or save it in MATLAB with the option -v7"


@apart
def read_mat(path: Path, names: list[str], *, nested: bool = False) -> dict[str, Any]:
    """Read matrices by name.

    Parameters
    ----------
    path : Path
    names : list of str
    nested : bool, default=False
        Whether to read cells and structures too.

    Returns
    -------
    dict of str to ndarray
        If `nested`, a cell array becomes a list, a structure a dict, and axes of length 1 are dropped.

    Raises
    ------
    UnreadableError, UnsupportedError
        If the file is damaged or not of MATLAB 4 to 7, or a name is missing or not that of a matrix of real numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from scipy.io import savemat
    >>> from visionnmf.io import read_mat
    >>> savemat("data.mat", {"X": np.eye(3)})
    >>> read_mat(Path("data.mat"), ["X"])["X"].shape
    (3, 3)
    """
    with regular_file(path, "data").open("rb") as file:
        start = file.read(128)
    # Files of version 4 begin with a number below 5000 in four bytes, little or big end first; others name the order
    # of their bytes at the end of their header.
    if start[126:] not in (b"IM", b"MI") and start[2:4] != b"\0\0" and start[:2] != b"\0\0":
        raise UnreadableError(f"{path}: {_NOT_MATLAB}")
    from scipy.io import loadmat, whosmat

    try:
        found = loadmat(path, variable_names=names, simplify_cells=nested)
    except NotImplementedError as error:  # version 7.3, which is HDF5
        raise UnsupportedError(
            f"{path} is not a file of MATLAB 4 to 7; save it in MATLAB with the option -v7."
        ) from error
    except MemoryError:
        raise
    except Exception as error:  # SciPy raises nearly anything on damaged files
        raise UnreadableError(f"{path}: {_NOT_MATLAB} ({one_line(error):.200})") from error
    if not set(names) <= set(found):
        check_names(path, names, {name for name, *_ in whosmat(path)})
    for name in names:
        if not nested and not holds_numbers(found[name]):
            raise UnsupportedError(f"{path}: {name} is not a matrix of real numbers.")
    return {name: found[name] for name in names}
