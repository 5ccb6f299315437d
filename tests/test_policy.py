"""Every tuned number has its reason and its lesson beside it; decisions are functions of facts."""

import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import enmf
from enmf.exterior import feasibility
from enmf.exterior.core import lift, make_core
from enmf.exterior.plan import (
    FEASIBILITY,
    MEASURED,
    ExteriorOptions,
    Facts,
    Plan,
    Policy,
    plan_effort,
    plan_rotation,
    plan_svd,
)
from enmf.linalg.spectrum import SvdPolicy
from enmf.linalg.svd import truncated_svd
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.lowrank import LowRankMatrix
from enmf.problem.problem import Problem
from enmf.problem.state import State

SOURCE = Path(enmf.__file__).parent
LESSONS = SOURCE.parents[1] / "docs" / "lessons"


@pytest.mark.parametrize(("policy", "file"), [(Policy, "exterior/plan.py"), (SvdPolicy, "linalg/spectrum.py")])
def test_every_tuned_number_points_to_its_lesson(policy, file):
    text = (SOURCE / file).read_text()
    for number in fields(policy):
        if number.name == "svd":
            continue
        found = re.search(rf"    # (.+) \((\S+\.md)#(\S+)\)\n    {number.name}: ", text)
        assert found, f"{number.name} has no reason with its lesson above it"
        reason, page, anchor = found.groups()
        assert len(reason) > 10
        assert f'id="{anchor}"' in (LESSONS / page).read_text(), (page, anchor)


def test_the_plan_knows_the_stages_there_are():
    assert tuple(feasibility.STAGES) == FEASIBILITY


def effort(error, mass=1.0, cost=0.1, options=None, policy=MEASURED):
    return plan_effort(Facts(error, mass, exact=True, core_cost=cost), options or ExteriorOptions(), policy, Plan())


def test_efforts_follow_from_facts():
    near, usual, little = effort(0.05), effort(0.5), effort(0.98)
    assert near.starts == ("spread", "random")
    assert usual.starts == ("identity", "random")
    assert little.starts == ("spread",)
    assert near.surrogate_iterations > usual.surrogate_iterations > little.surrogate_iterations
    assert little.feasibility_options["steps"] < usual.feasibility_options["steps"]
    assert effort(0.5, cost=0.9).starts == ("identity",)  # without a core nothing compares starts
    assert not effort(0.5, cost=0.9).surrogate


def test_what_is_asked_for_wins():
    options = ExteriorOptions(
        rotation="random", surrogate=True, surrogate_iterations=7, feasibility_options={"steps": 3}
    )
    found = effort(0.5, cost=0.9, options=options)
    assert (found.starts, found.surrogate, found.surrogate_iterations) == (("random",), True, 7)
    assert found.feasibility_options == {"steps": 3}
    assert plan_rotation(found, 1.0, replace(options, rotation_iterations=9), MEASURED, Plan())[0] == 9


def test_a_policy_can_be_replaced():
    assert effort(0.3, policy=replace(MEASURED, low_rank=0.4, decides_by_error=0.35)).decides
    assert not effort(0.3).decides


@pytest.mark.parametrize(("cost", "iterations"), [(0.001, 20), (2.0, 10), (100.0, 5)])
def test_rotations_cost_no_more_than_twenty_passes(cost, iterations):
    assert plan_rotation(effort(0.5), cost, ExteriorOptions(), MEASURED, Plan())[0] == iterations


def test_the_policy_reaches_the_svd_and_the_way_back_to_all_rows():
    """A number that is changed in a policy is the one that is used."""
    plan = Plan()
    narrow = replace(MEASURED, svd=replace(MEASURED.svd, exact_side=50, most_oversampling=3, least_oversampling=2))
    assert plan_svd((100, 80), 20, ExteriorOptions(), narrow, plan) == ("randomized", 23)
    assert plan_svd((100, 80), 20, ExteriorOptions(), MEASURED, plan) == ("exact", 40)
    rng = np.random.default_rng(0)
    X = DenseMatrix(rng.random((2500, 3)) @ rng.random((3, 1800)) + 0.1 * rng.random((2500, 1800)))
    whole = LowRankMatrix(*truncated_svd(X, 3, oversampling=2, rng=rng).factors(5))
    core = make_core(whole, X.dtype, rng)
    state = State(Problem(core), *(rng.random((length, 3)) for length in core.shape))
    swept, clipped = (
        lift(state, core, whole.B, X, policy)[0] for policy in (MEASURED, replace(MEASURED, lift_sweeps=0))
    )
    assert not np.array_equal(swept, clipped)
