# Two commands do everything, set-up included: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test test-slow check bench table browser setup clean

help:
	@echo "make demo       train, vote, certify and report on the embedded digits (about a minute)"
	@echo "make test       all quick tests"
	@echo "make test-slow  the slow tests as well"
	@echo "make check      formatting, lint and types"
	@echo "make bench      timings of the core and of the networks"
	@echo "make table      recompute the CIFAR-10 results table from the stored evidence"
	@echo "make browser    install Debian's Chromium, which the report's browser tests drive"

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[nets,dev]'
	touch $@

demo: $(READY)
	$(BIN)/python -m majorcert demo

test: $(READY)
	$(BIN)/python -m pytest -q -m "not slow"

test-slow: $(READY)
	$(BIN)/python -m pytest -q

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/bench_core.py
	$(BIN)/python benchmarks/bench_nets.py

table: $(READY)
	$(BIN)/python -m majorcert table results/cifar10

browser:
	command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver; }

clean:
	rm -rf $(VENV) demo build dist .pytest_cache .mypy_cache .ruff_cache
