"""Many runs on one X: what is known about the data is made once, what a run has cost is its own."""

import time
from dataclasses import replace

import pytest
import scipy.sparse as sp

import enmf
import enmf.api.consensus
import enmf.matrix.sparse
from enmf.api.request import Request, solve
from enmf.certificate.words import TOL
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.numbers import make_rng
from enmf.run.stopping import Stopping
from problems import counts

RANK = 3
RUNS = 5


@pytest.fixture
def X():
    return sp.csr_array(counts(120, 50))


@pytest.fixture
def copies(monkeypatch, X):
    """Transposed copies of X that have been made: threads share one, the first of them begins at block 0."""
    made, real = [], enmf.matrix.sparse.kernels.transpose

    def recording(start, stop, indptr, indices, data, *more):
        if start == 0 and len(data) == X.nnz:
            made.append(indptr)
            time.sleep(0.05)  # so that others would begin one of their own meanwhile
        real(start, stop, indptr, indices, data, *more)

    monkeypatch.setattr(enmf.matrix.sparse.kernels, "transpose", recording)
    return made


def costs(result):
    """Passes and iterations of each phase, and the passes that the trace has counted."""
    return {name: (p.passes, p.iterations) for name, p in result.phases.items()}, [row.passes for row in result.trace]


@pytest.fixture
def costs_alone(X):
    """What each run costs when nothing else goes on: run 0 is the exterior method, the others begin at random."""

    def of(streams, first, others):
        requests = [first, *[others] * (len(streams) - 1)]
        return [
            costs(solve(check_problem(X), RANK, replace(request, random_state=stream)))
            for request, stream in zip(requests, streams)
        ]

    return of


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_stability_makes_one_transposed_copy_for_all_runs(X, copies, n_threads):
    """A copy for each run would be as much memory as X itself, many times; threads wait for the first one's."""
    enmf.stability(X, RANK, n_runs=RUNS, n_threads=n_threads)
    assert len(copies) == 1


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_consensus_makes_one_transposed_copy_for_all_runs(X, copies, n_threads, monkeypatch):
    """As above; counted when the runs are over."""
    enmf.consensus(X, RANK, n_runs=RUNS, threshold=2.0, n_threads=n_threads)
    assert len(copies) == 1


def test_consensus_certifies_without_another_copy(X, copies):
    """The certificate at the end is one of the same problem."""
    enmf.consensus(X, RANK, n_runs=2, threshold=2.0)
    assert len(copies) == 1


@pytest.mark.parametrize("n_threads", [1, 4])
def test_each_run_of_stability_counts_its_own_passes(X, costs_alone, n_threads):
    """Runs at the same time share the data, not the count of what they have cost."""
    found = enmf.stability(X, RANK, n_runs=RUNS, n_threads=n_threads, random_state=0)
    usual = Request(stopping=Stopping(tol=TOL))
    alone = costs_alone(make_rng(0).spawn(RUNS), usual, replace(usual, method="e-hals", init="random", bound=False))
    assert [costs(result) for result in found.results] == alone


@pytest.mark.parametrize("n_threads", [1, 4])
def test_each_run_of_consensus_counts_its_own_passes(X, costs_alone, n_threads, monkeypatch):
    """As above; its results are thrown away, so they are looked at as they come."""
    found = {}

    def keeping(problem, rank, request):
        result = solve(problem, rank, request)
        found[request.random_state.bit_generator.seed_seq.spawn_key] = costs(result)
        return result

    monkeypatch.setattr(enmf.api.consensus, "solve", keeping)
    enmf.consensus(X, RANK, n_runs=RUNS, threshold=2.0, n_threads=n_threads, random_state=0)
    one = Request(method="e-hals", init="random", bound=False, stopping=Stopping(tol=1e-4, max_iter=500))
    assert [found[key] for key in sorted(found)] == costs_alone(make_rng(0).spawn(RUNS), one, one)
