"""Face data sets that are downloaded once, checked, and kept in a cache folder."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import sys
import time
import urllib.error
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from visionnmf._checks import check_choice
from visionnmf._version import __version__
from visionnmf.exceptions import MediaError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io import decode_image, output_file, output_folder, to_grey8
from visionnmf.io.inputs import check_bytes

from ._faces import Faces, load_faces

__all__ = ["cache_folder", "fetch_orl", "fetch_yale", "fetch_yaleb"]

_TIMEOUT = 30.0  # seconds without a byte
_DEADLINE = 600.0  # seconds for one file
_CAI = "http://www.cad.zju.edu.cn/home/dengcai/Data"
_SPARSE = "https://raw.githubusercontent.com/tansyab1/CNN-Sparse/c52b9c2c783bf6e350b11962781b7c2d701ce2c4/data"
_SDGNMF = "https://raw.githubusercontent.com/DUTers11717015/SDGNMF/dfa30e1a35019d69d3205c98b2e9e01b8d46acf8"


@dataclass(frozen=True)
class _Remote:
    """A file of faces on the internet.

    `checksum` is the SHA-256 of the content instead of the file: the images (uint8, upright, row by row) and then the
    labels (64 bits, little-endian), sorted by label. It is therefore the same for every file format. It was computed
    from copies of the data; the files at the first addresses were not available.
    """

    title: str
    suffix: str
    addresses: tuple[str, ...]
    checksum: str
    max_bytes: int = 32 << 20


_REMOTES: dict[str, _Remote] = {
    "orl_32x32": _Remote(
        "the ORL faces, 32x32",
        ".mat",
        (f"{_CAI}/ORL/ORL_32x32.mat", f"{_SDGNMF}/ORL_32.mat"),
        "003434f6e88dc34b687a271324dd20b9d41f443101455f5fc668c677f801d3ab",
    ),
    "orl_112x92": _Remote(
        "the ORL faces, 112x92",
        ".zip",
        (
            "https://www.cl.cam.ac.uk/Research/DTG/attarchive/pub/data/att_faces.zip",
            "http://www.idiap.ch/software/bob/data/bob/att_faces.zip",
        ),
        "00e1becef7ac8b527d7515880856f9957e3559c131b2fd190dda536e8e0f7f32",
    ),
    "yale_32x32": _Remote(
        "the Yale faces, 32x32",
        ".mat",
        (f"{_CAI}/Yale/Yale_32x32.mat", f"{_SPARSE}/Yale_32x32.mat"),
        "63b3cef9862a48a1f6e65f2765abfae5dea8a91c282d6bacb93614801c0ff6ca",
    ),
    "yale_64x64": _Remote(
        "the Yale faces, 64x64",
        ".mat",
        (f"{_CAI}/Yale/Yale_64x64.mat", f"{_SPARSE}/Yale_64x64.mat"),
        "098d8859435d5f023e7dd7f2d2f328bfbe5b8e373b99dda8a599ae652600d989",
    ),
    "yaleb_32x32": _Remote(
        "the Extended Yale B faces, 32x32",
        ".mat",
        (f"{_CAI}/YaleB/YaleB_32x32.mat", f"{_SPARSE}/YaleB_32x32_ori.mat"),
        "af10c3a6a31ca3b418aba08574e3732a5f507be70d3a979f1e5e053163f641ba",
    ),
}


def cache_folder() -> Path:
    """Return the folder where downloaded data is kept. It may not exist yet.

    Returns
    -------
    Path
        The folder that the environment variable VISIONNMF_CACHE names, if it is set; otherwise ``visionnmf`` in the
        user's cache folder: ``$XDG_CACHE_HOME`` or ``~/.cache``, on macOS ``~/Library/Caches``, on Windows
        ``%LOCALAPPDATA%``.

    Examples
    --------
    >>> from visionnmf.datasets import cache_folder
    >>> cache_folder().name
    'visionnmf'
    """
    named = os.environ.get("VISIONNMF_CACHE")
    if named:
        return Path(named)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "visionnmf"


def fetch_orl(
    *, resolution: str = "32x32", data_home: str | Path | None = None, download_if_missing: bool = True
) -> Faces:
    """Fetch the ORL faces (AT&T, Olivetti): 40 people with 10 images each.

    The file is downloaded once and kept. Its images and labels are compared with a checksum, whatever address it comes
    from. The owners ask for credit to the Olivetti Research Laboratory (AT&T Laboratories Cambridge).

    Parameters
    ----------
    resolution : {"32x32", "112x92"}, default="32x32"
        Height and width: Deng Cai's aligned images, or the original ones.
    data_home : str or Path, optional
        The folder to keep the file in instead of :func:`cache_folder`.
    download_if_missing : bool, default=True
        Whether the network may be used.

    Returns
    -------
    Faces
        400 images, sorted by person.

    Raises
    ------
    ParameterError
        If there is no such resolution.
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
    >>> fetch_orl(data_home="nowhere", download_if_missing=False)  # True, the default, loads 400 images once
    Traceback (most recent call last):
        ...
    visionnmf.exceptions.UnreadableError: nothing there
    """
    check_choice(resolution, "resolution", ("32x32", "112x92"))
    return _fetch(f"orl_{resolution}", data_home, download_if_missing)


def fetch_yale(
    *, resolution: str = "32x32", data_home: str | Path | None = None, download_if_missing: bool = True
) -> Faces:
    """Fetch the Yale faces: 15 people with 11 expressions and illuminations each, aligned by Deng Cai.

    Parameters and errors are those of :func:`fetch_orl`; the resolution is "32x32" or "64x64". The data is free for
    research, but no image may become part of a larger database that is publicly distributed.

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
    >>> fetch_yale(data_home="nowhere", download_if_missing=False)  # True, the default, loads 165 images once
    Traceback (most recent call last):
        ...
    visionnmf.exceptions.UnreadableError: nothing there
    """
    check_choice(resolution, "resolution", ("32x32", "64x64"))
    return _fetch(f"yale_{resolution}", data_home, download_if_missing)


def fetch_yaleb(*, data_home: str | Path | None = None, download_if_missing: bool = True) -> Faces:
    """Fetch the Extended Yale B faces: 38 people under 59 to 64 illuminations, 32 × 32 pixels, aligned by Deng Cai.

    Parameters and errors are those of :func:`fetch_orl`. The data is free for research with acknowledgement.

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
    >>> fetch_yaleb(data_home="nowhere", download_if_missing=False)  # True, the default, loads 2414 images once
    Traceback (most recent call last):
        ...
    visionnmf.exceptions.UnreadableError: nothing there
    """
    return _fetch("yaleb_32x32", data_home, download_if_missing)


def _fetch(name: str, data_home: str | Path | None, download_if_missing: bool) -> Faces:
    """Return a data set from the cache folder, or from the first address that serves it."""
    remote = _REMOTES[name]
    path = Path(cache_folder() if data_home is None else data_home) / f"{name}{remote.suffix}"
    reasons = []
    if path.is_file():
        try:
            return _read(path, remote)
        except MediaError as error:
            reasons.append(f"the file there: {error}")
    try:
        if download_if_missing:
            output_folder(path.parent)
        for address in remote.addresses if download_if_missing else ():
            faces = _download_checked(address, path, remote, reasons)
            if faces is not None:
                return faces
    except (MediaError, OSError) as error:  # of the folder or the file, not of the downloaded content
        reason = getattr(error, "strerror", None) or error
        raise MediaError(
            f"{path} cannot be written ({reason}); set VISIONNMF_CACHE or data_home to a folder that can."
        ) from error
    if not download_if_missing:
        reasons.append("download_if_missing is False")
    given = "; ".join(reason.removesuffix(".") for reason in reasons)
    raise UnreadableError(
        f"{path}: {remote.title}, are missing ({given}). Download {remote.addresses[0]} by hand and save it as {path}."
    )


def _download_checked(address: str, path: Path, remote: _Remote, reasons: list[str]) -> Faces | None:
    """Download the file to `path` if its content is the expected one; otherwise note the reason."""
    temporary = path
    try:
        with output_file(path, force=True) as temporary:
            temporary.write_bytes(_download(address, remote.max_bytes))
            return _read(temporary, remote)
    except (UnreadableError, TooLargeError, UnsupportedError) as error:
        reasons.append(str(error).replace(str(temporary), address))
        return None


def _download(address: str, max_bytes: int) -> bytes:
    """Return the content of a file on the internet, within limits of size and time."""
    # http and https only, because urllib's own opener also follows redirections to ftp and reads file addresses
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler, urllib.request.UnknownHandler, urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler, urllib.request.HTTPDefaultErrorHandler, urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
    ):  # fmt: skip
        opener.add_handler(handler())
    request = urllib.request.Request(address, headers={"User-Agent": f"visionnmf/{__version__}"})
    end = time.monotonic() + _DEADLINE
    content = bytearray()
    try:
        with opener.open(request, timeout=_TIMEOUT) as response:
            declared = response.headers.get("Content-Length")
            while block := response.read1(1 << 16):
                content += block
                if len(content) > max_bytes:
                    raise TooLargeError(f"{address} has more than {max_bytes} bytes.")
                if time.monotonic() > end:
                    raise UnreadableError(f"{address} took more than {_DEADLINE:g} seconds.")
    except (OSError, http.client.HTTPException, ValueError) as error:  # URLError and timeouts are OSErrors
        raise UnreadableError(f"{address} cannot be read: {_reason(error)}.") from error
    if declared is not None and declared != str(len(content)):
        raise UnreadableError(f"{address} was cut off after {len(content)} of {declared} bytes.")
    return bytes(content)


def _reason(error: Exception) -> str:
    """Return the cause of a network error on one line."""
    inner = error.reason if isinstance(error, urllib.error.URLError) else error
    return " ".join(str(inner).split()) or type(error).__name__


def _read(path: Path, remote: _Remote) -> Faces:
    """Read a file and compare its content with the checksum."""
    faces = _read_pgm_zip(path) if remote.suffix == ".zip" else load_faces(path)
    order = np.argsort(faces.labels, kind="stable")
    images, labels = faces.images[order], faces.labels[order]
    found = hashlib.sha256(images.tobytes() + labels.astype("<i8").tobytes()).hexdigest()
    if found != remote.checksum:
        raise UnreadableError(
            f"{path} holds other data than {remote.title}: checksum {found[:16]}..., not {remote.checksum[:16]}..."
        )
    return Faces(images, labels, faces.names)


def _read_pgm_zip(path: Path) -> Faces:
    """Read ``s1/1.pgm`` to ``s40/10.pgm`` of an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = (re.search(r"(?:^|/)s(\d{1,4})/(\d{1,4})\.pgm$", member) for member in archive.namelist())
            members = sorted((int(match[1]), int(match[2]), match.string) for match in found if match)
            if not members:
                raise UnreadableError(f"{path} holds no s1/1.pgm and so on.")
            check_bytes(path, sum(archive.getinfo(member).file_size for _, _, member in members))
            images = [to_grey8(decode_image(archive.read(member), str(path))) for _, _, member in members]
            labels, people = np.unique([person for person, _, _ in members], return_inverse=True)
            return Faces(np.stack(images), people.reshape(-1) + 1, tuple(map(str, labels)))
    except MediaError:
        raise
    except Exception as error:  # zipfile and zlib raise many kinds of errors for damaged files
        raise UnreadableError(f"{path} cannot be read: {error}.") from error
