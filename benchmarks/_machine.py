"""What every benchmark prints first, and how it measures."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("numpy", "scipy", "scikit-learn", "scikit-image", "opencv-python-headless", "numba", "av")


def commit() -> str:
    """Return the commit of the sources, with "+" where they have changed since; "unknown" outside a checkout."""
    folder = Path(__file__).resolve().parent
    words = (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
    try:
        runs = [
            subprocess.run(["git", *line], cwd=folder, capture_output=True, text=True, check=True) for line in words
        ]
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return runs[0].stdout.strip() + ("+" if runs[1].stdout.strip() else "")


def machine() -> str:
    """Describe the machine, the versions and the commit in two lines."""
    from visionnmf import __version__
    from visionnmf.engine.blocks import n_threads

    cpuinfo = Path("/proc/cpuinfo")
    model = platform.processor() or platform.machine()
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = f"{len(names)} x {names[0]}" if names else model
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    python = f"{model}; {n_threads()} threads; Python {platform.python_version()}"
    return f"{python}\nvisionnmf {__version__}, commit {commit()}; {packages}"


def peak_memory_mb() -> float:
    """Return the greatest resident size of this process so far, in MB."""
    # the greatest size of `getrusage` is also that of the parent before it started this process
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _status("VmHWM:") or peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def resident_mb() -> float:
    """Return the resident size of this process, in MB; 0 where the system does not say."""
    return _status("VmRSS:")


def _status(word: str) -> float:
    """Return a size that Linux reports of this process, in MB; 0 on other systems."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(word)), 0.0)
