# Thin names for the commands in the README. Needs Python 3.11 or newer and a package index, nothing else.
PYTHON ?= python3
VENV := .venv
WORKERS ?= auto
RERUNS ?= 3
BIN := $(VENV)/bin
# Where pip finds wheels in a folder, image builds are handed the same folder.
export WHEELS ?= $(firstword $(wildcard $(PIP_FIND_LINKS)))
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test test-fast lint bench up constraints constraints-gpu clean
help:
	@echo "make demo          train a small model on the echo environment and open the report in runs/demo/"
	@echo "make test          lint, types and all tests (container tests where Docker runs)"
	@echo "make test-fast     the tests that take seconds"
	@echo "make lint          ruff and mypy"
	@echo "make up            the stack in containers: docker compose up"
	@echo "make bench         the measurements in docs/performance.md"
	@echo "make constraints   renew constraints.txt, the exact versions of everything"

$(BIN)/.train: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) -e '.[envs,train]'
	@touch $@

$(BIN)/.dev: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) -e '.[envs,train,dev]'
	@touch $@ $(BIN)/.train

demo: $(BIN)/.train
	$(BIN)/ors-train demo $(DEMO)

lint: $(BIN)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Most tests wait for processes, so several run at a time; those with containers share images and run one by one. A
# machine that others use may stall for seconds: a few tests of a run get a second try, told with what their first one
# met; RERUNS=0 allows none. No test of a kind is no failure (pytest's 5): PYTEST may name a few.
AGAIN := --reruns 1 --max-suite-reruns $(RERUNS) --rerun-show-tracebacks
test: lint
	$(BIN)/pytest -m "not docker" -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(AGAIN) $(PYTEST) || [ $$? -eq 5 ]
	$(BIN)/pytest -m docker $(AGAIN) $(PYTEST) || [ $$? -eq 5 ]

test-fast: $(BIN)/.dev
	$(BIN)/pytest -m "not slow and not docker and not browser" -n $(WORKERS) --dist loadfile $(PYTEST)

bench: $(BIN)/.dev
	$(BIN)/python -m benchmarks

up:
	docker compose up --build --exit-code-from trainer

# torch is pinned in pyproject.toml; its build (CPU or CUDA) is the machine's choice, so it has no line in the file.
COMPILE := $(BIN)/pip-compile --quiet --upgrade --strip-extras --no-header --no-annotate --no-emit-index-url \
  --no-emit-find-links --no-emit-options --no-emit-trusted-host \
  --unsafe-package torch --unsafe-package pip --unsafe-package setuptools --unsafe-package wheel

constraints: $(BIN)/.dev
	$(COMPILE) --extra envs --extra train --extra dev --output-file constraints.txt pyproject.toml

# The CUDA image is resolved by itself: vLLM asks for older versions of some packages. Needs a pip that finds the CUDA build of torch.
constraints-gpu: $(BIN)/.dev
	$(COMPILE) --extra train --extra gpu --output-file constraints-gpu.txt pyproject.toml

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
