"""What needs no extra works without any; what needs one says which, and how to get it."""

import subprocess
import sys

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import FeatureUnion

import enmf
import problems
from enmf.distributed.chunked import ChunkedMatrix
from enmf.matrix.dense import DenseMatrix
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.numbers import check_memory_limit

SMALL = 1 << 16  # a memory limit far below the size of the test matrices
OTHERS = {"pandas", "rich", "typer", "matplotlib", "dask", "distributed"}
OTHERS |= {f"scipy.{part}" for part in ("optimize", "stats", "sparse.linalg")}
ROOMS = {f"enmf.{room}" for room in ("sklearn", "distributed.chunked", "report", "io", "datasets", "geometry", "cli")}
FITS = """if True:
    import builtins, sys
    wanted, find = set(), builtins.__import__
    def noted(name, globals=None, locals=None, parts=(), level=0):
        if globals and globals.get("__name__", "").startswith("enmf"):
            wanted.update([name, *(f"{name}.{part}" for part in parts or ())])
        return find(name, globals, locals, parts, level)
    builtins.__import__ = noted

    import numpy as np
    import scipy.sparse as sp
    import enmf
    rng = np.random.default_rng(0)
    X = rng.random((60, 3)) @ rng.random((3, 20)) + 0.1 * rng.random((60, 20))
    gaps = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    for Y in (X, sp.csr_array(X), X.astype(np.float32)):
        result = enmf.factorize(Y, 3, random_state=0)
    print(enmf.certify(X, result.U, result.V), enmf.complete(gaps, 3, random_state=0), file=sys.stderr)
    print(*sys.modules)
    enmf.ENMF(3, random_state=0).fit(X).transform(X)
    enmf.ENMC(3, random_state=0).fit(gaps).transform(gaps)
    print(*wanted)
"""


@pytest.fixture(autouse=True)
def _no_extras(monkeypatch):
    for name in ("dask", "dask.array", "matplotlib", "pyarrow", "anndata"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it fails
    monkeypatch.delitem(sys.modules, "distributed", raising=False)


def mapped(X, folder):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def joblib_mapped(X, folder):
    joblib.dump(X, folder / "x.joblib")
    return joblib.load(folder / "x.joblib", mmap_mode="r")


@pytest.mark.parametrize("make", [mapped, joblib_mapped])
@pytest.mark.parametrize("part", [np.s_[:], np.s_[5:30], np.s_[::2, 1:]], ids=["whole", "rows", "strides"])
def test_a_memory_map_that_fits_is_an_ordinary_array(make, part, tmp_path):
    X = problems.dense()
    M = make(X, tmp_path)[part]
    assert isinstance(check_problem(M).X, DenseMatrix)
    found, wanted = (enmf.factorize(Y, 2, random_state=0) for Y in (M, X[part].copy()))
    assert found.error == pytest.approx(wanted.error, rel=1e-9)
    assert enmf.ENMF(2, random_state=0).fit(M).transform(M).shape == (len(M), 2)


def in_parts(X, folder):
    for number, part in enumerate(np.array_split(X, 3)):
        sp.save_npz(folder / f"{number}.npz", sp.csr_array(part))
    return folder


@pytest.mark.parametrize("make", [mapped, in_parts, lambda X, folder: mapped(X, folder).filename])
def test_blocks_are_read_without_dask(make, tmp_path):
    X = problems.counts(900, 40)
    source = make(X, tmp_path)
    assert isinstance(check_problem(source, memory_limit=SMALL).X, ChunkedMatrix)
    found = enmf.factorize(source, 3, random_state=0, memory_limit=SMALL)
    assert isinstance(found.U, np.ndarray)
    assert found.error == pytest.approx(enmf.factorize(X, 3, random_state=0).error, rel=1e-6)


def test_work_of_joblib_on_more_than_a_megabyte():
    X = problems.dense(400, 400)  # which joblib sends as a memory map
    union = FeatureUnion([("two", enmf.ENMF(2, max_iter=5)), ("three", enmf.ENMF(3, max_iter=5))], n_jobs=2)
    assert union.fit_transform(X).shape == (400, 5)


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [
        (None, None),
        (1000, 1000),
        (2.5e9, 2_500_000_000),
        ("2GB", 2_000_000_000),
        ("2 gib", 2 << 30),
        ("1.5M", 1_500_000),
        ("1e3 kB", 1_000_000),
        ("64", 64),
        (".5Ki", 512),
    ],
)
def test_memory_limits_are_numbers_or_texts(limit, wanted):
    assert check_memory_limit(limit) == wanted


@pytest.mark.parametrize("limit", ["much", "GB", "2XB", "-2GB", "", "1e999GB", float("inf"), 0, -1, float("nan")])
def test_other_memory_limits_are_refused(limit):
    with pytest.raises(ValueError, match="memory_limit must be"):
        check_memory_limit(limit)


def test_a_memory_limit_changes_nothing_for_an_array_in_memory():
    X = problems.dense()
    assert isinstance(check_problem(X, memory_limit="2GB").X, DenseMatrix)


def test_a_text_that_is_no_file_is_called_by_its_name():
    with pytest.raises(ValueError, match="X is 'abc': there is no such file or folder"):
        enmf.factorize("abc", 2)


def test_what_needs_an_extra_names_an_install_that_works(tmp_path):
    with pytest.raises(ImportError, match=r'pip install "dask\[array\]"'):
        enmf.datasets.make_sparse((10, 10), 0.1)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        enmf.plot_components(enmf.factorize(problems.dense(), 2))
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(ImportError, match="pip install pyarrow"):
        enmf.factorize(tmp_path, 2)


def test_a_fit_imports_only_what_it_uses():
    """Dense, sparse, in single precision, with gaps. An estimator needs scikit-learn, which imports what it likes."""
    done = subprocess.run([sys.executable, "-c", FITS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded, wanted = (set(line.split()) for line in done.stdout.splitlines())
    assert sorted(loaded & {"sklearn", *OTHERS, *ROOMS}) == []
    assert sorted(wanted & {"sklearn.cluster", *OTHERS}) == []
    assert {"numpy", "sklearn.base"} <= wanted
