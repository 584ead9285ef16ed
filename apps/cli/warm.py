"""``visionnmf warm``."""

from __future__ import annotations

import typer

from .run import running


def command() -> None:
    """Compile all kernels for this machine, once: minutes now, none later. For container images.

    Compiled kernels lie in the folder that the variable NUMBA_CACHE_DIR names, else in the user's folder for caches.
    Where the image is to run on other processors than the one that builds it, set NUMBA_CPU_NAME=generic in both.

    \b
    Examples:
      visionnmf warm
      NUMBA_CACHE_DIR=/opt/kernels NUMBA_CPU_NAME=generic visionnmf warm
    """
    with running() as run:
        from visionnmf._jit import cache_folder
        from visionnmf.apps.warm import warm_up

        folder = cache_folder()
        with run.progress("kernels", rate_of="") as update:
            for name, done, total in warm_up():
                run.detail(f"{done + 1}/{total} {name}")
                if update is not None:
                    update("compiling", done, total)
        typer.echo(f"all kernels are compiled in {folder}" if folder else "kernels were compiled, but cannot be kept")
