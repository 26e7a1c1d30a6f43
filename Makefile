# Two commands do everything, set-up included: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test test-slow check bench faults fuzz table browser proofs docs setup clean

help:
	@echo "make demo       train, vote, certify and report on the embedded digits (about a minute)"
	@echo "make test       all quick tests"
	@echo "make test-slow  the slow tests as well"
	@echo "make check      formatting, lint and types"
	@echo "make bench      timings of the core and of the networks"
	@echo "make faults     kill, fill and damage real runs, and compare what comes out (about ten minutes)"
	@echo "make fuzz       every loader against a coverage-guided fuzzer, FUZZ_SECONDS=60 each"
	@echo "make table      recompute the CIFAR-10 results table from the stored evidence"
	@echo "make proofs     install Debian's Coq and OCaml, check every proof, build and compare the checker"
	@echo "make docs       the reference of all public names, from their docstrings, in build/docs"
	@echo "make browser    install Debian's Chromium, which the report's browser tests drive"

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[nets,dev]'
	touch $@

demo: $(READY)
	$(BIN)/python -m majorcert demo

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist loadfile -m "not slow"

test-slow: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist loadfile

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/bench_core.py
	$(BIN)/python benchmarks/bench_nets.py

faults: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/faults.py

FUZZ_SECONDS ?= 60
FUZZED := "evidence" "forged evidence" "mask pairs" "forged mask pairs" "bounds" "forged bounds" "masked scores" \
	"forged masked scores" "verdict" "verdict of detection" "truth" "ensemble" "forged ensemble" "checkpoint" "arrays" \
	"images" "cifar" "case study" "attack"

fuzz: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]'
	mkdir -p build/fuzz
	for artifact in $(FUZZED); do \
		$(BIN)/python fuzz/loaders.py "$$artifact" -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -rss_limit_mb=2048 \
			-artifact_prefix=build/fuzz/ || exit 1; \
	done

table: $(READY)
	$(BIN)/python -m majorcert table results/cifar10

proofs:
	command -v coqc >/dev/null && command -v ocamlopt >/dev/null || { \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends coq ocaml-nox; }
	test -x $(BIN)/python || { $(PYTHON) -m venv $(VENV) && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .; }
	$(MAKE) --no-print-directory -C proofs
	OMP_NUM_THREADS=1 $(BIN)/python proofs/compare.py proofs/build/checker --tables 20000 --images 1000 --study results/cifar10

docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/python docs/reference.py build/docs
	@echo "open build/docs/majorcert.html"

browser:
	command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver; }

clean:
	rm -rf $(VENV) demo build dist .pytest_cache .mypy_cache .ruff_cache
	$(MAKE) --no-print-directory -C proofs clean
