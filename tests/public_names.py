"""Print a program that uses every public name, which `make types` checks with ``mypy --strict``."""

import ast
import importlib
import re
from pathlib import Path

_CONF = (Path(__file__).parents[1] / "docs" / "conf.py").read_text(encoding="utf-8")
MODULES = list(ast.literal_eval(re.search(r"^PUBLIC = (\{.*?^\})", _CONF, re.MULTILINE | re.DOTALL)[1]))

if __name__ == "__main__":
    for name in MODULES:
        print(f"import {name}", *(f"{name}.{each}" for each in importlib.import_module(name).__all__), sep="\n")
