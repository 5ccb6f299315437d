"""X in row blocks gives what X in memory gives, wherever the blocks come from and whoever computes them."""

import gc
import itertools
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

import enmf
import problems
from enmf.datasets import make_sparse, make_synthetic
from enmf.distributed.chunked import ChunkedMatrix
from enmf.distributed.engine import Engine, no_workers_timeout
from enmf.distributed.rows import RowBlocks
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.factor import inner
from enmf.matrix.sparse import SparseMatrix
from enmf.matrix.sweeps import solve_nnls
from enmf.problem.validation.arrays import check_problem

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

SMALL = 1 << 17  # memory limit far below the size of the test matrices: nothing is kept, blocks are small


def in_chunks(X, count):
    """X as a Dask array; with more than one chunk, the last two are a one-row and an empty one."""
    n = X.shape[0]
    heights = [n] if count == 1 else [*np.diff(np.linspace(0, n - 1, count - 1).astype(int)).tolist(), 1, 0]
    edges = np.concatenate([[0], np.cumsum(heights)])
    parts = [
        da.from_delayed(dask.delayed(X[a:b]), (b - a, X.shape[1]), dtype=X.dtype) for a, b in itertools.pairwise(edges)
    ]
    return da.concatenate(parts) if count > 1 else parts[0]


@contextmanager
def in_process(workers, threads=1):
    """A cluster in this process: the ways of a real one, without the seconds its processes take to start."""
    how = {"processes": False, "n_workers": workers, "threads_per_worker": threads, "dashboard_address": None}
    with distributed.LocalCluster(**how) as local, distributed.Client(local) as client:
        yield client


