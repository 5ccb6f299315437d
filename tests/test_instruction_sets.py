"""Which instruction set the kernels use, how another one is chosen, and where that is told."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from enmf import kernels


def run(*arguments, cwd, level=None):
    """`python -m ...` in a process of its own, ENMF_KERNELS being `level`."""
    environment = {name: value for name, value in os.environ.items() if name != "ENMF_KERNELS"}
    if level is not None:
        environment["ENMF_KERNELS"] = level
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


def test_the_best_instruction_set_is_in_use_unless_another_one_is_named(tmp_path):
    for level in (None, "", *kernels.available()):  # empty: as if not set
        done = run("enmf.kernels", cwd=tmp_path, level=level)
        assert done.returncode == 0, done.stderr
        in_use, available, compiler, hint = done.stdout.splitlines()
        assert in_use.split() == ["in", "use", level or kernels.available()[-1]]
        assert available == f"available  {', '.join(kernels.available())}"
        assert compiler.split(maxsplit=1) == ["compiler", kernels.load("baseline").COMPILER]
        assert "ENMF_KERNELS" in hint


def test_info_tells_it_too(tmp_path):
    for level in kernels.available():
        facts = json.loads(run("enmf", "info", "--json", cwd=tmp_path, level=level).stdout)
        assert facts["kernels"] == f"{level}, {kernels.load(level).COMPILER}"


@pytest.mark.parametrize("command", [("enmf", "info"), ("enmf.kernels",)])
def test_an_instruction_set_that_is_not_there_is_refused_with_those_that_are(tmp_path, command):
    done = run(*command, cwd=tmp_path, level="sse9")
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert "ENMF_KERNELS=sse9" in last
    assert last.endswith(", ".join(kernels.available()))


def test_load_refuses_in_one_line():
    with pytest.raises(ImportError, match=r"\AENMF_KERNELS=sse9: this machine has baseline.*\Z"):
        kernels.load("sse9")


FITS = """
import hashlib, json, sys, warnings
import numpy as np
import scipy.sparse as sp
import enmf

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.random((420, 6)) @ rng.random((6, 260)) + 0.3 * rng.random((420, 260))
holes = np.where(rng.random(X.shape) < 0.3, np.nan, X)
counts = sp.csr_array(rng.poisson(2.0, X.shape) * (rng.random(X.shape) < 0.2)).astype(float)
how = {"random_state": 0, "max_iter": 12, "tol": 0.0}
steps = {**how, "method": "e-hals", "init": "random"}
fits = {
    "dense": lambda n: enmf.factorize(X[:150, :90], 5, n_threads=n, **how),
    "dense in bursts": lambda n: enmf.factorize(X, 5, n_threads=n, **steps),
    "tall": lambda n: enmf.factorize(np.tile(X[:, :20], (20, 1)), 4, n_threads=n, **steps),
    "sparse": lambda n: enmf.factorize(counts, 5, n_threads=n, **steps),
    "masked": lambda n: enmf.complete(holes, 4, n_threads=n, **how),
    "float32": lambda n: enmf.factorize(X.astype(np.float32), 5, n_threads=n, **steps),
}
found = {}
for name, fit in fits.items():
    results = [fit(n) for n in (1, 2)]
    bits = [hashlib.sha256(r.U.tobytes() + r.V.tobytes()).hexdigest() for r in results]
    found[name] = bits, [r.error for r in results], [bool((r.U >= 0).all() and (r.V >= 0).all()) for r in results]
print(json.dumps([enmf.kernels.level, found]))
"""


def test_fits_do_not_depend_on_threads_and_only_to_rounding_on_the_instruction_set(tmp_path):
    (tmp_path / "fits.py").write_text(FITS)
    errors = {}
    for level in kernels.available():
        done = run("fits", cwd=tmp_path, level=level)
        assert done.returncode == 0, done.stderr
        in_use, found = json.loads(done.stdout)
        assert in_use == level
        for name, (bits, reached, nonnegative) in found.items():
            assert bits[0] == bits[1], (level, name)
            assert reached[0] == reached[1], (level, name)
            assert all(nonnegative), (level, name)
            errors.setdefault(name, []).append(reached[0])
    for name, reached in errors.items():
        np.testing.assert_allclose(reached, reached[0], rtol=1e-6, err_msg=name)
