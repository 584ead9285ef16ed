# The same commands as in .ci/run, one word each. `make PYTHON=python3 test` uses another interpreter than setup.sh's.
PYTHON ?= .venv/bin/python
KERNEL_TESTS = tests/engine/kernels $(wildcard tests/apps/*/test_kernels.py)

.PHONY: help setup test test-all quick check-seeds test-nojit test-bounds test-device test-napari test-versions docs attack lint format types links tables bench

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup:  ## .venv with everything for developing
	sh setup.sh dev

test:  ## the tests of the README, in two processes: all but those marked long
	$(PYTHON) -m pytest -q -n 2 --dist loadfile

test-all:  ## the rest: benchmarks with small sizes, clusters, killed processes and the largest grids
	$(PYTHON) -m pytest -q -n 2 --dist loadfile --all -m long

quick:  ## the tests to type against: less than a minute once the kernels are compiled
# without the cached bytecode of the tests, each process would compile them again
	env -u PYTHONDONTWRITEBYTECODE $(PYTHON) -m pytest -q -n 2 --dist loadfile -m "not slow and not long"

SEEDS ?= 200
check-seeds:  ## scikit-learn's checks of all estimators with many seeds, in one process: make check-seeds SEEDS=200
	$(PYTHON) -m pytest -q tests/models/test_estimators.py tests/apps/test_estimators.py -k scikit_learn_checks --seeds $(SEEDS)

test-nojit:  ## the kernels' tests as plain Python, with the lines they reach
	NUMBA_DISABLE_JIT=1 $(PYTHON) -m pytest $(KERNEL_TESTS) --cov=visionnmf.engine --cov=visionnmf.apps --cov-report=term-missing

test-bounds:  ## the kernels' tests with every array index checked
	NUMBA_BOUNDSCHECK=1 $(PYTHON) -m pytest $(KERNEL_TESTS)

test-device:  ## fits of PyTorch's arrays; CI installs the release that was last on hand, and the extra "gpu" any
	$(PYTHON) -m pip install --quiet --disable-pip-version-check 'torch==2.13.*'
	$(PYTHON) -m pytest -q tests/models/test_device.py tests/benchmarks/test_scripts.py -k 'device or gpu'

NAPARI = build/napari/bin/python
test-napari:  ## the widgets in napari under Xvfb, in an environment of its own on top of this one
	command -v Xvfb >/dev/null || { echo "make test-napari: no Xvfb; Debian's packages are xvfb and those of docs/view.md" >&2; exit 1; }
	$(PYTHON) -m venv --clear build/napari
	$(PYTHON) -c 'import sys; print(*(p for p in sys.path if p.endswith("-packages")), sep="\n")' > $$($(NAPARI) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/lent.pth
	$(NAPARI) -m pip install --quiet --disable-pip-version-check --editable '.[napari]'
	$(NAPARI) -m pytest -q tests/apps/viewer

test-versions:  ## every command on each Python of this machine with the newest libraries, and with the lowest
	$(PYTHON) -m tests.versions

docs:  ## the site, with its gallery, in build/site; warnings are errors
	$(PYTHON) -m sphinx -q -W --keep-going -b html docs build/site

MINUTES ?= 20
SEED ?=
attack:  ## mutated files and killed commands: make attack MINUTES=20; docs/security.md
	$(PYTHON) -m tests.attack --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

lint:  ## ruff and codespell, changing nothing
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	git ls-files -z | xargs -0 $(PYTHON) -m codespell_lib

format:  ## ruff, changing files
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

types: links  ## mypy, and strictly a user's code with every public name
	$(PYTHON) -m mypy
	$(PYTHON) -m mypy --strict --follow-imports=silent tests/typing_public.py
	mkdir -p build && $(PYTHON) tests/public_names.py > build/public_names.py
	$(PYTHON) -m mypy --strict --follow-imports=silent build/public_names.py

links:  ## visionnmf/apps and visionnmf/datasets, for type checkers and editors; git ignores them
	ln -sfn ../apps visionnmf/apps
	ln -sfn ../datasets visionnmf/datasets

tables:  ## the generated pages and tables of docs/, after a change of options, solvers, losses or penalties
	$(PYTHON) docs/make_tables.py

bench:  ## every published number, hours; one table: make bench NAME=faces.cost, make bench NAME="faces.bars ORL 10"
	@$(PYTHON) benchmarks $(NAME)