def quiet(X, rank, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return enmf.factorize(X, rank, **{"random_state": 0, **options})


def one_end(status):
    """Without a tolerance, when the residual is measured decides which of two ends comes first."""
    return "converged" if status == "settled" else status


def assert_same(found, wanted):
    assert one_end(found.status) == one_end(wanted.status)
    assert found.error == pytest.approx(wanted.error, rel=1e-6)
    assert found.certificate.lower_bound == pytest.approx(wanted.certificate.lower_bound, rel=1e-6)
    descents = ("descent", "restart", "certificate")  # how many products are at hand at the end depends on storage
    before, after = ({name: p.passes for name, p in r.phases.items() if name not in descents} for r in (found, wanted))
    assert before == after
    if wanted.V.dtype == np.float64:  # in float32 rounding decides about the last iterations
        late = found.n_iter - wanted.n_iter  # it looks at the KKT residual at every tenth iteration at most
        assert -max(2, 0.1 * wanted.n_iter) <= late <= max(10, 0.1 * wanted.n_iter)


# The matrix itself ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("limit", [SMALL, None], ids=["read anew", "kept"])
@pytest.mark.parametrize("shape", [(3000, 20), (20, 3000)], ids=["tall", "wide"])
def test_answers_as_in_memory(store, limit, shape):
    X = problems.counts(*shape)
    matrix = check_problem(in_chunks(store(X), 5), memory_limit=limit).X
    assert isinstance(matrix, ChunkedMatrix)
    assert matrix.kept == (limit is None)
    rng = np.random.default_rng(1)
    U, V = (np.asfortranarray(rng.random((length, 4))) for length in shape)
    for product, wanted in ((matrix.times(V).gather(), X @ V), (matrix.transpose_times(U), X.T @ U)):
        np.testing.assert_allclose(product, wanted)
        assert product.flags.f_contiguous
    np.testing.assert_allclose(matrix.gram_times(V), X.T @ (X @ V))
    assert matrix.passes == 4
    assert matrix.squared_norm() == pytest.approx((X**2).sum())
    assert matrix.squared_residual(U, V) == pytest.approx(((X - U @ V.T) ** 2).sum())
    np.testing.assert_allclose(matrix.gram(), X.T @ X if shape[1] == 20 else X @ X.T)
    here = SparseMatrix(sp.csr_array(X)) if store is sp.csr_array else DenseMatrix(X)
    assert matrix.cost_per_column == here.cost_per_column
    few, wanted = (M.sample_rows(15, np.random.default_rng(2)).raw() for M in (matrix, here))
    assert type(few) is type(wanted)
    np.testing.assert_allclose(abs(few - wanted).max(), 0, atol=1e-12)


def test_blocks_put_together_from_small_and_from_column_chunks():
    X = problems.dense(300, 40)
    many = check_problem(da.from_array(X, chunks=(1, 40))).X
    assert len(many.blocks) < 10
    with pytest.warns(UserWarning, match="2 chunks along its columns"):
        cut = check_problem(da.from_array(X, chunks=(100, 20))).X
    V = np.ones((40, 1))
    for matrix in (many, cut):
        np.testing.assert_allclose(matrix.times(V).gather(), X @ V)


def test_unknown_chunk_sizes_are_found_out():
    X = problems.dense(200, 30)
    lazy = da.from_array(X, chunks=(50, 30))
    picked = lazy[lazy[:, 0] > 0.5]
    matrix = check_problem(picked).X
    assert matrix.shape == (int((X[:, 0] > 0.5).sum()), 30)


# The answer -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [1, 3, 17])
@pytest.mark.parametrize("name", ["digits", "synthetic", "sparse", "float32"])
def test_same_answer_as_in_memory(name, chunks):
    X, rank = {
        "digits": lambda: (load_digits().data, 10),
        "synthetic": lambda: (make_synthetic(300, 200, 60, 60, random_state=0), 5),
        "sparse": lambda: (sp.csr_array(problems.counts(400, 150, 0.05)), 4),
        "float32": lambda: (load_digits().data.astype(np.float32), 5),
    }[name]()
    limit = 1 << 19 if chunks == 17 else None  # keeps the chunks apart
    assert_same(quiet(in_chunks(X, chunks), rank, memory_limit=limit), quiet(X, rank))


@pytest.mark.parametrize(("name", "rank"), [("face", 10), ("newsgroups", 10)])
def test_same_answer_on_real_data(real_data, name, rank):
    X = real_data(name)
    # long enough that it does not matter which of them begins in single precision; with a tolerance, no outlook ends it
    options = {"max_iter": 50, "tol": 1e-9, "bound": False}
    assert_same(quiet(in_chunks(X, 17), rank, memory_limit="40MB", **options), quiet(X, rank, **options))


@pytest.mark.parametrize("method", ["hals", "mu", "mu-e", "anls-bpp", "fpgm"])  # fpgm brings U here, the others do not
def test_other_methods_take_blocks_too(method):
    X = problems.counts()
    found, wanted = (quiet(Y, 4, method=method, max_iter=50) for Y in (in_chunks(X, 3), X))
    assert_same(found, wanted)


def test_a_start_that_needs_all_of_X_says_so():
    with pytest.raises(TypeError, match="not in memory"):
        quiet(in_chunks(problems.dense(), 3), 4, init="kmeans")


def test_rank_of_the_whole():
    X = problems.dense(30, 6)
    result = quiet(in_chunks(X, 3), 6)
    assert result.status in ("exact", "global_optimum")
    assert isinstance(result.U, da.Array)
    np.testing.assert_allclose(result.U @ result.V.T, X, atol=1e-12)


def test_runs_at_the_same_time_share_the_blocks_and_nothing_else():
    X = problems.dense(200, 30)
    found, wanted = (enmf.stability(Y, 2, n_runs=3) for Y in (in_chunks(X, 3), X))
    np.testing.assert_allclose(found.errors, wanted.errors, rtol=1e-6)
    assert len(found.minima) == len(wanted.minima)
    matrix = check_problem(in_chunks(X, 3)).X
    other = matrix.counted()
    rows = other.times(np.ones((30, 1)))
    assert rows.home is other
    assert not matrix._values


def test_the_estimator_takes_blocks():
    X = load_digits().data
    lazy = in_chunks(X, 3)
    here, there = (enmf.ENMF(5, random_state=0).fit(Y) for Y in (X, lazy))
    np.testing.assert_allclose(there.components_, here.components_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(there.transform(lazy), here.transform(X), rtol=1e-6, atol=1e-9)
    assert there.score(lazy) == pytest.approx(here.score(X))


# Where blocks come from -----------------------------------------------------------------------------------------------


def mapped(X, folder, order="C"):
    path = folder / "x.npy"
    np.save(path, np.asarray(X, order=order))
    return np.load(path, mmap_mode="r")


def zarr_array(X, folder):
    zarr = pytest.importorskip("zarr")
    array = zarr.open(str(folder / "x.zarr"), mode="w", shape=X.shape, chunks=(37, X.shape[1]), dtype=X.dtype)
    array[:] = X
    return array


def hdf5(X, folder):
    h5py = pytest.importorskip("h5py")
    return h5py.File(folder / "x.h5", "w").create_dataset("inner/x", data=X, chunks=(50, X.shape[1]))


def parts(X, folder, kind):
    folder = folder / kind
    folder.mkdir()
    for i, piece in enumerate(np.array_split(X, 12)):
        path = folder / f"part-{i}.{kind.partition('-')[0]}"
        if kind == "parquet":
            pytest.importorskip("pyarrow")
            import pandas

            pandas.DataFrame(piece, columns=[f"c{j}" for j in range(X.shape[1])]).to_parquet(path)
        elif kind == "npz-sparse":
            sp.save_npz(path, sp.csr_matrix(piece))
        else:
            np.savez(path, piece)
    return folder


SOURCES = {
    "memory map": mapped,
    "Fortran memory map": lambda X, folder: mapped(X, folder, "F"),
    "rows of a memory map": lambda X, folder: mapped(np.vstack([X[:5] + 1, X]), folder)[5:],
    "npy file": lambda X, folder: str(mapped(X, folder).filename),
    "zarr": zarr_array,
    "hdf5": hdf5,
    "npz": lambda X, folder: parts(X, folder, "npz"),
    "sparse npz": lambda X, folder: str(parts(X, folder, "npz-sparse")),
    "parquet": lambda X, folder: parts(X, folder, "parquet"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_rows_in_order(name, tmp_path):
    X = problems.counts(1500, 40)
    matrix = check_problem(SOURCES[name](X, tmp_path), memory_limit=SMALL).X
    assert isinstance(matrix, ChunkedMatrix)
    assert len(matrix.blocks) > 1
    assert not matrix.kept
    np.testing.assert_array_equal(matrix.times(np.eye(40)).gather(), X)
    if name != "hdf5":  # its file is open for writing here
        again = pickle.loads(pickle.dumps(matrix.blocks))
        np.testing.assert_array_equal(np.vstack([_dense(block.load()) for block in again]), X)


def _dense(block):
    return block.toarray() if sp.issparse(block) else block


def test_hdf5_travels_as_a_name(tmp_path):
    h5py = pytest.importorskip("h5py")
    X = problems.counts(600, 40)
    hdf5(X, tmp_path).file.close()
    with h5py.File(tmp_path / "x.h5", "r") as file:
        blocks = check_problem(file["inner/x"], memory_limit=SMALL).X.blocks
        again = pickle.loads(pickle.dumps(blocks))
    np.testing.assert_array_equal(np.vstack([block.load() for block in again]), X)


def test_a_memory_map_without_a_limit_stays_a_plain_array(tmp_path):
    assert isinstance(check_problem(mapped(problems.dense(), tmp_path)).X, DenseMatrix)


@pytest.mark.parametrize(
    ("make", "message"),
    [(lambda folder: folder / "nothing", "there is no such file or folder"), (lambda folder: folder, "holds no npz")],
)
def test_names_that_lead_nowhere(make, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        check_problem(make(tmp_path))


def test_damaged_parts_are_called_by_their_name(tmp_path):
    path = tmp_path / "part-0.npz"
    S = sp.csr_array(np.eye(4))
    fields = {"indptr": S.indptr, "data": S.data, "format": np.array(b"csr"), "shape": np.array([4, 4])}
    np.savez(path, indices=np.array([0, 1, 2, -7], np.int32), **fields)
    with pytest.raises(ValueError, match=r"part-0.npz' of X cannot be read: .* the first is -7 at row 3"):
        check_problem(tmp_path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"part-0.npz' of X cannot be read: File is not a zip file"):
        check_problem(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_among_the_parts_is_refused_instead_of_waited_for(tmp_path):
    np.save(tmp_path / "0.npy", problems.dense())
    os.mkfifo(tmp_path / "1.npy")
    with pytest.raises(ValueError, match=r"'1.npy' in the folder .* is not a file"):
        check_problem(tmp_path)


# The door -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, r"NaN: 1 entries of block 1 \(rows 40 to 79\) are NaN, the first at row 53, column 7"),
        (np.inf, r"infinity: 1 entries of block 1 .* row 53, column 7"),
        (-3.0, r"1 negative entries, the smallest is -3, the first at row 53, column 7, in block 1 \(rows 40 to 79\)"),
    ],
)
def test_bad_entries_are_named_with_block_and_place(store, value, message):
    X = problems.dense(100, 400)
    X[53, 7] = value
    with pytest.raises(ValueError, match=message):
        check_problem(da.from_array(X, chunks=(40, 400)).map_blocks(store), memory_limit=SMALL)


def test_rounding_below_zero_is_clipped_and_units_do_not_matter():
    X = problems.dense(100, 20)
    X[3, 4] = -1e-17
    with pytest.warns(UserWarning, match="negative by rounding"):
        problem = check_problem(in_chunks(X, 3))
    assert problem.X.times(np.eye(20)).gather().min() == 0.0
    base = quiet(np.maximum(X, 0), 3)
    huge = quiet(in_chunks(np.maximum(X, 0) * 4.0**150, 3), 3)
    assert huge.error == pytest.approx(base.error * 4.0**150, rel=1e-9)
    assert (huge.status, huge.n_iter) == (base.status, base.n_iter)


def test_blocks_that_do_not_fit_together(tmp_path):
    for i, width in enumerate((4, 3)):
        np.save(tmp_path / f"{i}.npy", np.ones((5, width)))
    with pytest.raises(ValueError, match=r"block 1 \(rows 5 to 9\) of X has 3 columns, the blocks before it have 4"):
        check_problem(tmp_path)


def test_integers_and_bad_limits():
    assert check_problem(da.ones((50, 4), chunks=(10, 4), dtype=np.int16)).X.dtype == np.float64
    with pytest.raises(ValueError, match="memory_limit must be a number of bytes"):
        check_problem(problems.dense(), memory_limit="much")
    with pytest.raises(ValueError, match="0 sample"):
        check_problem(da.zeros((0, 4)))


def data_frame(folder):
    frame = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    return frame.from_pandas(pandas.DataFrame(problems.dense(10, 3)), npartitions=2)


def lazy_frame(folder):
    return pytest.importorskip("polars").LazyFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})


def ann_data(folder):
    return pytest.importorskip("anndata").AnnData(sp.csr_array(problems.dense(6, 4)))


def backed(folder):
    ann_data(folder).write_h5ad(folder / "x.h5ad")
    return pytest.importorskip("anndata").read_h5ad(folder / "x.h5ad", backed="r").X


def hdf5_file(folder):
    return hdf5(problems.dense(), folder).file


@pytest.mark.parametrize(
    ("make", "instead"),
    [
        (data_frame, r"X.to_dask_array\(lengths=True\)"),
        (lambda folder: dask.delayed(problems.dense()), "a Dask array"),
        (lazy_frame, r"X.collect\(\)"),
        (ann_data, "X.X or one of X.layers"),
        (backed, r"X.to_memory\(\)"),
        (hdf5_file, r"one of its arrays, X\[name\]"),
    ],
    ids=["Dask frame", "Dask task", "polars", "AnnData", "backed", "HDF5 file"],
)
@pytest.mark.parametrize("use", [lambda X: enmf.factorize(X, 2), lambda X: enmf.complete(X, 2), enmf.ENMF(2).fit])
def test_what_holds_a_matrix_but_is_none_is_refused_with_what_to_pass(make, instead, use, tmp_path):
    with pytest.raises(TypeError, match=f"not a matrix. Pass {instead}"):
        use(make(tmp_path))


def test_generated_matrix_is_lazy_and_always_the_same():
    X = make_sparse((1000, 300), 0.05, rank=5, chunks=300)
    assert X.numblocks == (4, 1)
    whole = sp.vstack([X.blocks[i].compute() for i in range(4)]).tocsr()
    assert whole.shape == (1000, 300)
    assert 0.03 < whole.nnz / 300_000 <= 0.05
    assert whole.min() >= 0
    assert abs(whole - X.compute()).max() == 0
    huge = make_sparse((10**8, 10**5), 1e-3)  # nothing is made before it is asked for
    assert huge.shape == (10**8, 10**5)
    assert_same(quiet(X, 5, max_iter=20), quiet(whole, 5, max_iter=20))


# Checkpoints ----------------------------------------------------------------------------------------------------------


def test_a_checkpoint_goes_on_and_refuses_another_problem(tmp_path):
    X = load_digits().data
    whole = quiet(X, 8, tol=1e-5, restarts=2)
    part = quiet(X, 8, tol=1e-5, restarts=2, max_iter=10, checkpoint=tmp_path)
    rest = quiet(in_chunks(X, 3), 8, tol=1e-5, restarts=2, checkpoint=tmp_path)
    assert (part.n_iter, rest.status) == (10, whole.status)
    assert rest.n_iter > 10
    assert rest.trace[0].phase == "descent"
    assert rest.error == pytest.approx(whole.error, rel=1e-6)  # of the same further starts, too
    assert {"restart"} <= whole.phases.keys() & rest.phases.keys()
    assert quiet(X, 8, checkpoint=tmp_path, max_iter=5).status in ("max_iter", "converged")
    for other, rank in ((X, 7), (X + 1, 8), (X[:-1], 8)):
        with pytest.raises(ValueError, match="belongs to another run"):
            quiet(other, rank, checkpoint=tmp_path)


RUN = """
    import sys, time, distributed, enmf, dask.array as da
    from sklearn.datasets import load_digits
    if sys.argv[2] == "client":
        client = distributed.Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None)
    X = da.from_array(load_digits().data, chunks=(500, 64))
    def slow(progress):
        print(progress.phase, progress.iteration, flush=True)
        time.sleep(0.02)
    options = dict(rotation="spread", tol=1e-5, restarts=2)  # this rotation begins far from the end
    enmf.factorize(X, 8, random_state=0, checkpoint=sys.argv[1], callback=slow, **options)
"""


@pytest.mark.parametrize("how", ["here", "client"])
def test_a_killed_run_goes_on_from_its_checkpoint(how, tmp_path):
    X = load_digits().data
    command = [sys.executable, "-c", textwrap.dedent(RUN), str(tmp_path), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            if line.startswith("descent 12"):
                run.send_signal(signal.SIGKILL)
                break
    assert (tmp_path / "factors.npz").exists()
    options = {"rotation": "spread", "tol": 1e-5, "restarts": 2}
    with in_process(2) if how == "client" else nullcontext():
        rest = quiet(in_chunks(X, 3), 8, checkpoint=tmp_path, **options)
    assert rest.trace[0].phase == "descent"
    assert rest.n_iter >= 10
    assert rest.error == pytest.approx(quiet(X, 8, **options).error, rel=1e-6)


def test_a_file_cut_short_while_saving_is_not_looked_at(tmp_path):
    X = load_digits().data
    quiet(X, 5, max_iter=5, checkpoint=tmp_path)
    (tmp_path / "factors.npz.1.part").write_bytes(b"half a file")
    assert one_end(quiet(X, 5, checkpoint=tmp_path).status) == "converged"


# Rows that live with the blocks --------------------------------------------------------------------------------------


def arrays_in(thing):
    """All arrays inside of what is sent or received."""
    if isinstance(thing, np.ndarray) or sp.issparse(thing):
        return [thing]
    if isinstance(thing, (list, tuple)):
        return [array for one in thing for array in arrays_in(one)]
    if hasattr(thing, "__dict__"):
        return arrays_in(list(vars(thing).values()))
    return []


@pytest.mark.parametrize("home", [nullcontext, lambda: in_process(2), lambda: in_process(10)], ids=["here", "2", "10"])
@pytest.mark.parametrize("X", [problems.counts(12000, 30), make_synthetic(12000, 40, 60, 60)], ids=["counts", "exact"])
def test_nothing_as_long_as_X_travels(X, home, monkeypatch):
    """Whatever a task takes along or sends back is far shorter than U and far smaller than X, from the first look to
    the certificate; U stays where it is in the result."""
    travelled = []
    run, look = Engine.run, Engine.look

    def spy_run(self, jobs, forget, total):
        found = run(self, jobs, forget, total)
        travelled.extend(array.shape for array in arrays_in([jobs, found]))
        return found

    def spy_look(self, function, blocks, preparation):
        found = look(self, function, blocks, preparation)
        travelled.extend(array.shape for array in arrays_in(found))
        return found

    monkeypatch.setattr("enmf.exterior.core.LARGEST", 4000)  # as if the factors were too large to be brought together
    monkeypatch.setattr(Engine, "run", spy_run)
    monkeypatch.setattr(Engine, "look", spy_look)
    monkeypatch.setattr(RowBlocks, "gather", lambda self: pytest.fail("rows were brought to the caller"))
    with home() as client:
        if client is None:
            monkeypatch.setattr(ChunkedMatrix, "public", lambda self, U: U)
        result = quiet(in_chunks(X, 12), 4, sample=True, max_iter=4, tol=0)
        assert result.U.shape == (12000, 4)
        assert not isinstance(result.U, np.ndarray)
    assert max(shape[0] for shape in travelled if shape) <= len(X) / 5  # rows of a sample
    assert max(np.prod(shape) for shape in travelled if shape) <= X.size / 4


def test_rows_behave_as_an_array():
    X = problems.counts(300, 20)
    matrix = check_problem(in_chunks(X, 3)).X
    rng = np.random.default_rng(0)
    A, B, small = rng.standard_normal((300, 3)), rng.standard_normal((300, 3)), rng.standard_normal((3, 3))
    a, b = matrix.own(A), matrix.own(B)
    c = a.copy()
    c += 2.0 * b
    np.maximum(c, 0, out=c)
    np.testing.assert_allclose(c.gather(), np.maximum(A + 2.0 * B, 0))
    np.testing.assert_allclose(a.gather(), A)
    np.testing.assert_allclose((a @ small).gather(), A @ small)
    np.testing.assert_allclose(a.T @ b, A.T @ B)
    np.testing.assert_allclose(a[:, [2, 0]].gather(), A[:, [2, 0]])
    assert inner(a, b) == pytest.approx((A * B).sum())
    assert (a.sum(), a.min()) == (pytest.approx(A.sum()), A.min())
    np.testing.assert_array_equal(a.max(axis=0), A.max(axis=0))
    U, s, Tt = a.svd()
    np.testing.assert_allclose(U.gather() * s @ Tt, A, atol=1e-12)
    np.testing.assert_allclose(U.T @ U, np.eye(3), atol=1e-12)
    with pytest.raises(TypeError, match="live with the blocks"):
        np.asarray(a)


# Workers --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 10}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit="1GB"
        ) as local,
        distributed.Client(local) as client,
    ):
        yield local, client


@pytest.mark.parametrize("asked_directly", [True, False])
def test_workers_give_the_same_answer_and_one_may_die(cluster, asked_directly, monkeypatch):
    _, client = cluster
    if not asked_directly:
        monkeypatch.setattr("enmf.distributed.engine.HANDS", 0)
    X = load_digits().data
    wanted = quiet(X, 8)
    found = quiet(in_chunks(X, 3), 8)
    assert_same(found, wanted)
    assert isinstance(found.U, da.Array)
    assert found.U.numblocks == (2, 1)  # both have a part
    before = found.U.compute()
    np.testing.assert_allclose(before, wanted.U, atol=1e-4)  # the path to a tolerance, after sums in another order

    killed = []

    def kill(progress):
        if progress.phase == "descent" and progress.iteration == 8 and not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    survived = quiet(in_chunks(X, 3), 8, callback=kill)
    assert killed
    assert_same(survived, wanted)
    np.testing.assert_allclose(survived.U.compute(), before, rtol=1e-9)  # the same steps again


@pytest.mark.parametrize(("workers", "threads"), [(10, 1), (1, 2)], ids=["more than are asked directly", "two threads"])
def test_many_workers_and_workers_with_threads(workers, threads):
    X = load_digits().data
    with in_process(workers, threads):
        found, wanted = (quiet(Y, 8, max_iter=3, tol=0, bound=False) for Y in (in_chunks(X, 17), X))
        assert found.U.numblocks == (workers, 1)
        assert found.error == pytest.approx(wanted.error, rel=1e-6)
        assert np.linalg.norm(X - found.U.compute() @ found.V.T) == pytest.approx(found.error)  # rows in order


def test_rows_are_forgotten_although_a_task_took_long(monkeypatch):
    """Without the help of the garbage collector."""
    monkeypatch.setattr("enmf.distributed.engine.HANDS", 0)
    monkeypatch.setattr("enmf.distributed.engine.PATIENCE", 1e-3)
    X = load_digits().data
    with in_process(2):
        matrix = check_problem(in_chunks(X, 3)).X
        V = np.random.default_rng(0).random((X.shape[1], 4))
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                rows = matrix.times(V)
                rows.T @ rows
            assert len(matrix._values) == 1
        finally:
            gc.enable()


def test_a_block_that_cannot_be_read_again_says_why(tmp_path):
    def second_time(block, place):
        seen = tmp_path / str(place)
        if seen.exists():
            raise OSError("the disk is gone")
        seen.touch()
        return block

    X = load_digits().data
    blocks = [
        da.from_delayed(dask.delayed(second_time)(X[a : a + 900], a), X[a : a + 900].shape, X.dtype) for a in (0, 900)
    ]
    with in_process(2), pytest.raises(OSError, match="the disk is gone"):
        quiet(da.concatenate(blocks), 3, max_iter=3, tol=0)


def test_losing_all_workers_is_one_error_that_keeps_the_factors(cluster):
    local, _ = cluster
    X = load_digits().data

    def leave(progress):
        if progress.phase == "descent" and progress.iteration == 8:
            local.scale(0)
            while local.scheduler.workers:
                time.sleep(0.05)

    with (
        dask.config.set({"enmf.no-workers-timeout": 0.5}),
        pytest.raises(enmf.WorkersLost, match="no Dask worker is left") as caught,
    ):
        quiet(in_chunks(X, 3), 8, callback=leave)
    lost = caught.value
    assert lost.U is None  # it was with the workers, and follows from V
    before = np.linalg.norm(X - solve_nnls(lost.V.T @ lost.V, X @ lost.V) @ lost.V.T)
    wanted = quiet(X, 8, restarts=0, tol=1e-6)
    assert wanted.error < before < 1.2 * wanted.error
    assert quiet(X, 8, init=(None, lost.V), tol=1e-6).error == pytest.approx(wanted.error, rel=1e-6)


@pytest.mark.parametrize("given", ["lazy", "persisted", "persisted in small chunks"])
def test_new_workers_take_over_when_all_were_lost_before_the_descent(given):
    """Their blocks have tasks that Dask's scheduler keeps for a worker that is gone, once there was none at all."""
    X = load_digits().data
    with in_process(2) as client, dask.config.set({"enmf.no-workers-timeout": "20s"}):

        def exchange(progress):
            if progress.phase == "feasibility" and progress.iteration == 1:
                for count in (0, 2):
                    client.cluster.scale(count)
                    while len(client.nthreads()) != count:
                        time.sleep(0.05)

        lazy = (
            in_chunks(X, 3) if given == "lazy" else da.from_array(X, (100 if "small" in given else 700, 64)).persist()
        )
        assert_same(quiet(lazy, 8, callback=exchange), quiet(X, 8))


@pytest.mark.parametrize("asked_directly", [True, False])
@pytest.mark.parametrize("phase", ["feasibility", "descent"])
def test_losing_the_scheduler_is_losing_the_workers(phase, asked_directly, monkeypatch):
    if not asked_directly:
        monkeypatch.setattr("enmf.distributed.engine.HANDS", 0)
    with dask.config.set({"enmf.no-workers-timeout": "500 ms"}), in_process(2) as client:

        def close(progress):
            if progress.phase == phase and progress.iteration == 2:
                client.cluster.close()

        with pytest.raises(enmf.WorkersLost) as caught:
            quiet(in_chunks(load_digits().data, 3), 8, callback=close)
    assert (caught.value.V is not None) == (phase == "descent")


def test_work_that_nobody_takes_up_is_no_reason_to_wait_forever():
    with in_process(1) as client, dask.config.set({"enmf.no-workers-timeout": 0.1}):
        engine = Engine()
        nobody = client.submit(int, workers=["tcp://127.0.0.1:1"])
        assert not engine._wait_for([nobody])


def test_a_timeout_that_is_none_is_called_by_its_name():
    with dask.config.set({"enmf.no-workers-timeout": "soon"}), pytest.raises(ValueError, match="no-workers-timeout"):
        no_workers_timeout()


def test_a_large_U_that_comes_to_the_caller_is_announced(monkeypatch):
    monkeypatch.setattr("enmf.run.walk.LARGE_U", 1000)
    X = in_chunks(problems.counts(300, 20), 3)
    with pytest.warns(UserWarning, match=r"brings U and X V \(300 x 3"):
        quiet(X, 3, init="random", max_iter=3, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet(X, 3, max_iter=3, tol=0)
