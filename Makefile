# `make demo` and `make test` are all that a new user needs: Python 3.11 or newer, and make.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: env demo test check clean

env: $(STAMP)

$(STAMP): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "tilelore needs Python 3.11 or newer: make PYTHON=/path/to/python3"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

demo: env
	$(BIN)/tilelore demo

test: env
	$(BIN)/python -m pytest -q

check: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q

clean:
	rm -rf .venv build out *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
