# make demo    compare the paper's five algorithms and Auto on its quadratic, and draw the result
# make test    linter, type checker and tests
# make check    linter, type checker, docstring examples and the quick tests: less than a minute
# make test-deploy    servers and sites as processes, with certificates, and what happens when they are killed
#
# They make a virtual environment in .venv first (elsewhere: make demo VENV=/tmp/venv). They need Python 3.11 or later,
# make and a package registry; another Python is chosen with `make demo PYTHON=python3.12`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# What builds fzoos itself, and the one dependency that has no wheel (constraints.txt says which).
BUILD := hatchling setuptools wheel
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# Tests of the mathematics and of the front door, without processes, files and browsers.
QUICK := tests/_util tests/messages tests/surrogates tests/algorithms tests/test_layers.py tests/test_source.py \
  tests/test_minimize.py tests/test_scipy_conventions.py

# Two processes or threads work side by side; without this each of them would start a BLAS thread per core.
export OPENBLAS_NUM_THREADS := 1
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1

.PHONY: help demo test check test-deploy

help:
	@sed -n 's/^# make/make/p' Makefile

demo: $(VENV)/demo-installed
	$(BIN)/fzoos compare quadratic --heterogeneity 5 --rounds 20 --workers 2

test: $(VENV)/test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadfile --doctest-modules src tests

check: $(VENV)/test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadfile --doctest-modules src $(QUICK)

test-deploy: $(VENV)/test-installed
	$(BIN)/pytest -m deploy tests/deploy

# The files in .venv whose names end in -installed say what is there, so that nothing is installed twice.
$(VENV)/pip-installed:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'fzoos needs Python 3.11 or later: make PYTHON=/path/to/python3' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/demo-installed: pyproject.toml constraints.txt | $(VENV)/pip-installed
	@echo 'installing fzoos with what its plots need'
	@$(INSTALL) $(BUILD)
	@$(INSTALL) --no-build-isolation -e '.[plot]'
	@touch $@

$(VENV)/test-installed: pyproject.toml constraints.txt | $(VENV)/pip-installed
	@echo 'installing fzoos with what its tests need (PyTorch among it: this takes a while)'
	@$(INSTALL) $(BUILD)
	@$(INSTALL) --no-build-isolation -e '.[test]'
	@touch $@ $(VENV)/demo-installed
