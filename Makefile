PYTHON ?= python3
VENV ?= .venv
# Where PyTorch comes from; the usual index, if empty. https://download.pytorch.org/whl/cpu has the
# builds without CUDA, which are much smaller.
TORCH_INDEX ?=
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help setup demo test test-all bench-smoke package lint clean

help:
	@echo "make demo      set up, fetch a model pair (1.6 GB, once) and compare methods on a prompt"
	@echo "make test      set up and run the tests"
	@echo "make test-all  the slow tests too"
	@echo "make bench-smoke  a benchmark of two prompts and three methods, to see that it runs"
	@echo "make package   build the wheel and see that nothing is missing in it"
	@echo "make lint      ruff and mypy"

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt $(if $(TORCH_INDEX),--no-deps --index-url $(TORCH_INDEX)) torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,lint]'
	touch $@

demo: setup
	$(BIN)/multidraft pull qwen2.5-coder-1.5b-instruct qwen2.5-coder-0.5b-instruct
	$(BIN)/multidraft generate --target qwen2.5-coder-1.5b-instruct \
	  --draft qwen2.5-coder-0.5b-instruct --temperature 0.4 --seed 7 --max-tokens 128 \
	  --compare ar,token,spectr,spectr-gbv,traversal \
	  "Write a Python function that merges two sorted lists into one sorted list."

test: setup
	$(BIN)/multidraft pull smollm2-135m-instruct
	$(BIN)/python -m pytest -n auto --durations=10 -m "not slow" \
	  --hypothesis-profile=repeatable

test-all: setup
	$(BIN)/multidraft pull smollm2-135m-instruct qwen2.5-coder-1.5b-instruct qwen2.5-coder-0.5b-instruct
	$(BIN)/python -m pytest -n auto

# A folder of its own each time: an old one would be continued, that is, found finished. A
# generation that failed is shown, and fails it.
bench-smoke: setup
	$(BIN)/multidraft pull smollm2-135m-instruct
	out=$$(mktemp -d) && $(BIN)/multidraft bench run --out $$out \
	  --target smollm2-135m-instruct --draft smollm2-135m-instruct \
	  --data file:tests/bench/prompts.jsonl --prompts 2 --methods ar,token,spectr-gbv \
	  --max-tokens 24 --temperature 0.6 \
	  && ! grep -v '"error": ""' $$out/records.jsonl && wc -l $$out/records.jsonl && rm -r $$out

# Whatever the code reads besides itself must be in the wheel.
package: setup
	rm -rf build
	out=$$(mktemp -d) && $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir $$out . \
	  && $(BIN)/python -m zipfile -l $$out/*.whl > $$out/list \
	  && for file in $$(cd src && find multidraft -type f ! -name '*.py' ! -name '*.pyc'); do \
	    grep -q "^$$file " $$out/list || { echo "The wheel lacks $$file"; exit 1; }; done \
	  && rm -r $$out build

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
