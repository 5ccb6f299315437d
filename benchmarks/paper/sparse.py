"""The Reuters table: very large and very sparse text."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from functools import lru_cache, partial

import scipy.sparse as sp

from enmf.bench.data import matrix
from enmf.bench.protocols import Goal, Problem, goals
from enmf.datasets import make_sparse
from enmf.problem.validation.arrays import check_problem
from paper.case import Case, Row, reproduces
from paper.runs import bound_of, facts, run, warm

METHODS = ("anls-bpp", "hals", "a-hals")
RCV1 = (804_414, 47_236)
DENSITY = 0.0016


@lru_cache(maxsize=1)
def _sparse(data: str, shape: tuple[int, int]) -> Problem:
    if data != "generated":
        return check_problem(matrix(data))
    blocks = make_sparse(shape, DENSITY, rank=40, random_state=0).to_delayed().ravel()
    return check_problem(sp.vstack([block.compute() for block in blocks], format="csr"))


@reproduces(
    "reuters",
    ("Reuters",),
    "Large sparse text, equal error",
    tiny={"runs": (("generated", 3),), "shape": (400, 300), "patience": 2.0, "limit": 1.0},
    small={
        "runs": (("imdb", 10), ("imdb", 20), ("generated", 10), ("generated", 40)),
        "shape": RCV1,
        "patience": 2.0,
        "limit": 20.0,
    },
    paper={
        "runs": tuple((data, rank) for data in ("imdb", "generated", "rcv1") for rank in (10, 20, 40, 80, 100)),
        "shape": RCV1,
        "patience": 20.0,
        "limit": 36_000.0,
    },
)
def reuters(runs: tuple[tuple[str, int], ...], shape: tuple[int, int], patience: float, limit: float) -> Iterator[Case]:
    """RCV1 is read through scikit-learn by those who have it (`enmf.datasets.load_rcv1`). Here 100,000 film reviews
    (100,000 x 35,599) stand in, and a generated matrix of RCV1's shape and density shows that such a size fits in
    memory: eNMF alone there in the small size, in float32. Opponents from nndsvd."""
    for data, rank in runs:
        yield Case({"data": data, "rank": rank}, partial(_reuters, data, rank, shape, patience, limit))


def _reuters(data: str, rank: int, shape: tuple[int, int], patience: float, limit: float) -> Iterator[Row]:
    target = _sparse(data, shape)
    n, m = target.X.shape
    size = {"density": target.X.raw().nnz / (n * m)}
    warm(target, *METHODS)
    ours = run(target, rank, "enmf", goal=Goal(limit))
    bound, seconds = bound_of(target, rank), ours.trace[-1].seconds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    yield {"method": "enmf", "start": "exterior", **facts(ours, bound), "time_ratio": 1.0, **size, "peak_GB": peak}
    for method in METHODS if data != "generated" or limit > 3600 else ():
        result = run(target, rank, method, "nndsvd", goals(seconds, ours.error, patience)["equal-error"])
        ratio = result.trace[-1].seconds / seconds
        yield {"method": method, "start": "nndsvd", **facts(result, bound), "time_ratio": ratio, **size}
