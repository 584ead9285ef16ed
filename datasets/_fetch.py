"""Face data sets that are downloaded once, checked, and kept in a cache folder."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from visionnmf.exceptions import MediaError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io import output_file, output_folder

from ._faces import Faces, load_faces

_MAX_BYTES = 32 << 20
_TIMEOUT = 30  # seconds without an answer
_CAI = "http://www.cad.zju.edu.cn/home/dengcai/Data"
_SPARSE = "https://raw.githubusercontent.com/tansyab1/CNN-Sparse/c52b9c2c783bf6e350b11962781b7c2d701ce2c4/data"
_SDGNMF = "https://raw.githubusercontent.com/DUTers11717015/SDGNMF/dfa30e1a35019d69d3205c98b2e9e01b8d46acf8"


@dataclass(frozen=True)
class _Remote:
    """A MATLAB file of faces on the internet."""

    title: str
    addresses: tuple[str, ...]
    # SHA-256 of the images (uint8, upright, row by row) and then the labels (64 bits, little-endian), sorted by label
    checksum: str


_REMOTES: dict[str, _Remote] = {
    "orl_32x32": _Remote(
        "the ORL faces, 32x32",
        (f"{_CAI}/ORL/ORL_32x32.mat", f"{_SDGNMF}/ORL_32.mat"),
        "003434f6e88dc34b687a271324dd20b9d41f443101455f5fc668c677f801d3ab",
    ),
    "yale_32x32": _Remote(
        "the Yale faces, 32x32",
        (f"{_CAI}/Yale/Yale_32x32.mat", f"{_SPARSE}/Yale_32x32.mat"),
        "63b3cef9862a48a1f6e65f2765abfae5dea8a91c282d6bacb93614801c0ff6ca",
    ),
    "yaleb_32x32": _Remote(
        "the Extended Yale B faces, 32x32",
        (f"{_CAI}/YaleB/YaleB_32x32.mat", f"{_SPARSE}/YaleB_32x32_ori.mat"),
        "af10c3a6a31ca3b418aba08574e3732a5f507be70d3a979f1e5e053163f641ba",
    ),
}


def cache_folder() -> Path:
    """Return the folder where downloaded data is kept. It may not exist yet.

    Returns
    -------
    Path
        The folder that the environment variable VISIONNMF_CACHE names, or else ``visionnmf`` in the user's cache
        folder: ``$XDG_CACHE_HOME`` or ``~/.cache``, and ``~/Library/Caches`` on macOS.

    Examples
    --------
    >>> from visionnmf.datasets import cache_folder
    >>> cache_folder().name
    'visionnmf'
    """
    named = os.environ.get("VISIONNMF_CACHE")
    if named:
        return Path(named)
    from pooch import os_cache

    return Path(os_cache("visionnmf"))


def fetch_orl() -> Faces:
    """Fetch the ORL faces (AT&T, Olivetti): 40 people with 10 images each, 32 × 32 pixels, aligned by Deng Cai.

    The file is downloaded once and kept in :func:`cache_folder`. Its images and labels are compared with a checksum.
    The owners ask for credit to the Olivetti Research Laboratory (AT&T Laboratories Cambridge).

    Returns
    -------
    Faces
        400 images, sorted by person.

    Raises
    ------
    UnreadableError
        If the file is not there and cannot be downloaded. The message says where to put it by hand.
    MediaError
        If the file cannot be written to the folder.

    References
    ----------
    F. Samaria, A. Harter, "Parameterisation of a stochastic model for human face identification", WACV 1994.

    Examples
    --------
    >>> from visionnmf.datasets import fetch_orl
    >>> faces = fetch_orl()  # doctest: +SKIP
    """
    return _fetch("orl_32x32")


def fetch_yale() -> Faces:
    """Fetch the Yale faces: 15 people with 11 expressions and illuminations each, 32 × 32 pixels, aligned by Deng Cai.

    Errors are those of :func:`fetch_orl`. The data is free for research, but no image may become part of a larger
    database that is publicly distributed.

    Returns
    -------
    Faces
        165 images, sorted by person.

    References
    ----------
    P. Belhumeur, J. Hespanha, D. Kriegman, "Eigenfaces vs. Fisherfaces", IEEE Transactions on Pattern Analysis and
    Machine Intelligence 19(7), 1997.

    Examples
    --------
    >>> from visionnmf.datasets import fetch_yale
    >>> faces = fetch_yale()  # doctest: +SKIP
    """
    return _fetch("yale_32x32")


def fetch_yaleb() -> Faces:
    """Fetch the Extended Yale B faces: 38 people under 59 to 64 illuminations, 32 × 32 pixels, aligned by Deng Cai.

    Errors are those of :func:`fetch_orl`. The data is free for research with acknowledgement.

    Returns
    -------
    Faces
        2414 images, sorted by person.

    References
    ----------
    A. Georghiades, P. Belhumeur, D. Kriegman, "From few to many: illumination cone models for face recognition under
    variable lighting and pose", IEEE Transactions on Pattern Analysis and Machine Intelligence 23(6), 2001.
    K. Lee, J. Ho, D. Kriegman, "Acquiring linear subspaces for face recognition under variable lighting", IEEE
    Transactions on Pattern Analysis and Machine Intelligence 27(5), 2005.

    Examples
    --------
    >>> from visionnmf.datasets import fetch_yaleb
    >>> faces = fetch_yaleb()  # doctest: +SKIP
    """
    return _fetch("yaleb_32x32")


def _fetch(name: str) -> Faces:
    """Return a data set from the cache folder, or from the first address that serves the expected content."""
    remote, path = _REMOTES[name], cache_folder() / f"{name}.mat"
    reasons = []
    if path.is_file():
        try:
            return _read(path, remote)
        except MediaError as error:
            reasons.append(f"the file there: {error}")
    try:
        output_folder(path.parent)
        for address in remote.addresses:
            faces = _download_checked(address, path, remote, reasons)
            if faces is not None:
                return faces
    except (MediaError, OSError) as error:  # of the folder or the file, not of the downloaded content
        reason = getattr(error, "strerror", None) or error
        raise MediaError(f"{path} cannot be written ({reason}); set VISIONNMF_CACHE to a folder that can.") from error
    given = "; ".join(reason.removesuffix(".") for reason in reasons)
    raise UnreadableError(
        f"{path}: {remote.title}, are missing ({given}). Download {remote.addresses[0]} by hand and save it as {path}."
    )


def _download_checked(address: str, path: Path, remote: _Remote, reasons: list[str]) -> Faces | None:
    """Download to `path`; return the faces if they are the expected ones, else None and a sentence in `reasons`."""
    import requests  # which pooch brings; its own downloader leaves responses open, and knows no limit

    temporary = path
    try:
        with output_file(path, force=True) as temporary:  # appears only if `_read` accepts it
            with requests.get(address, stream=True, timeout=_TIMEOUT) as response, temporary.open("wb") as file:
                response.raise_for_status()
                for block in response.iter_content(1024):
                    if file.tell() + len(block) > _MAX_BYTES:
                        raise TooLargeError(f"{temporary} has more than {_MAX_BYTES} bytes.")
                    file.write(block)
            return _read(temporary, remote)
    except requests.RequestException as error:
        reason = getattr(error.args[0], "reason", error) if error.args else error  # without urllib3's retries
        reasons.append(f"{address} cannot be read: {' '.join(str(reason).split())}")
    except (UnreadableError, TooLargeError, UnsupportedError) as error:
        reasons.append(str(error).replace(str(temporary), address))
    return None


def _read(path: Path, remote: _Remote) -> Faces:
    """Return the faces of a file, sorted by person; raise UnreadableError if the checksum is not that of `remote`."""
    faces = load_faces(path)
    order = np.argsort(faces.labels, kind="stable")
    images, labels = faces.images[order], faces.labels[order]
    found = hashlib.sha256(images.tobytes() + labels.astype("<i8").tobytes()).hexdigest()
    if found != remote.checksum:
        raise UnreadableError(
            f"{path} holds other data than {remote.title}: checksum {found[:16]}..., not {remote.checksum[:16]}..."
        )
    return Faces(images, labels, faces.names)
