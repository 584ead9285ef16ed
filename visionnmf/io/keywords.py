"""Read keywords of photographs from IPTC and XMP, and write them to XMP sidecars; photographs are never changed."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from PIL import IptcImagePlugin

from visionnmf._version import __version__
from visionnmf.exceptions import OutputExistsError, UnreadableError

from .decoding import apart
from .images import open_any_size
from .inputs import regular_file
from .outputs import output_file

MOST_WORDS, LONGEST_WORD = 1000, 200  # of an image; characters
# of XMP within a picture; Pillow finds it in some formats and versions only
START, END = b"<x:xmpmeta", b"</x:xmpmeta>"
DC, RDF = "http://purl.org/dc/elements/1.1/", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
KEYWORDS = (2, 25)  # data set of IPTC-IIM
OURS = "visionnmf"


def read_keywords(path: str | Path) -> list[str]:
    """Read the keywords of a photograph from its sidecar, its XMP data and its IPTC data.

    A sidecar is ``NAME.jpg.xmp`` or ``NAME.xmp`` beside ``NAME.jpg``.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    list of str
        Each word once, in the order of the sources.

    Raises
    ------
    UnreadableError
        If the file cannot be read, or its XMP data or its sidecar is damaged.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.io import read_keywords, write_image
    >>> write_image("photo.png", np.full((8, 9, 3), 200, np.uint8), force=True)
    >>> read_keywords("photo.png")
    []
    """
    found = find_keywords(path)
    if found.damaged:
        raise UnreadableError(found.damaged[0])
    return found.words


class Keywords(NamedTuple):
    """The words found, a sentence for each damaged source, and visionnmf's own sidecars that were left out."""

    words: list[str]
    damaged: list[str]
    own: list[Path]


@apart
def find_keywords(path: str | Path, *, own: bool = True) -> Keywords:
    """Find those keywords of a photograph that can be read; raise UnreadableError if the photograph itself cannot.

    With `own` false, sidecars that visionnmf wrote are left out, because their words may be the guesses of a model.
    """
    path = regular_file(path, "image")
    found = Keywords([], [], [])
    for sidecar in (sidecar_of(path), path.with_suffix(".xmp")):
        if not sidecar.is_file():
            continue
        if own or not is_own_sidecar(sidecar):
            _collect(sidecar.read_bytes(), sidecar, found)
        else:
            found.own.append(sidecar)
    _, start, rest = path.read_bytes().partition(START)
    if start:
        _collect(start + rest.partition(END)[0] + END, path, found)
    words = clean_words([*found.words, *_iptc_words(path)])[:MOST_WORDS]
    return found._replace(words=words)


def is_own_sidecar(path: str | Path) -> bool:
    """Return whether visionnmf wrote a sidecar: the attribute ``x:xmptk`` of XMP names the program that wrote it."""
    return f'x:xmptk="{OURS} '.encode() in Path(path).read_bytes()


def sidecar_of(path: str | Path) -> Path:
    """Return the name of a photograph's sidecar, ``NAME.jpg.xmp``, for which digiKam, darktable and Immich look."""
    path = Path(path)
    return path.with_name(f"{path.name}.xmp")


def write_sidecar(path: str | Path, words: Iterable[str], *, force: bool = False) -> None:
    """Write keywords as an XMP sidecar.

    Parameters
    ----------
    path : str or Path
        The sidecar.
    words : iterable of str
    force : bool, default=False
        Whether a sidecar that visionnmf wrote may be replaced. One of another program, which holds more than keywords,
        never is.

    Raises
    ------
    OutputExistsError, MediaError
        If the file exists and may not be replaced, or cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from visionnmf.io import write_sidecar
    >>> write_sidecar("sea.jpg.xmp", ["sky", "sea"], force=True)
    >>> "sky" in Path("sea.jpg.xmp").read_text()
    True
    """
    path = Path(path)
    if force and path.is_file() and not is_own_sidecar(path):
        raise OutputExistsError(f"{path}: another program's sidecar, which is never replaced; move it away first")
    items = "\n".join(f"     <rdf:li>{escape(word)}</rdf:li>" for word in clean_words(words))
    text = f"""<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="{OURS} {__version__}">
 <rdf:RDF xmlns:rdf="{RDF}">
  <rdf:Description rdf:about="" xmlns:dc="{DC}">
   <dc:subject>
    <rdf:Bag>
{items}
    </rdf:Bag>
   </dc:subject>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>
"""
    with output_file(path, force=force) as temporary:
        temporary.write_text(text, "utf-8")


def clean_words(words: Iterable[str]) -> list[str]:
    """Normalise words: composed Unicode, no control characters or extra blanks, at most 200 characters, each once."""
    found: dict[str, None] = {}
    for word in words:
        word = word.strip()[: 4 * LONGEST_WORD]  # before composing, which sorts marks in quadratic time
        plain = "".join(c if c.isprintable() else " " for c in unicodedata.normalize("NFC", word))
        plain = " ".join(plain.split())[:LONGEST_WORD]
        if plain:
            found.setdefault(plain)
    return list(found)


def _collect(packet: bytes, path: Path, found: Keywords) -> None:
    """Add the words of an XMP packet (XML) of a file to ``found.words``, or a sentence to ``found.damaged``."""
    try:
        items = ElementTree.fromstring(packet).iterfind(f".//{{{DC}}}subject/*/{{{RDF}}}li")
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # LookupError: an unknown encoding
        found.damaged.append(f"{path}: its XMP metadata are damaged ({error})")
    else:
        found.words.extend(item.text or "" for item in items)


def _iptc_words(path: Path) -> list[str]:
    """Return the keywords in the IPTC metadata of a picture; none if they are damaged."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with open_any_size(path) as image:
                found: Any = IptcImagePlugin.getiptcinfo(image) or {}
    except Exception:  # damaged metadata; damage of the picture is reported when it is decoded
        return []
    items = found.get(KEYWORDS, [])
    items = [item for item in (items if isinstance(items, list) else [items]) if item is not None]  # None: an empty one
    try:  # the encoding is rarely declared
        return [item.decode("utf-8") for item in items]
    except UnicodeDecodeError:
        return [item.decode("latin-1") for item in items]
