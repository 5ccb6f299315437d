"""Every tuned number has its reason and its lesson beside it; decisions are functions of facts."""

import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import enmf
from enmf.exterior import feasibility
from enmf.exterior.core import make_core
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


def effort(error, mass=1.0, cost=0.1, options=None, policy=MEASURED, flops=1e10):
    facts = Facts(error, mass, exact=True, core_cost=cost, step_flops=flops)
    return plan_effort(facts, options or ExteriorOptions(), policy, Plan())


def test_efforts_follow_from_facts():
    near, usual, little = effort(0.05), effort(0.5), effort(0.98)
    assert near.starts == usual.starts == ("spread", "identity", "parts")
    assert effort(0.5, cost=0.2).starts == ("spread", "identity")  # a dearer core compares fewer of them
    assert little.starts == ("spread",)
    assert near.surrogate_iterations > usual.surrogate_iterations > little.surrogate_iterations
    assert effort(0.98, cost=0.4).feasibility_options["steps"] < usual.feasibility_options["steps"]
    assert effort(0.5, cost=0.9).starts == ("parts",)  # without a core nothing compares starts cheaply
    assert effort(0.1, cost=0.9).starts == ("spread",)
    assert not effort(0.5, cost=0.9).surrogate
    assert effort(0.05, cost=0.5).surrogate  # the longer the descent, the dearer a core may be
    assert not effort(0.5, cost=0.5).surrogate


def test_small_data_compare_all_candidates():
    assert effort(0.5, cost=0.9, flops=1e6).starts == ("spread", "identity", "parts")


def test_what_is_asked_for_wins():
    options = ExteriorOptions(
        rotation="random", surrogate=True, surrogate_iterations=7, feasibility_options={"steps": 3}
    )
    found = effort(0.5, cost=0.9, options=options)
    assert (found.starts, found.surrogate, found.surrogate_iterations) == (("random",), True, 7)
    assert found.feasibility_options == {"steps": 3}
    assert plan_rotation(found, replace(options, rotation_iterations=9), MEASURED, Plan()) == 9


def test_a_policy_can_be_replaced():
    assert effort(0.3, policy=replace(MEASURED, low_rank=0.4, decides_by_error=0.35)).decides
    assert not effort(0.3).decides


def test_the_policy_reaches_the_svd_and_the_core():
    """A number that is changed in a policy is the one that is used."""
    plan = Plan()
    rng = np.random.default_rng(0)
    small = DenseMatrix(rng.random((100, 80)))
    never = replace(MEASURED.svd, exact_for=0.0, exact_flops=0.0, most_oversampling=3, least_oversampling=2)
    assert plan_svd(small, 20, ExteriorOptions(), replace(MEASURED, svd=never), plan) == ("randomized", 23)
    assert plan_svd(small, 20, ExteriorOptions(), MEASURED, plan) == ("exact", 40)
    X = DenseMatrix(rng.random((2500, 3)) @ rng.random((3, 1800)) + 0.1 * rng.random((2500, 1800)))
    whole = LowRankMatrix(*truncated_svd(X, 3, oversampling=2, rng=rng).factors(5))
    assert make_core(whole, X.dtype, 0.0, rng, replace(MEASURED, core_rows=60)).shape == (300, 300)
