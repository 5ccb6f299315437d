# Every command does its set-up by itself: .venv has all extras, .venv-plain none.
PYTHON ?= python3
PIP = -m pip install -q --disable-pip-version-check
PLAIN = contract estimators cli validation fuzz
SEEDS ?= 0:10000
JOBS ?= 2

.PHONY: demo test test-extras test-plain lint fuzz promises robustness paper clean

demo: .venv/ready
	.venv/bin/python -m enmf demo

test: lint test-extras test-plain

test-extras: .venv/ready
	.venv/bin/python -m pytest -n auto -q --doctest-modules tests src/enmf

# what must not need any extra; compiled kernels are found beside the source, where the tests above have left them
test-plain: .venv-plain/ready
	.venv-plain/bin/python -m pytest -n auto -q $(PLAIN:%=tests/test_%.py)

# random calls, judged: make fuzz SEEDS=5000:6000; one of them: .venv/bin/python -m tests.fuzz --seed 5017
fuzz: .venv/ready
	.venv/bin/python -m tests.fuzz --seeds $(SEEDS) --jobs $(JOBS)

lint: .venv/ready
	.venv/bin/ruff check src tests benchmarks
	.venv/bin/ruff format --check -q src tests benchmarks
	.venv/bin/mypy

promises: .venv/ready
	.venv/bin/python benchmarks/promises.py

# raw counts, generated matrices, rank-one data and proofs; ENMF_DATA names the data folder
robustness: .venv/ready
	.venv/bin/python benchmarks/robustness.py

# tables, figures, benchmarks/paper/index.html and docs/paper.md; ENMF_DATA names the data folder
paper: .venv/ready
	.venv/bin/python benchmarks/reproduce.py all --size small --docs docs/paper.md

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	.venv/bin/python $(PIP) -e '.[dev]'
	touch .venv/ready

# the same versions as in .venv, numba's above all: another one would compile every kernel anew
.venv-plain/ready: .venv/ready
	$(PYTHON) -m venv .venv-plain
	.venv/bin/python -m pip freeze --exclude-editable > .venv-plain/versions.txt
	.venv-plain/bin/python $(PIP) -c .venv-plain/versions.txt -e . pytest pytest-xdist hypothesis
	touch .venv-plain/ready

clean:
	rm -rf .venv .venv-plain build dist
