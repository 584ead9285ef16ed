#!/bin/sh
# Makes .venv beside this file, where it is missing, and installs visionnmf into it.
#   sh setup.sh         what running visionnmf needs
#   sh setup.sh plots   matplotlib as well, for curves ("heif", "parquet": such files)
#   sh setup.sh report  jinja2 and matplotlib as well, for the pages of --report
#   sh setup.sh dask    Dask as well, for data in blocks on one machine or a cluster
#   sh setup.sh napari  napari as well, a viewer with widgets to draw in
#   sh setup.sh gpu     PyTorch as well, for fits of arrays on a GPU
#   sh setup.sh test    the tests as well ("lint", "docs", "dev": the linters, the site, everything)
set -eu
cd "$(dirname "$0")"
extra=${1:-}

stop() {
    echo "setup.sh: $1" >&2
    exit 1
}

new_venv() {
    python=
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            python=$name
            break
        fi
    done
    [ -n "$python" ] || stop "no Python of at least 3.11 found; install one (Debian: apt-get install python3 python3-venv)"
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        # Debian ships these two modules apart
        package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
        if [ "$(id -u)" = 0 ]; then root=; else root="sudo -n"; fi
        export DEBIAN_FRONTEND=noninteractive
        { $root apt-get -qq update; $root apt-get -qq install -y "$package"; } >/dev/null 2>&1 ||
            stop "$python cannot make a virtual environment; as root, run: apt-get install $package"
        echo "setup.sh: installed $package"
    fi
    "$python" -m venv .venv || { rm -rf .venv; stop "$python could not make .venv"; }
}

case $extra in
"" | plots | report | heif | parquet | dask | napari | gpu | test | lint | docs | dev) ;;
*) stop "no extra '$extra'; there are: plots, report, heif, parquet, dask, napari, gpu, test, lint, docs, dev" ;;
esac
[ -x .venv/bin/python ] || new_venv
.venv/bin/python -m pip --version >/dev/null 2>&1 || stop ".venv is damaged (no pip in it); remove it and run this again"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".${extra:+[$extra]}" ||
    stop "pip could not install visionnmf into .venv (its message is above)"
# A folder called visionnmf beside a script, such as this one seen from above, is no package, but would hide the installed one.
packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo 'import visionnmf_first' >"$packages/visionnmf_first.pth"
cat >"$packages/visionnmf_first.py" <<'END'
import sys
from importlib.machinery import PathFinder


class First:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "visionnmf" or getattr(PathFinder.find_spec(name), "origin", "") is not None:
            return None
        found = (finder.find_spec(name) for finder in sys.meta_path if "Editable" in str(finder))
        return next(filter(None, found), None)


sys.meta_path.insert(0, First)
END
echo "setup.sh: visionnmf${extra:+ with '$extra'} is in .venv ($(.venv/bin/python --version))"
