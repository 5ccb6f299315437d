"""From names and keywords to a run: the one place that knows what a user can ask for."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from enmf.api.registry import COMPLETION, FACTORIZATION, OWN_DESCENTS, OWN_STARTS, Catalogue
from enmf.certificate.words import TOL
from enmf.exterior.borrowed import BorrowedStart
from enmf.exterior.guided import GuidedStart
from enmf.exterior.plan import PAPER
from enmf.exterior.sampled import SampledStart
from enmf.exterior.structured import StructuredStart
from enmf.exterior.symmetric import SymmetricStart
from enmf.linalg.spectrum import Spectrum
from enmf.problem.problem import Problem
from enmf.problem.refusals import refuse
from enmf.problem.validation.factors import WEIGHTS, check_init, check_rank, check_scale, with_penalty
from enmf.problem.validation.layers import with_layers
from enmf.problem.validation.masks import check_masked_rank
from enmf.problem.validation.numbers import check_choice, check_threads, make_rng, warn_outside
from enmf.problem.validation.structure import NOTHING_KNOWN, Known, with_structure
from enmf.run.checks import check_options, check_wishes
from enmf.run.method import Method
from enmf.run.options import Given, Made, RunOptions, Start, Wishes
from enmf.run.result import Result
from enmf.run.run import run
from enmf.run.stopping import FURTHER, Stopping

PRESETS: dict[str | None, tuple[dict[str, Any], str | None]] = {None: ({}, None), "paper": (PAPER, "hals")}


@dataclass(frozen=True, kw_only=True)
class Request(Wishes):
    """What the user asked for besides X and the rank, unchanged; `details` are further settings to record."""

    method: str = FACTORIZATION.own
    init: str | tuple[Any, Any] | None = None
    random_state: Any = None
    preset: str | None = None
    known: Known = NOTHING_KNOWN
    options: dict[str, Any] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    rank_name: str = "rank"

    @classmethod
    def of(cls, given: dict[str, Any]) -> Request:
        """From the local names of a public function that are called as the fields."""
        return cls(**{wish.name: given[wish.name] for wish in fields(cls) if wish.name in given})

    def settings(self) -> dict[str, Any]:
        """The settings that reproduce the run, as plain values."""
        plain = self.random_state is None or isinstance(self.random_state, int)
        return {
            "method": self.method,
            "init": self.init if isinstance(self.init, str) or self.init is None else "given factors",
            **{name: getattr(self.stopping, name) for name in ("tol", "max_iter", "time_limit", "target_error")},
            "random_state": self.random_state if plain else type(self.random_state).__name__,
            "scale": self.scale,
            **(self.details or {"preset": self.preset}),
            **{word: _plain(getattr(self.known, word)) for word in self.known.words()},
            **self.options,
        }


def _plain(value: Any) -> Any:
    """What settings show of a word: itself, or that something was given."""
    return value if isinstance(value, (str, bool, int, float)) else "given"


def solve(problem: Problem, rank: int, request: Request, spectrum: Spectrum | None = None) -> Result:
    """Run the request on an X that is already validated; a known spectrum saves the SVD."""
    return run(*prepare(problem, rank, request), spectrum)


def prepare(problem: Problem, rank: int, request: Request) -> tuple[Problem, RunOptions]:
    """What `run` needs: the problem with its penalty, and the validated options."""
    catalogue = FACTORIZATION if problem.X.complete else COMPLETION
    check_choice("method", request.method, catalogue.methods())
    check_wishes(request.callback, request.checkpoint, {"bound": request.bound, "exact_U": request.exact_U})
    rng = make_rng(request.random_state)
    rank = _check_rank(rank, problem, request.rank_name)
    exterior, method, weights = _sort_options(catalogue, request)
    _refuse(request, method, weights)
    problem = with_structure(problem, rank, request.known)
    problem = with_penalty(problem, weights) if weights else problem
    problem = with_layers(problem, rank, request.known)
    check_scale(request.scale, problem)
    wishes = {wish.name: getattr(request, wish.name) for wish in fields(Wishes)}
    wishes["n_threads"] = check_threads(request.n_threads)
    wishes["stopping"] = _stopping(request, problem)
    start = _start(catalogue, request, exterior, method, problem, rank)
    if problem.structure.symmetric:
        start, method = SymmetricStart(start) if not isinstance(start, Given) else start, OWN_DESCENTS["symmetric"]
    elif problem.structure:
        start = StructuredStart(start)
    elif problem.penalty.guide is not None and not isinstance(start, Given):
        start = GuidedStart(start)
    settings = {"loss": problem.loss.name, **request.settings()}
    return problem, RunOptions(rank, method, start, request.method, rng, settings, **wishes)


def _refuse(request: Request, method: Method, weights: dict[str, float]) -> None:
    """Refuse what does not go with what is known about the factors."""
    words = request.known.words()
    if words:
        things = set(method.needs)
        things |= {"penalty"} if any(weights.values()) else set()
        things |= {"checkpoint"} if request.checkpoint is not None else set()
        things |= {"another method"} if request.method != FACTORIZATION.own or "descent" in request.options else set()
        refuse(words, things, request.options.get("descent", request.method))


def _stopping(request: Request, problem: Problem) -> Stopping:
    """The limits, with a tolerance for a loss whose runs cannot do without, and when a residual leaves no doubt."""
    limits: dict[str, Any] = {key: request.options[key] for key in FURTHER if key in request.options}
    if request.stopping.settles and not problem.loss.settles:
        limits["tol"] = TOL
    limits["sure"] = problem.loss.sure
    return replace(request.stopping, **limits)


def _check_rank(rank: Any, problem: Problem, name: str) -> int:
    if problem.X.complete:
        return check_rank(rank, problem.X, name)
    rank = check_masked_rank(rank, problem.X, bool(problem.penalty), name)
    cold = [int((problem.X.totals(side) == 0).sum()) for side in (0, 1)]
    if any(cold):
        (n, m), (rows, columns) = problem.X.shape, cold
        warn_outside(f"{rows} of {n} rows and {columns} of {m} columns have no observed entry; their factors are zero")
    return rank


def _sort_options(catalogue: Catalogue, request: Request) -> tuple[Any, Method, dict[str, float]]:
    """The options, split by addressee: the exterior phases, the descent method, the penalty."""
    if request.preset not in PRESETS:
        raise ValueError(f"preset={request.preset!r} is not known; choose 'paper' or None")
    preset, descent = PRESETS[request.preset]
    options = {**preset, **request.options}
    own = request.method == catalogue.own
    name = options.pop("descent", descent or catalogue.descent) if own else request.method
    check_choice("descent", name, list(catalogue.descents))
    check_options(options)
    options = {key: value for key, value in options.items() if key not in FURTHER}
    of_exterior = {option.name for option in fields(catalogue.options)}
    exterior = {key: options.pop(key) for key in list(options) if key in of_exterior}
    weights = {key: options.pop(key) for key in list(options) if key in WEIGHTS and catalogue.penalties}
    if not own and "restarts" in of_exterior:
        exterior.setdefault("restarts", 0)  # a single start, followed by the method
    try:
        return catalogue.options(**exterior), replace(catalogue.descents[name], **options), weights
    except TypeError:
        if catalogue is COMPLETION:
            refuse([word.name for word in fields(Known) if word.name in options], ["missing"])
        known = sorted(of_exterior | {"descent", *FURTHER} | (set(WEIGHTS) if catalogue.penalties else set()))
        raise TypeError(
            f"unknown option {', '.join(map(repr, options))} for method {request.method!r} with descent {name!r}; "
            f"besides the parameters of the descent method there are {', '.join(known)}"
        ) from None


def _start(catalogue: Catalogue, request: Request, exterior: Any, method: Method, problem: Problem, rank: int) -> Start:
    init = request.init
    if problem.structure.symmetric and isinstance(init, str) and init != "exterior":
        raise ValueError(f"init={init!r} makes two different factors, and symmetric=True has one; use 'exterior'")
    if init is None and problem.X.signed:
        init = "exterior"  # the others need X >= 0
    if init is None and request.method != catalogue.own and method.own_start is not None:
        return Made(OWN_STARTS[method.own_start])
    if init is None:
        init = "exterior" if request.method == catalogue.own else catalogue.start
    found = check_init(init, catalogue.initializations(), problem, rank, best_U=problem.X.complete)
    if not isinstance(found, str):
        U, V = found
        if problem.structure.symmetric and not np.array_equal(U, V):
            raise ValueError("init of a symmetric factorization must be a pair (U, U) of equal factors")
        own = problem.structure.own
        return Given(None if U is None else own(U, 0), own(V, 1))
    if found != "exterior" and problem.X.signed:
        raise ValueError(f"init={found!r} needs X >= 0; use 'exterior' or give factors (U, V)")
    if found != "exterior":
        return Made(catalogue.starts[found])
    start = catalogue.exterior(exterior)
    if not problem.loss.scalings:
        return start
    return BorrowedStart(start) if problem.X.has_rows else SampledStart(BorrowedStart(start))
