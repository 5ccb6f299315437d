"""The time limit counts from the call, and nothing large is begun that would end after it."""

import importlib
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import enmf
import problems
from enmf.linalg.bound import bound_passes
from enmf.matrix.dense import DenseMatrix
from enmf.problem.problem import Problem
from enmf.run.monitor import Monitor
from enmf.run.stopping import Stopping
from enmf.run.trace import Phase

X = sp.random_array((1600, 1500), density=0.005, format="csr", random_state=0)  # too large for an exact SVD


def test_a_bound_that_would_be_late_is_left_out_and_said_to_be():
    late, whole = (enmf.factorize(X, 3, random_state=0, time_limit=limit) for limit in (0.0, 1e4))
    assert late.status == "timeout"
    assert late.certificate.lower_bound == 0.0
    assert late.certificate.bound_skipped
    assert "not computed: it would have exceeded time_limit" in str(late.certificate)
    assert late.phases["certificate"].passes < 6 < whole.phases["certificate"].passes
    assert not whole.certificate.bound_skipped
    assert 0 < whole.certificate.lower_bound < late.error


def test_a_bound_that_costs_nothing_is_never_left_out():
    result = enmf.factorize(problems.dense(), 2, random_state=0, time_limit=0.0)
    assert not result.certificate.bound_skipped
    assert result.certificate.lower_bound > 0


@pytest.mark.parametrize(
    ("left", "passes", "wanted"),
    [(100.0, 20, True), (100.0, 200, False), (-1.0, 1, False), (-1000.0, 0, True), (None, 10**9, True)],
)
def test_what_can_be_afforded_follows_from_the_passes_so_far(left, passes, wanted):
    limit = None if left is None else 1.0
    began = None if left is None else time.perf_counter() + left - 1.0
    monitor = Monitor(Problem(DenseMatrix(problems.dense())), Stopping(time_limit=limit, began=began))
    monitor.phases = {"rotation": Phase(1000.0), "descent": Phase(10.0, 10)}
    assert monitor.affords(passes) == wanted


def test_an_exact_spectrum_has_its_bound():
    matrix = DenseMatrix(problems.dense())
    exact = enmf.linalg.svd.truncated_svd(matrix, 2, rng=np.random.default_rng(0))
    assert bound_passes(matrix, exact, 2) == 0.0
    assert bound_passes(matrix, None, 2) > 0.0


@pytest.mark.parametrize(
    ("door", "fit"),
    [
        ("enmf.api.factorize.check_problem", lambda X, **o: enmf.factorize(X, 2, init="random", **o)),
        ("enmf.api.complete.check_masked_problem", lambda X, **o: enmf.complete(X, 2, init="random", **o)),
        ("enmf.sklearn.nmf.check_problem", lambda X, **o: enmf.ENMF(2, init="random", **o).fit(X)),
        ("enmf.sklearn.nmc.check_masked_problem", lambda X, **o: enmf.ENMC(2, init="random", **o).fit(X)),
    ],
)
def test_the_first_look_at_X_counts(door, fit, monkeypatch):
    path, _, name = door.rpartition(".")
    module = importlib.import_module(path)
    check = getattr(module, name)

    def slow(*arguments, **options):
        time.sleep(0.2)
        return check(*arguments, **options)

    monkeypatch.setattr(module, name, slow)
    holes = problems.dense()
    if "masked" in door:
        holes[0, 0] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fit(holes, random_state=0, time_limit=0.1)
    assert (found.status_ if hasattr(found, "status_") else found.status) == "timeout"
