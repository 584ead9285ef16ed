"""Keywords of photographs: what photo managers write, and what hostile files hold."""

import struct
import unicodedata
import xml.etree.ElementTree as ET

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from visionnmf.exceptions import OutputExistsError, UnreadableError
from visionnmf.io import clean_words, read_keywords, sidecar_of, write_sidecar
from visionnmf.io.keywords import find_keywords

PACKET = """<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title><rdf:Alt><rdf:li>no keyword</rdf:li></rdf:Alt>
</dc:title><dc:subject><rdf:Bag>{}</rdf:Bag></dc:subject></rdf:Description></rdf:RDF></x:xmpmeta>"""


def packet(*words):
    return PACKET.format("".join(f"<rdf:li>{word}</rdf:li>" for word in words)).encode()


def iptc(*words, utf8=True):
    items = b"\x1c\x01\x5a" + struct.pack(">H", 3) + b"\x1b%G" if utf8 else b""
    for word in words:
        data = word.encode("utf-8" if utf8 else "latin-1")
        items += b"\x1c\x02\x19" + struct.pack(">H", len(data)) + data
    items += b"\0" * (len(items) % 2)
    resource = b"8BIM\x04\x04\0\0" + struct.pack(">I", len(items)) + items
    content = b"Photoshop 3.0\0" + resource
    return b"\xff\xed" + struct.pack(">H", len(content) + 2) + content


def jpeg(path, xmp=b"", segment=b"", image=None):
    (image or Image.new("RGB", (4, 3), (9, 99, 200))).save(path)
    content = path.read_bytes()
    if xmp:  # Pillow before 11 does not write it
        xmp = b"http://ns.adobe.com/xap/1.0/\x00" + xmp
        segment += b"\xff\xe1" + (len(xmp) + 2).to_bytes(2, "big") + xmp
    path.write_bytes(content[:2] + segment + content[2:])
    return path


def test_xmp_iptc_and_sidecars(tmp_path):
    path = jpeg(tmp_path / "a.jpg", packet("Zürich &amp; See", "Nacht"), iptc("Nacht", "日本"))
    assert read_keywords(path) == ["Zürich & See", "Nacht", "日本"]
    (tmp_path / "a.jpg.xmp").write_bytes(packet("from the sidecar"))
    (tmp_path / "a.xmp").write_bytes(packet("of Lightroom"))
    assert read_keywords(path) == ["from the sidecar", "of Lightroom", "Zürich & See", "Nacht", "日本"]
    assert read_keywords(jpeg(tmp_path / "b.jpg", segment=iptc("Fuß", utf8=False))) == ["Fuß"]
    assert read_keywords(jpeg(tmp_path / "c.jpg", segment=iptc(""))) == []


def test_a_packet_without_an_end_is_reported(tmp_path):
    path = jpeg(tmp_path / "a.jpg", packet("Nacht").replace(b"</x:xmpmeta>", b""), iptc("Wald"))
    found = find_keywords(path)
    assert found.words == ["Wald"] and "its XMP metadata are damaged" in found.damaged[0]


@pytest.mark.parametrize("form", ["png", "webp", "tiff"])
def test_xmp_of_other_formats(form, tmp_path):
    path = tmp_path / f"a.{form}"
    info = PngInfo()
    info.add_itxt("XML:com.adobe.xmp", packet("Wald").decode())
    options = {"png": {"pnginfo": info}, "webp": {"xmp": packet("Wald")}, "tiff": {"tiffinfo": {700: packet("Wald")}}}
    Image.new("RGB", (4, 3)).save(path, **options[form])
    assert read_keywords(path) == ["Wald"]


ENTITIES = b"".join(b'<!ENTITY b%d "%b">' % (i, b"&b%d;" % (i - 1) * 99) for i in range(1, 9))
DAMAGED = [
    *(b"<x:xmpmeta", packet("a")[:-20], b"<a>" * 60, b"\xff\xfe\x00\x01", packet("&c;")),
    b'<!DOCTYPE a [<!ENTITY b0 "%b">%b]>%b' % (b"a" * 1000, ENTITIES, packet("&b8;")),  # would expand to 10^19 letters
    b'<?xml version="1.0" encoding="foo"?><a/>',
]


@pytest.mark.parametrize("content", DAMAGED)
def test_damaged_sidecars_are_one_sentence(content, tmp_path):
    path = jpeg(tmp_path / "a.jpg")
    sidecar_of(path).write_bytes(content)
    with pytest.raises(UnreadableError, match=r"a\.jpg\.xmp: its XMP metadata are damaged"):
        read_keywords(path)
    assert find_keywords(jpeg(path, packet("in the file"))).words == ["in the file"]


def test_sizes_are_bounded(tmp_path):
    path = jpeg(tmp_path / "a.jpg")
    sidecar_of(path).write_bytes(packet(*(f"w{i}" for i in range(5000)), "x" * 5000))
    words = read_keywords(path)
    assert len(words) == 1000 and max(map(len, words)) <= 200


def test_a_sidecar_is_what_others_read(tmp_path):
    path = tmp_path / "a.jpg.xmp"
    write_sidecar(path, ["Fuß & <Tier>", "日本", "Fuß & <Tier>"])
    name = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}li"
    assert [item.text for item in ET.parse(path).getroot().iter(name)] == ["Fuß & <Tier>", "日本"]
    assert read_keywords(jpeg(tmp_path / "a.jpg")) == ["Fuß & <Tier>", "日本"]
    with pytest.raises(OutputExistsError):
        write_sidecar(path, ["neu"])
    write_sidecar(path, ["neu"], force=True)
    assert read_keywords(tmp_path / "a.jpg") == ["neu"]


def test_another_programs_sidecar_is_never_replaced(tmp_path):
    path = tmp_path / "a.jpg.xmp"
    path.write_bytes(packet("and ratings"))
    with pytest.raises(OutputExistsError, match="another program's sidecar"):
        write_sidecar(path, ["neu"], force=True)
    assert b"and ratings" in path.read_bytes()


def test_words_have_one_form_and_marks_are_cut_before_they_are_sorted(monkeypatch):
    found = clean_words(["  e\u0301t\u00e9 ", "\u00e9t\u00e9", "a\u0000b\nc", "", " ", "A", "a"])
    assert found == ["été", "a b c", "A", "a"]
    composed, whole = [], unicodedata.normalize
    monkeypatch.setattr(unicodedata, "normalize", lambda form, text: composed.append(len(text)) or whole(form, text))
    (word,) = clean_words([" " * 9999 + "a" + "\u0301\u0323" * 9000])
    assert word.startswith("\u1ea1") and max(composed) <= 1000


@pytest.mark.slow
def test_photographs_beyond_the_limit_of_pillow_have_keywords(tmp_path):
    path = jpeg(tmp_path / "x.jpg", segment=iptc("sea", "sky"), image=Image.new("L", (16320, 12240)))
    assert read_keywords(path) == ["sea", "sky"]
