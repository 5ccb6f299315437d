"""What earlier versions have left behind: pickles of fitted models, and names of modules in users' code.

The streams here are those of today with the modules' names of the version before the rooms; real streams of that
version were read once by hand.
"""

import pickle
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

import enmf
from enmf._moved import MOVED, OPENED
from problems import low_rank_noisy

# Where the classes in pickles of fitted models and of results used to live.
HOMES_THEN = {
    "enmf.api.consensus": "enmf.consensus",
    "enmf.api.stability": "enmf.stability",
    "enmf.certificate.certificate": "enmf.optimality",
    "enmf.certificate.components": "enmf.components",
    "enmf.certificate.uniqueness": "enmf.uniqueness",
    "enmf.geometry.equivalence": "enmf.equivalence",
    "enmf.geometry.exact.relation": "enmf.exact.relation",
    "enmf.linalg.rotation": "enmf.exterior.rotation",
    "enmf.linalg.spectrum": "enmf.exterior.svd",
    "enmf.run.result": "enmf.result",
    "enmf.run.trace": "enmf.trace",
    "enmf.sklearn.nmc": "enmf.completion.estimator",
    "enmf.sklearn.nmf": "enmf.estimators",
}


def as_pickled_then(thing):
    """The stream of `thing` as the version before the rooms would have written it: protocol 2 has names as text."""
    stream = pickle.dumps(thing, protocol=2)
    for now, then in HOMES_THEN.items():
        stream = stream.replace(f"c{now}\n".encode(), f"c{then}\n".encode())
    left = [part.split(b"\n")[0] for part in stream.split(b"cenmf.")[1:]]
    assert {f"enmf.{name.decode()}" for name in left} <= set(HOMES_THEN.values()), "a class that is new in pickles"
    return stream


@pytest.fixture(scope="module")
def data():
    X = low_rank_noisy(30, 12, rank=2)
    missing = X.copy()
    missing[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    return X, missing


@pytest.fixture(scope="module")
def models(data):
    X, missing = data
    return enmf.ENMF(2, random_state=0).fit(X), enmf.ENMC(2, random_state=0).fit(missing)


@pytest.mark.parametrize("old", MOVED)
def test_a_module_under_its_old_name_is_the_one_of_today_and_keeps_its_name(old):
    """`from enmf.optimality import ...` goes on working, and gives the classes of today, not copies of them."""
    new = f"enmf.{MOVED[old]}"
    assert import_module(f"enmf.{old}") is import_module(new)
    module = import_module(new)
    assert (module.__name__, module.__spec__.name) == (new, new)


def test_old_names_are_found_again_when_nothing_has_been_imported_under_them():
    """In a process of its own: a name that some other test has imported would be found whatever the finder does."""
    code = "\n".join(f"import enmf.{old}" for old in (*MOVED, *OPENED))
    code += "\nimport sys; from enmf._moved import MOVED\n"
    code += "for old in MOVED: assert sys.modules['enmf.' + old] is sys.modules['enmf.' + MOVED[old]], old\n"
    code += "files = [m.__file__ for n, m in {id(m): (n, m) for n, m in sys.modules.items() if n.startswith('enmf')}"
    code += ".values() if getattr(m, '__file__', None)]\n"
    code += "assert len(files) == len(set(files)), 'a module has been executed twice'\n"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("package", OPENED)
def test_a_package_that_is_no_more_still_has_its_public_names(package):
    """`from enmf.completion import complete` is the function, not the module of that name."""
    found = import_module(f"enmf.{package}")
    for name in OPENED[package]:
        assert getattr(found, name) is getattr(enmf, name)


def test_functions_with_the_name_of_an_old_module_remain_functions():
    """`enmf.stability` and `enmf.consensus` were modules, too: importing these must not hide the functions."""
    for name in ("stability", "consensus"):
        import_module(f"enmf.{name}")
        assert callable(getattr(enmf, name))


def test_fitted_models_of_the_version_before_are_read_in_a_fresh_process(models, data, tmp_path):
    """Unpickling imports by old names alone; the models then transform and tell as they did."""
    X, missing = data
    answers = [model.transform(given) for model, given in zip(models, data)]
    (tmp_path / "models.pickle").write_bytes(as_pickled_then(models))
    np.savez(tmp_path / "data.npz", X, missing, *answers)
    code = """if True:
        import pickle, sys
        import numpy as np
        models = pickle.load(open("models.pickle", "rb"))
        X, missing, *answers = np.load("data.npz").values()
        for model, given, answer in zip(models, (X, missing), answers):
            np.testing.assert_allclose(model.transform(given), answer, rtol=1e-10, atol=1e-12)
            print(model.certificate_)
            assert type(model).__module__.startswith("enmf.sklearn."), type(model)
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(f"{model.certificate_}\n" for model in models)


def test_a_model_of_the_version_before_has_all_it_had(models, data):
    """Scores, certificate, trace, costs and components come out as they went in, and the model can be fitted anew."""
    for model, given in zip(models, data):
        read = pickle.loads(as_pickled_then(model))
        assert type(read) is type(model)
        assert read.score(given) == pytest.approx(model.score(given), rel=1e-10)
        assert read.phases_ == model.phases_
        assert repr(list(read.trace_)) == repr(list(model.trace_))  # nan where no KKT residual was measured
        assert type(read.trace_) is type(model.trace_)
        assert isinstance(read.certificate_, enmf.Certificate)
        assert str(read.certificate_) == str(model.certificate_)
        assert read.certificate_.to_dict() == model.certificate_.to_dict()
        assert str(read) == str(model)
        np.testing.assert_array_equal(read.components_, model.components_)
        read.fit(given)


def test_results_of_the_version_before_are_read(data):
    """A result had no plan then; what was found by several runs and comparisons has results and transforms in it."""
    X, _ = data
    result = enmf.factorize(X, 2, random_state=0)
    vars(result).pop("plan")
    read = pickle.loads(as_pickled_then(result))
    assert (str(read), read.plan) == (str(result), None)
    assert str(read.certificate) == str(result.certificate)
    assert read.spectrum.lower_bound(2) == result.spectrum.lower_bound(2)
    same = enmf.compare((result.U, result.V), (result.U, result.V))
    assert str(pickle.loads(as_pickled_then(same))) == str(same)
    many = enmf.stability(X, 2, n_runs=2)
    for one in many.results:
        vars(one).pop("plan")
    assert str(pickle.loads(as_pickled_then(many))) == str(many)
    agreed = enmf.consensus(X, 2, n_runs=2)
    assert str(pickle.loads(as_pickled_then(agreed))) == str(agreed)


def test_a_function_is_not_replaced_by_the_module_of_its_name():
    """`import enmf.exact.separability` must not make the function a module."""
    import enmf.exact.separability

    assert callable(enmf.exact.separability)
    assert sys.modules["enmf.exact.separability"] is sys.modules["enmf.geometry.exact.separability"]
