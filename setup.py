"""README.md with addresses for links, and source archives that are equal if their files are; see pyproject.toml."""

import gzip
import os
import re
import tarfile
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent


def description() -> str:
    """Return README.md as it reads far from the checkout."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = project["urls"]["Source"]
    pictures = source.replace("github.com", "raw.githubusercontent.com") + "/main/"
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^]]*\]\()(?!https?:|#)", rf"\1{pictures}", text)
    # links from words, and from pictures
    return re.sub(r"((?<!!)\[[^]!]*\]\(|\)\]\()(?!https?:|#)", rf"\1{source}/blob/main/", text)


class Archive(sdist):
    """Writes the archive with the time SOURCE_DATE_EPOCH, if set, as the wheel is; without users, in one order."""

    def make_archive(self, base_name, format, root_dir=None, base_dir=None, owner=None, group=None):  # noqa: D102
        epoch = os.environ.get("SOURCE_DATE_EPOCH")
        if epoch is None or format != "gztar":
            return super().make_archive(base_name, format, root_dir, base_dir, owner, group)

        def plain(member):
            member.mtime, member.uid, member.gid, member.uname, member.gname = int(epoch), 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            return member

        name = f"{base_name}.tar.gz"
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        with (
            open(name, "wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=int(epoch)) as packed,
            tarfile.open(mode="w", fileobj=packed, format=tarfile.PAX_FORMAT) as archive,
        ):
            archive.add(base_dir, filter=plain)  # sorted by name
        return name


setup(cmdclass={"sdist": Archive}, long_description=description(), long_description_content_type="text/markdown")
