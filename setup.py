"""The package's description: README.md, whose relative links are made addresses; all else is in pyproject.toml."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

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


setup(long_description=description(), long_description_content_type="text/markdown")
