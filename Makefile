# Every command does its set-up by itself: .venv has all extras, .venv-plain none.
PYTHON ?= python3
PIP = -m pip install -q --disable-pip-version-check
PLAIN = contract estimators cli validation fuzz
SEEDS ?= 0:10000
JOBS ?= 2

.PHONY: demo docs docs-quick test-lowest test test-extras test-plain lint fuzz promises robustness paper wheel sanitize clean

demo: .venv/ready
	.venv/bin/python -m enmf demo

# docs/_build/html: the site, the gallery executed (on real data where ENMF_DATA names them); a warning is an error
SPHINX = .venv/bin/python -m sphinx -W --keep-going -q -b html

docs: .venv/docs
	$(SPHINX) docs docs/_build/html
	.venv/bin/python docs/check.py docs/_build/html

# without running the gallery
docs-quick: .venv/docs
	$(SPHINX) -D plot_gallery=0 docs docs/_build/quick
	.venv/bin/python docs/check.py docs/_build/quick

test: lint test-extras test-plain

test-extras: .venv/ready
	.venv/bin/python -m pytest -n auto -q --doctest-modules tests src/enmf

# what must not need any extra, with the package as `pip install` leaves it
test-plain: .venv-plain/ready
	.venv-plain/bin/python -m pytest -n auto -q $(PLAIN:%=tests/test_%.py)

# the same with the lowest versions that pyproject.toml allows
test-lowest: .venv-lowest/ready
	.venv-lowest/bin/python -m pytest -n auto -q $(PLAIN:%=tests/test_%.py)

# random calls, judged: make fuzz SEEDS=5000:6000; one of them: .venv/bin/python -m tests.fuzz --seed 5017
fuzz: .venv/ready
	.venv/bin/python -m tests.fuzz --seeds $(SEEDS) --jobs $(JOBS)

lint: .venv/ready
	.venv/bin/ruff check src tests benchmarks docs examples
	.venv/bin/ruff format --check -q src tests benchmarks docs examples
	.venv/bin/mypy

promises: .venv/ready
	.venv/bin/python benchmarks/promises.py

# raw counts, generated matrices, rank-one data and proofs; ENMF_DATA names the data folder
robustness: .venv/ready
	.venv/bin/python benchmarks/robustness.py

# tables, figures, benchmarks/paper/index.html and docs/paper.md; ENMF_DATA names the data folder
paper: .venv/ready
	.venv/bin/python benchmarks/reproduce.py all --size small --docs docs/paper.md

# dist/: the sdist, and a wheel made from it alone; then fits in an environment that has nothing else
wheel: .venv/ready
	rm -rf dist build/empty
	.venv/bin/python -m build
	$(PYTHON) -m venv build/empty
	build/empty/bin/python $(PIP) dist/*.whl
	cd / && $(CURDIR)/build/empty/bin/python -I $(CURDIR)/tests/smoke.py

# the tests of the kernels with GCC's AddressSanitizer and UndefinedBehaviorSanitizer, on a package of its own
sanitize: .venv-plain/ready
	rm -rf build/sanitize/package
	CXX=g++ .venv/bin/python $(PIP) --no-build-isolation --no-deps --target build/sanitize/package . \
	  -C build-dir=build/sanitize/cmake -C cmake.build-type=RelWithDebInfo \
	  -C cmake.define.ENMF_SANITIZE=ON -C cmake.define.ENMF_WERROR=ON
	export LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH=build/sanitize/package && \
	.venv-plain/bin/python -c 'from enmf.kernels import _baseline as k; assert "sanitize" in k.__file__, k.__file__' && \
	.venv-plain/bin/python -m pytest -q -s tests/kernels

# ---------------------------------------------------------------- what has changed is compiled and installed again

KERNELS = CMakeLists.txt $(wildcard src/kernels/*)
PACKAGE = $(shell find src/enmf -type f ! -path '*/__pycache__/*')

# what pyproject.toml asks for, and CMake and Ninja where the machine has none
.venv/tools: pyproject.toml
	$(PYTHON) -m venv .venv
	.venv/bin/python -c 'import tomllib; \
	  print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' > .venv/tools.txt
	.venv/bin/python $(PIP) -r .venv/tools.txt
	.venv/bin/python -c 'from scikit_build_core.build import get_requires_for_build_editable as more; \
	  print(*more(), sep="\n")' > .venv/tools.txt
	.venv/bin/python $(PIP) -r .venv/tools.txt
	touch $@

.venv/ready: .venv/tools $(KERNELS)
	.venv/bin/python $(PIP) --no-build-isolation -e '.[dev]'
	touch $@

.venv/docs: .venv/ready
	.venv/bin/python $(PIP) --no-build-isolation -e '.[dev,docs]'
	touch $@

build/wheel/ready: .venv/ready $(PACKAGE) README.md LICENSE
	rm -rf build/wheel
	.venv/bin/python -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w build/wheel .
	touch $@

# the same versions as in .venv
.venv-plain/ready: build/wheel/ready
	$(PYTHON) -m venv .venv-plain
	.venv/bin/python -m pip freeze --exclude-editable > .venv-plain/versions.txt
	.venv-plain/bin/python -m pip uninstall -qq -y enmf
	.venv-plain/bin/python $(PIP) -c .venv-plain/versions.txt build/wheel/*.whl pytest pytest-xdist hypothesis
	touch $@

.venv-lowest/ready: build/wheel/ready
	$(PYTHON) -m venv .venv-lowest
	.venv/bin/python -c 'import tomllib; \
	  print(*(d.replace(">=", "==") for d in tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]), sep="\n")' \
	  > .venv-lowest/versions.txt
	.venv-lowest/bin/python $(PIP) -r .venv-lowest/versions.txt build/wheel/*.whl pytest pytest-xdist hypothesis
	touch $@

clean:
	rm -rf .venv .venv-plain .venv-lowest build dist docs/_build docs/gallery docs/api
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
