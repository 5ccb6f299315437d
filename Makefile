# Both commands do all set-up by themselves, in .venv.
PYTHON ?= python3

.PHONY: demo test lint promises paper clean

demo: .venv/ready
	.venv/bin/python -m enmf.demo

test: .venv/ready lint
	.venv/bin/python -m pytest -n auto -q --doctest-modules tests src/enmf

lint: .venv/ready
	.venv/bin/ruff check src tests benchmarks
	.venv/bin/ruff format --check -q src tests benchmarks
	.venv/bin/mypy

promises: .venv/ready
	.venv/bin/python benchmarks/promises.py

# tables, figures, benchmarks/paper/index.html and docs/paper.md; ENMF_DATA names the data folder
paper: .venv/ready
	.venv/bin/python -m enmf.bench reproduce all --size small --docs docs/paper.md

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	touch .venv/ready

clean:
	rm -rf .venv build dist
