"""Read matrices of numbers from MATLAB files of the versions 4 to 7."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from visionnmf.exceptions import UnsupportedError

from .decoding import apart
from .npz_files import check_names, holds_numbers


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
    from scipy.io import loadmat, whosmat

    try:
        found = loadmat(path, variable_names=names, simplify_cells=nested)
    except NotImplementedError as error:  # version 7.3, which is HDF5
        raise UnsupportedError(
            f"{path} is not a file of MATLAB 4 to 7; save it in MATLAB with the option -v7."
        ) from error
    if not set(names) <= set(found):
        check_names(path, names, {name for name, *_ in whosmat(path)})
    for name in names:
        if not nested and not holds_numbers(found[name]):
            raise UnsupportedError(f"{path}: {name} is not a matrix of real numbers.")
    return {name: found[name] for name in names}
