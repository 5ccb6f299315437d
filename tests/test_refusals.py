"""What cannot be done is said in one sentence, before any work: which method, what it needs, why there is none."""

import re

import numpy as np
import pytest

import enmf
from enmf.api.registry import COMPLETIONS, DESCENTS
from enmf.losses.base import NEEDS, Loss
from enmf.losses.divergence import Divergence
from enmf.losses.frobenius import Frobenius
from enmf.problem.problem import Problem
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.masks import check_masked_problem
from enmf.run.options import Given, RunOptions
from enmf.run.run import run
from enmf.run.stopping import Stopping
from problems import low_rank_noisy

RANK = 2
FROBENIUS = Frobenius()


class HalfStepsOnly(Loss):
    """A loss that has written no more than it must, and offers no more than half-steps."""

    name = "half-steps only"
    degree = 2.0

    def offers(self, X):
        return frozenset({"half-step"})

    def value(self, state):
        return FROBENIUS.value(state)

    def mass(self, X):
        return FROBENIUS.mass(X)

    def half_step(self, half, how):
        FROBENIUS.half_step(half, how)

    def measure(self, half):
        return FROBENIUS.measure(half)


@pytest.fixture
def X():
    return low_rank_noisy(30, 12, rank=RANK)


@pytest.fixture
def masked(X):
    holes = X.copy()
    holes[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    return check_masked_problem(holes, None, None, None, None)


def asking_for(name, problem, method=None):
    """The options of a run of this method from given factors, as `enmf.api.request` makes them."""
    n, m = problem.X.shape
    start = Given(*(np.random.default_rng(0).random((length, RANK)) for length in (n, m)))
    return RunOptions(RANK, method or DESCENTS[name], start, name, stopping=Stopping(tol=0.0, max_iter=20))


def refusal(problem, name, method=None):
    """What `run` says; it says so before it looks at X."""
    before = problem.X.passes
    with pytest.raises(ValueError, match="needs") as refused:
        run(problem, asking_for(name, problem, method))
    assert problem.X.passes == before, "work was done before the method was refused"
    return str(refused.value)


def test_a_method_for_complete_data_is_refused_where_entries_are_missing(masked):
    """Every row then has a Gram matrix of its own."""
    assert refusal(masked, "anls-bpp") == (
        "method 'anls-bpp' needs one Gram matrix for all rows, which the loss 'frobenius' does not offer, "
        "where entries are missing or weighted"
    )


def test_a_method_for_missing_entries_is_refused_for_complete_data(X):
    """And nothing is said about missing entries, of which there are none."""
    assert refusal(check_problem(X), "adm", COMPLETIONS["adm"]) == (
        "method 'adm' needs products with the residual over the observed entries, "
        "which the loss 'frobenius' does not offer"
    )


def test_a_method_is_refused_by_a_loss_without_what_it_needs(X):
    """The loss says what it has; no method knows losses by name."""
    problem = Problem(check_problem(X).X, HalfStepsOnly())
    assert refusal(problem, "mu") == (
        "method 'mu' needs the positive and the negative part of the gradient, "
        "which the loss 'half-steps only' does not offer"
    )


def test_a_refusal_names_all_that_is_lacking(X):
    """One sentence for several needs."""
    said = refusal(Problem(check_problem(X).X, HalfStepsOnly()), "nmf-admm")
    lacking = DESCENTS["nmf-admm"].needs
    assert len(lacking) > 1
    assert all(NEEDS[need] in said for need in lacking)
    assert "\n" not in said


@pytest.mark.parametrize("name", ["hals", "a-hals", "e-hals"])
def test_a_loss_with_half_steps_alone_is_enough_for_methods_that_need_no_more(X, name):
    """What is offered suffices: a new loss descends as soon as it has written what it must."""
    problem = Problem(check_problem(X).X, HalfStepsOnly())
    result = run(problem, asking_for(name, problem))
    assert result.n_iter == 20
    assert result.trace[-1].error < 0.5 * result.trace[0].error


OFFERED = {name: DESCENTS[name] for name in enmf.methods() if name != "enmf"}


@pytest.mark.parametrize(("names", "of"), [(OFFERED, "complete"), (COMPLETIONS, "missing")], ids=["whole", "missing"])
def test_no_method_in_a_catalogue_is_refused_for_the_data_it_is_offered_for(names, of, X, masked):
    """The names that a user can choose are those that work; needs are words that there are."""
    problem = check_problem(X) if of == "complete" else masked
    for name, method in names.items():
        assert method.needs <= set(NEEDS), name
        assert method.needs <= problem.loss.offers(problem.X), name


@pytest.mark.parametrize("name", sorted(set(DESCENTS) - set(OFFERED)))
def test_a_method_that_is_not_offered_for_least_squares_is_refused(X, name):
    assert refusal(check_problem(X), name) == (
        f"method {name!r} needs Newton steps of single entries of a factor, which the loss 'frobenius' does not offer"
    )


BY_NORMAL_EQUATIONS = [name for name, method in OFFERED.items() if "normal equations" in method.needs]


@pytest.mark.parametrize("name", BY_NORMAL_EQUATIONS)
def test_a_method_by_normal_equations_is_refused_for_other_losses(X, name):
    for beta, loss in ((1.0, "kullback-leibler"), (0.0, "itakura-saito"), (1.5, "beta=1.5")):
        said = refusal(Problem(check_problem(X).X, Divergence(beta)), name)
        assert said.startswith(f"method {name!r} needs one Gram matrix for all rows")
        assert said.endswith(f"which the loss {loss!r} does not offer")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "magic"}, "method='magic' is not known; choose one of 'enmf', 'hals', "),
        ({"method": "masked-scd"}, "method='masked-scd' is not known; choose one of 'enmf', 'hals', "),
        ({"init": "magic"}, "init='magic' is not known; choose one of 'exterior', 'random', "),
        ({"descent": "magic"}, "descent='magic' is not known; choose one of 'hals', "),
        ({"preset": "magic"}, "preset='magic' is not known; choose 'paper' or None"),
        ({"magic": 1}, "unknown option 'magic' for method 'enmf' with descent 'e-hals'; besides the parameters of the"),
        ({"method": "mu", "sweeps": 2}, "unknown option 'sweeps' for method 'mu' with descent 'mu'; besides"),
        ({"rotation": "magic"}, "rotation='magic' is not one of 'auto', "),
    ],
    ids=str,
)
def test_factorize_refuses_unknown_names_and_says_which_there_are(X, options, sentence):
    with pytest.raises((ValueError, TypeError), match="^" + re.escape(sentence)):
        enmf.factorize(X, RANK, **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "magic"}, "method='magic' is not known; choose one of 'enmc', 'masked-scd', "),
        ({"method": "anls-bpp"}, "method='anls-bpp' is not known; choose one of 'enmc', 'masked-scd', "),
        ({"init": "nndsvd"}, "init='nndsvd' is not known; choose one of 'exterior', 'random'"),
        ({"descent": "mu"}, "descent='mu' is not known; choose one of 'masked-scd', "),
        ({"preset": "paper"}, "unknown option 'preset' for method 'enmc' with descent 'masked-e-scd'; besides"),
        ({"magic": 1}, "unknown option 'magic' for method 'enmc' with descent 'masked-e-scd'; besides the parameters"),
        ({"l1_U": 1.0}, "unknown option 'l1_U' for method 'enmc' with descent 'masked-e-scd'; besides"),
    ],
    ids=str,
)
def test_complete_refuses_unknown_names_and_says_which_there_are(X, options, sentence):
    X[0, 0] = np.nan
    with pytest.raises((ValueError, TypeError), match="^" + re.escape(sentence)):
        enmf.complete(X, RANK, **options)
