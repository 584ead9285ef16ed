"""Run published tables by name: ``python benchmarks [SCRIPT[.PART] [ARGUMENT ...]]``.

``python benchmarks faces.bars ORL 10`` is ``python benchmarks/faces.py bars ORL 10``; without a name all scripts run,
each in a process of its own, which takes hours (``--quick``: minutes, with sizes whose figures mean nothing).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
# what ends in _train writes a file of the package, and prints no table
SCRIPTS = sorted(path.stem for path in FOLDER.glob("[!_]*.py") if not path.stem.endswith("_train"))


def run(script: str, words: list[str]) -> int:
    """Return the exit code of a script."""
    print(f"\n# {script}", flush=True)
    return subprocess.run([sys.executable, FOLDER / f"{script}.py", *words]).returncode


def main(words: list[str]) -> int:
    """Return 0 when all went well."""
    named = [word for word in words if not word.startswith("-")]
    if not named:
        failed = [script for script in SCRIPTS if run(script, words)]
        if failed:
            print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
        return len(failed) > 0
    script, _, part = named[0].partition(".")
    if script not in SCRIPTS:
        print(f"usage: python benchmarks [SCRIPT[.PART] [ARGUMENT ...]], of: {', '.join(SCRIPTS)}", file=sys.stderr)
        return 2
    words.remove(named[0])
    return run(script, [part, *words] if part else words)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
