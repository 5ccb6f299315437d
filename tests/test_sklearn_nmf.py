"""scikit-learn's own tests of NMF, from the installed package, with ENMF in its place.

What differs on purpose is listed with its reason, and must differ: an entry that passes fails here.
"""

import importlib.util
import inspect
import re
from unittest import mock

import pytest
import sklearn.decomposition

import enmf

OTHER_LOSSES = "other losses than the Frobenius norm are not available"
SOLVED = "the data are fitted exactly before the first iteration: there is nothing to warn about"
DIFFERENCES = {  # test, or one case of it
    "test_convergence_warning": SOLVED,
    "test_parameter_checking": "another sentence about beta_loss; nndsvd takes more components than min(n, m)",
    "test_nmf_true_reconstruction": OTHER_LOSSES,
    "test_nmf_multiplicative_update_sparse": OTHER_LOSSES,
    "test_nmf_negative_beta_loss": OTHER_LOSSES,
    "test_nmf_decreasing[mu]": OTHER_LOSSES,
    "test_nmf_minibatchnmf_equivalence": OTHER_LOSSES,
    "test_nmf_minibatchnmf_equivalence[2]": "components are scaled and sorted, and W is solved to optimality",
    "test_nmf_custom_init_dtype_error": "W and H of another precision are converted",
    "test_feature_names_out": "features are named after the class: enmf0, enmf1, ...",
    "test_nmf_n_components_auto": "looks at a private attribute",
}


def their_tests():
    """The tests of NMF; those of MiniBatchNMF and of private functions alone are left out."""
    try:
        spec = importlib.util.find_spec("sklearn.decomposition.tests.test_nmf")
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        pytest.skip("scikit-learn is installed without its tests", allow_module_level=True)
    module = importlib.util.module_from_spec(spec)
    ours = {"NMF": enmf.ENMF, "non_negative_factorization": enmf.non_negative_factorization}
    with mock.patch.multiple(sklearn.decomposition, **ours):
        spec.loader.exec_module(module)
    tests = {name: test for name, test in vars(module).items() if name.startswith("test_")}
    return {name: _without_minibatches(test) for name, test in tests.items() if _concerns_us(test)}


def _concerns_us(test):
    return re.search(r"(?<!Batch)NMF\(|Estimator\(|non_negative_factorization\(|nnmf\(", inspect.getsource(test))


def _without_minibatches(test):
    other = sklearn.decomposition.MiniBatchNMF
    for i, mark in enumerate(getattr(test, "pytestmark", [])):
        if mark.name == "parametrize":
            names, values = mark.args
            kept = [value for value in values if other not in (value if isinstance(value, list) else [value])]
            test.pytestmark[i] = pytest.mark.parametrize(names, kept).mark
    return test


globals().update(their_tests())


@pytest.fixture(autouse=True)
def _differences(request):
    name = request.node.name
    reason = DIFFERENCES.get(name) or DIFFERENCES.get(name.partition("[")[0])
    if reason is not None:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))


def test_every_difference_belongs_to_a_test():
    assert {name.partition("[")[0] for name in DIFFERENCES} <= set(globals())
