"""The command line end to end, as subprocesses: every format, every broken file, every exit code."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
from typer.testing import CliRunner

import enmf
from enmf.api.complete import DEFAULTS
from enmf.cli.commands import app
from enmf.io import results, tables
from enmf.run.stopping import Stopping

PARQUET = find_spec("pyarrow") is not None
ENTRY = [sys.executable, "-m", "enmf"]


def run(*arguments, cwd, stdin=None):
    return subprocess.run([*ENTRY, *map(str, arguments)], cwd=cwd, input=stdin, capture_output=True, text=True)


def within(*arguments, cwd, stdin=None):
    """As `run`, in this process: for the many inputs where a process of its own would show nothing more."""
    before = os.getcwd()
    os.chdir(cwd)
    try:
        done = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    finally:
        os.chdir(before)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def frame(n=30, m=8, rank=3):
    rng = np.random.default_rng(0)
    parts = (np.maximum(rng.random((length, rank)) - 0.3, 0) for length in (n, m))  # zeros: the bound is not met
    values = next(parts) @ next(parts).T + 0.05 * rng.random((n, m))
    return pd.DataFrame(values, index=[f"s{i}" for i in range(n)], columns=[f"f{j}" for j in range(m)])


def refused(done, *words):
    """Exit code 2, one line on standard error with these words, no traceback."""
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1, done.stderr
    for word in ("enmf: ", *words):
        assert word in done.stderr, done.stderr


# ---------------------------------------------------------------- formats, through the reader


def write_all(folder, table):
    """The same matrix in every format; name of the file -> whether it carries names."""
    values = table.to_numpy()
    table.to_csv(folder / "x.csv")
    table.to_csv(folder / "x.tsv", sep="\t")
    table.to_csv(folder / "semicolons.csv", sep=";", decimal=",")
    table.to_csv(folder / "zipped.csv.gz")
    table.to_csv(folder / "r.csv", index_label=False)  # R: the header has one name less
    np.savetxt(folder / "plain.csv", values, delimiter=",")
    np.save(folder / "x.npy", values)
    np.savez(folder / "x.npz", X=values, other=np.zeros((2, 2)))
    sp.save_npz(folder / "sparse.npz", sp.csr_array(values))
    scipy.io.mmwrite(folder / "x.mtx", sp.coo_array(values), precision=17)
    with gzip.open(folder / "x.mtx.gz", "wb") as file:
        file.write((folder / "x.mtx").read_bytes())
    named = ["x.csv", "x.tsv", "semicolons.csv", "zipped.csv.gz", "r.csv"]
    if PARQUET:
        table.to_parquet(folder / "x.parquet")
        named.append("x.parquet")
    return {
        **dict.fromkeys(named, True),
        **dict.fromkeys(["plain.csv", "x.npy", "x.npz", "sparse.npz", "x.mtx", "x.mtx.gz"], False),
    }


def test_every_format_gives_the_same_matrix_and_its_names(tmp_path):
    wanted = frame()
    for name, named in write_all(tmp_path, wanted).items():
        found = tables.read(str(tmp_path / name))
        assert sp.issparse(found.values) == (name in ("sparse.npz", "x.mtx", "x.mtx.gz")), name
        dense = found.values.toarray() if sp.issparse(found.values) else found.values
        np.testing.assert_allclose(dense, wanted.to_numpy(), rtol=1e-12, err_msg=name)
        assert found.rows == (list(wanted.index) if named else None), name
        assert found.columns == (list(wanted.columns) if named else None), name


def test_h5ad(tmp_path):
    anndata = pytest.importorskip("anndata")
    wanted = frame()
    anndata.AnnData(sp.csr_matrix(wanted.to_numpy()), obs=wanted[[]], var=wanted.T[[]]).write_h5ad(tmp_path / "x.h5ad")
    found = tables.read(str(tmp_path / "x.h5ad"))
    assert sp.issparse(found.values)
    assert within("factorize", "x.h5ad", "--rank", 2, cwd=tmp_path).returncode == 0
    assert (found.rows, found.columns) == (list(wanted.index), list(wanted.columns))
    both = anndata.AnnData(wanted.to_numpy(), layers={"counts": np.ones(wanted.shape)})
    both.write_h5ad(tmp_path / "layers.h5ad")
    assert tables.read(str(tmp_path / "layers.h5ad"), layer="counts").values.max() == 1.0
    with pytest.raises(tables.InputProblem, match=r"no layer 'raw'.*the file has: counts"):
        tables.read(str(tmp_path / "layers.h5ad"), layer="raw")


def test_factorize_from_every_format(tmp_path):
    table = frame()
    expected = enmf.factorize(table.to_numpy(), 3, random_state=0)
    for name in write_all(tmp_path, table):
        call = run if name == "x.mtx.gz" else within
        done = call("factorize", name, "--rank", 3, "--out", "f.npz", "--force", cwd=tmp_path)
        assert done.returncode == 0, (name, done.stderr)
        assert done.stderr == ""  # quiet where nobody looks
        assert f"status: {expected.status}" in done.stdout
        assert "written: f.npz" in done.stdout
        with np.load(tmp_path / "f.npz") as held:
            np.testing.assert_allclose(held["U"] @ held["V"].T, expected.U @ expected.V.T, rtol=1e-5, err_msg=name)


# ---------------------------------------------------------------- the commands


def test_everything_that_a_run_writes(tmp_path):
    table = frame()
    done = run(
        *("factorize", "-", "--rank", 2, "--out", "f", "--tables", "csv"),
        *("--certificate", "c.json", "--trace", "t.json", "--seed", 5, "--report", "r.html"),
        cwd=tmp_path,
        stdin=table.to_csv(),
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "r.html").read_text()
    assert "f7" in page  # names of the input
    assert "enmf factorize - --rank 2" in page  # the command to repeat it
    labelled = pd.read_csv(tmp_path / "f.V.csv", index_col=0)
    assert list(labelled.index) == list(table.columns)
    result, rows, columns = results.load_result(str(tmp_path / "f.npz"))
    np.testing.assert_allclose(labelled.to_numpy(), result.V)
    assert (rows, columns) == (list(table.index), list(table.columns))
    certificate = json.loads((tmp_path / "c.json").read_text())
    assert certificate["error"] == pytest.approx(np.linalg.norm(table - result.U @ result.V.T))
    assert certificate["settings"]["random_state"] == 5
    assert certificate["command"].startswith("enmf factorize - --rank 2")
    trace = json.loads((tmp_path / "t.json").read_text())
    assert trace[-1].keys() == {"iteration", "phase", "seconds", "error", "kkt", "passes"}
    assert [row.error for row in result.trace] == [row["error"] for row in trace]


def test_certify_and_compare_factors_of_others(tmp_path):
    table = frame()
    table.to_csv(tmp_path / "x.csv")
    first = enmf.factorize(table.to_numpy(), 3, random_state=0)
    np.savez(tmp_path / "a.npz", U=first.U, V=first.V)
    np.savez(tmp_path / "b.npz", W=first.U[:, ::-1] * 2, H=first.V[:, ::-1].T / 2)
    done = run("certify", "x.csv", "b.npz", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["error"] == pytest.approx(first.error)
    done = run("compare", "a.npz", "b.npz", "--data", "x.csv", "--json", cwd=tmp_path)
    assert [pair["verdict"] for pair in json.loads(done.stdout)] == ["E"]


def test_other_losses_are_named_or_numbered_and_reported_in_their_own_terms(tmp_path):
    counts = pd.DataFrame(np.random.default_rng(0).poisson(20 * frame(), frame().shape), columns=frame().columns)
    counts.to_csv(tmp_path / "x.csv", index=False)
    named = within("factorize", "x.csv", "--rank", 2, "--loss", "kullback-leibler", "--out", "a.npz", cwd=tmp_path)
    assert named.returncode == 0, named.stderr
    result = enmf.factorize(counts.to_numpy(float), 2, loss=1, random_state=0)
    assert f"loss (kullback-leibler)    {result.loss:.8g}" in named.stdout
    assert f"explained                  {100 * result.certificate.explained:.4g} %" in named.stdout
    assert "||X||" not in named.stdout
    assert "SVD" not in named.stdout
    more = ["--certificate", "c.json", "--out", "b.npz"]
    assert within("factorize", "x.csv", "--rank", 2, "--loss", 0.5, *more, cwd=tmp_path).returncode == 0
    said = json.loads((tmp_path / "c.json").read_text())
    assert (said["loss_name"], said["block_gap"], said["settings"]["loss"]) == ("beta=0.5", [None, None], "beta=0.5")
    # the file knows its loss
    for more, loss in (([], "beta=0.5"), (["--loss", 1], "kullback-leibler")):
        found = json.loads(within("certify", "x.csv", "b.npz", *more, "--json", cwd=tmp_path).stdout)
        assert found["loss_name"] == loss
        assert found["stationary"] == (not more)
    assert "share of ||X||²" not in within("certify", "x.csv", "b.npz", cwd=tmp_path).stdout
    pair = json.loads(within("compare", "a.npz", "b.npz", "--data", "x.csv", "--json", cwd=tmp_path).stdout)[0]
    assert pair["error_a"] == pytest.approx(result.error)
    assert pair["error_b"] > pair["error_a"]
    done = within("complete", "x.csv", "--rank", 2, "--loss", 1, "--out", "d.npz", cwd=tmp_path)
    assert f"loss (kullback-leibler)    {result.loss:.4g}"[:31] in done.stdout
    ranks = json.loads(within("rank", "x.csv", "--ranks", "1:3", "--loss", 1, "--json", cwd=tmp_path).stdout)
    assert ranks["loss_name"] == "kullback-leibler"
    assert ranks["table"][1]["loss"] == pytest.approx(result.loss, rel=1e-2)
    refused(within("factorize", "x.csv", "--rank", 2, "--loss", 3, cwd=tmp_path), "loss=3.0", "0 <= beta <= 2")
    refused(within("factorize", "x.csv", "--rank", 2, "--loss", "kl", cwd=tmp_path), "'kl'", "'kullback-leibler'")


def test_complete_a_table_with_gaps_and_a_list_of_triplets(tmp_path):
    table = frame(40, 12, 2)
    gaps = np.random.default_rng(1).random(table.shape) < 0.2
    table.mask(gaps).to_csv(tmp_path / "gaps.csv")
    rows, columns = np.nonzero(~gaps)
    listed = pd.DataFrame({"who": table.index[rows], "what": table.columns[columns], "value": table.to_numpy()[~gaps]})
    listed.to_csv(tmp_path / "list.csv", index=False)
    estimates = []
    for name, more in (("gaps.csv", []), ("list.csv", ["--triplets"])):
        done = run("complete", name, *more, "--rank", 2, "--predict", "p.csv", "--force", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1].endswith(", p.csv")  # written: the estimates too
        found = pd.read_csv(tmp_path / "p.csv").set_index(["row", "column"])["estimate"]
        assert len(found) == gaps.sum()
        truth = np.array([table.loc[place] for place in found.index])
        assert np.sqrt(np.mean((found - truth) ** 2)) < 0.2 * table.to_numpy().mean()
        estimates.append(found)
    np.testing.assert_allclose(*(found.sort_index() for found in estimates), rtol=0.05, atol=0.01)


def test_help_info_and_bench(tmp_path):
    done = run("factorize", "--help", cwd=tmp_path)
    assert "Examples" in done.stdout
    assert "enmf factorize spectra.csv --rank 10\n" in done.stdout  # lines of examples are not run together
    assert within("--version", cwd=tmp_path).stdout == f"enmf {enmf.__version__}\n"
    for command in ("", "factorize", "complete", "certify", "rank", "compare", "bench", "demo", "info"):
        done = within(*filter(None, [command]), "--help", cwd=tmp_path) if command != "bench" else done
        assert done.returncode == 0, done
        assert max(map(len, done.stdout.splitlines())) <= 80
        assert "..." not in done.stdout.replace("csv|npy|...", "").replace("[ARGS]...", "").replace("{FACTORS}...", "")
        assert "<int" not in done.stdout
        assert "<float" not in done.stdout
    assert "Usage: enmf bench" in run("bench", "--help", cwd=tmp_path).stdout
    facts = json.loads(run("info", "--json", cwd=tmp_path).stdout)
    assert facts["methods"] == enmf.methods()
    assert facts["factorize defaults"][1:] == [f"--tol {Stopping().tol}", f"--max-iter {Stopping().max_iter}"]
    assert facts["complete defaults"][1:] == [f"--tol {DEFAULTS.tol}", f"--max-iter {DEFAULTS.max_iter}"]
    done = run("bench", "show", "nothing.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_rank_in_the_shell(tmp_path):
    pytest.importorskip("matplotlib")
    frame(60, 20, 3).to_csv(tmp_path / "x.csv")
    where = ["--out", "ranks.csv", "--plot", "ranks.png", "--checkpoint", "done.npz"]
    done = run("rank", "x.csv", "--ranks", "2:5", *where, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    table = pd.read_csv(tmp_path / "ranks.csv", index_col="rank")
    assert table.index.tolist() == [2, 3, 4, 5]
    assert (table["bound"] <= table["error"]).all()
    assert (tmp_path / "ranks.png").read_bytes()[:4] == b"\x89PNG"
    assert "written: ranks.csv, ranks.png" in done.stdout
    # resumed: finished ranks keep their seconds to the last digit
    done = within("rank", "x.csv", "--ranks", "2:6", "--checkpoint", "done.npz", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert [row["rank"] for row in found["table"]] == [2, 3, 4, 5, 6]
    np.testing.assert_allclose([row["seconds"] for row in found["table"][:4]], table["seconds"])
    assert f"Rank {found['rank']}" in within("rank", "x.csv", "--ranks", "2,3,4,5,6", cwd=tmp_path).stdout
    assert within("rank", "x.csv", "--ranks", "2:3", "--out", "r.json", "-q", cwd=tmp_path).stdout == ""
    assert json.loads((tmp_path / "r.json").read_text())["complete"]
    refused(within("rank", "x.csv", "--ranks", "many", cwd=tmp_path), "--ranks", "'many'", "2:20")
    refused(within("rank", "x.csv", "--ranks", "2:30", cwd=tmp_path), "x.csv", "min(n, m) = 20")
    refused(within("rank", "x.csv", "--out", "x.txt", cwd=tmp_path), "x.txt", "neither csv nor json")
    refused(within("rank", "x.csv", "--ranks", "2:4", "--seed", 1, "--checkpoint", "done.npz", cwd=tmp_path), "seed")


def test_demo_prints_the_path_of_its_report(tmp_path):
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    last = done.stdout.strip().splitlines()[-1]
    assert last == f"Report: {(tmp_path / 'digits.html').resolve()}"
    assert (tmp_path / "digits.html").stat().st_size < 5_000_000


# ---------------------------------------------------------------- what goes wrong


def test_not_converged_is_3_and_writes(tmp_path):
    np.save(tmp_path / "x.npy", frame().to_numpy())
    done = run("factorize", "x.npy", "-r", 3, "--max-iter", 1, "--method", "hals", "--init", "random", cwd=tmp_path)
    assert done.returncode == 3
    assert "status: max_iter" in done.stdout
    assert "Traceback" not in done.stderr
    assert (tmp_path / "x.factors.npz").exists()


def endless(folder, seconds, number, ignored=False):
    """A run that would take hours, and gets a signal; `ignored`: started in the background of a shell."""
    np.save(folder / "x.npy", np.random.default_rng(0).random((2000, 500)))
    command = [sys.executable, "-m", "enmf", "factorize", "x.npy", "-r", "40", "--tol", "0", "--max-iter", "1000000"]
    handler = signal.SIG_IGN if ignored else signal.SIG_DFL
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, handler),
    )
    time.sleep(seconds)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    return process.returncode, out, err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_termination_write_what_was_reached(number, code, tmp_path):
    found, out, err = endless(tmp_path, 8, number, ignored=number == signal.SIGTERM)
    assert found == code, err
    assert "status: interrupted" in out
    assert np.load(tmp_path / "x.factors.npz")["U"].shape == (2000, 40)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("seconds", [0.5, 0.8])
def test_a_command_that_is_still_starting_ends_without_a_traceback(seconds, number, code, tmp_path):
    """How far it has come by then is up to the machine; what it has written, it says."""
    found, out, err = endless(tmp_path, seconds, number)
    assert found in (code, -number), err  # a shell calls them the same; Python itself may still have been starting
    assert (tmp_path / "x.factors.npz").exists() == ("written: x.factors.npz" in out)


def broken_files(folder):
    table = frame()
    text = table.to_csv().splitlines(keepends=True)
    np.savez(folder / "whole.npz", X=np.random.default_rng(0).random((300, 300)))
    (folder / "cut.npz").write_bytes((folder / "whole.npz").read_bytes()[:5000])
    (folder / "short.csv").write_text("".join(text[:5]) + "s9,1,2\n" + "".join(text[6:]))
    (folder / "long.csv").write_text("".join(text[:5]) + text[5].strip() + ",7,8\n" + "".join(text[6:]))
    for name, value in (("text", "many"), ("nan", np.nan), ("negative", -2.5), ("infinite", np.inf)):
        bad = table.astype(object)
        bad.loc["s4", "f2"] = value
        bad.to_csv(folder / f"{name}.csv")
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text(text[0])
    (folder / "folder.csv").mkdir()
    (folder / "latin.csv").write_bytes("naïve,b\n1,2\n".encode("latin-1"))
    (folder / "x.xlsx").write_bytes(b"PK")
    (folder / "wrong.npy").write_bytes(b"this is not an array")
    np.save(folder / "objects.npy", np.array([[1, None]]), allow_pickle=True)
    np.save(folder / "negative.npy", np.ones((5, 10)))
    held = (folder / "negative.npy").read_bytes()
    (folder / "negative.npy").write_bytes(held.replace(b"(5, 10), ", b"(-5, 10),"))
    (folder / "huge.mtx").write_text(
        "%%MatrixMarket matrix coordinate real general\n1000000000 1000000000 2\n1 1 1.0\n5 5 2.0\n"
    )
    if PARQUET:
        table.to_parquet(folder / "whole.parquet")
        (folder / "cut.parquet").write_bytes((folder / "whole.parquet").read_bytes()[:-200])
    (folder / "cut.csv.gz").write_bytes(gzip.compress(table.to_csv().encode())[:-100])
    (folder / "wrong.mtx").write_text("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 1.0\n")


BROKEN = {
    "cut.npz": ("damaged", "again"),
    "short.csv": ("line 6 has 3 fields", "same number"),
    "long.csv": ("line 6", "same number"),
    "text.csv": ("data row 5", "'f2'", "'many'", "not a number"),
    "nan.csv": ("row 5 ('s4'), column 3 ('f2')", "missing", "enmf complete"),
    "negative.csv": ("row 5 ('s4'), column 3 ('f2')", "negative", ">= 0"),
    "infinite.csv": ("row 5 ('s4'), column 3 ('f2')", "infinite"),
    "empty.csv": ("empty",),
    "header.csv": ("no data",),
    "missing.csv": ("no such file",),
    "folder.csv": ("folder",),
    "latin.csv": ("UTF-8", "--encoding latin-1"),
    "negative.npy": ("cannot be read",),
    "objects.npy": ("cannot be read", "dtype. Check"),
    "huge.mtx": ("1000000000 rows", "memory"),
    "x.xlsx": ("unknown file extension '.xlsx'", ".csv"),
    **({"cut.parquet": ("cannot be read", "extension")} if PARQUET else {}),
    "cut.csv.gz": ("damaged", "again"),
    "wrong.npy": ("cannot be read",),
    "wrong.mtx": ("cannot be read",),
}


def test_broken_files_are_refused_in_one_line(tmp_path):
    broken_files(tmp_path)
    for name, words in BROKEN.items():
        call = run if name in ("cut.npz", "nan.csv") else within
        refused(call("factorize", name, "--rank", 2, cwd=tmp_path), name, *words)
        refused(within("rank", name, cwd=tmp_path), name, *words)
    np.savez(tmp_path / "factors.npz", U=np.ones((30, 2)), V=np.ones((8, 2)))
    for name in ("text.csv", "negative.csv", "cut.npz", "missing.csv"):
        refused(within("complete", name, "--rank", 2, cwd=tmp_path), name, *BROKEN[name][:-1])
        refused(within("certify", name, "factors.npz", cwd=tmp_path), name)
    refused(within("compare", "cut.npz", "whole.npz", cwd=tmp_path), "cut.npz", "damaged")
    refused(within("factorize", "-", "--rank", 2, cwd=tmp_path, stdin=""), "standard input", "empty")
    refused(within("factorize", "-", "--rank", 2, cwd=tmp_path, stdin="a,b\n1,x\n2,3\n"), "standard input", "'x'")
    assert not list(tmp_path.glob("*.factors.npz"))


def test_unreadable_file(tmp_path, monkeypatch):
    place = tmp_path / "x.csv"
    frame().to_csv(place)
    place.chmod(0)
    if os.access(place, os.R_OK):  # root may read every file: act as if not
        monkeypatch.setattr(tables.os, "access", lambda path, mode: mode != os.R_OK)
        done = within("factorize", "x.csv", "-r", 2, cwd=tmp_path)
    else:
        done = run("factorize", "x.csv", "-r", 2, cwd=tmp_path)
    refused(done, "x.csv", "no permission to read")


def test_bad_options_are_refused_before_the_work(tmp_path):
    frame().to_csv(tmp_path / "x.csv")
    refused(within("factorize", "x.csv", "-r", 2, "--out", "no/where.npz", cwd=tmp_path), "no/where.npz", "no folder")
    refused(within("factorize", "x.csv", "-r", 2, "--method", "magic", cwd=tmp_path), "x.csv", "'magic' is not known")
    assert not list(tmp_path.glob("*.npz"))
    done = within("factorize", "x.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "--rank" in done.stderr


def test_bad_triplets_and_names(tmp_path):
    (tmp_path / "twice.csv").write_text("u,i,r\na,x,1\nb,y,2\na,x,3\n")
    (tmp_path / "words.csv").write_text("u,i,r\na,x,1\nb,y,good\n")
    (tmp_path / "names.txt").write_text("one\ntwo\n")
    for name, words in (
        ("twice.csv", ("data row 3 has the same row and column", "one value")),
        ("words.csv", ("data row 2", "number")),
    ):
        with pytest.raises(tables.InputProblem) as problem:
            tables.read(str(tmp_path / name), triplets=True)
        assert all(word in str(problem.value) for word in (name, *words)), problem.value
    np.save(tmp_path / "x.npy", np.ones((2, 3)))
    with pytest.raises(tables.InputProblem, match="2 names for the 3 columns"):
        tables.read(str(tmp_path / "x.npy"), column_names=str(tmp_path / "names.txt"))


def test_help_needs_nothing_that_computes(tmp_path):
    code = "import sys; sys.argv[1:] = ['factorize', '--help']; from enmf.__main__ import main\ntry: main()\n"
    code += "finally: print(sorted({'numpy', 'scipy', 'pandas', 'sklearn'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "[]", done


def test_public_names_are_what_they_are_whatever_was_imported_first(tmp_path):
    code = "from enmf.rank import select_rank; import enmf.api.stability, enmf.api.consensus\n"
    code += "from enmf import *; import enmf\n"
    code += "print([n for n in enmf.__all__ if n not in dir(enmf) or globals()[n] is not getattr(enmf, n)])\n"
    code += "print(callable(enmf.stability), callable(enmf.consensus), enmf.exact.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "[]\nTrue True enmf.geometry.exact\n", done.stderr
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        enmf.nothing  # noqa: B018


# ---------------------------------------------------------------- what is written, and what is not


def everything(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_outputs_are_replaced_with_force_only(tmp_path):
    frame().to_csv(tmp_path / "x.csv")
    what = ("--tables", "csv", "--certificate", "c.json", "--trace", "t.json", "--report", "r.html")
    assert within("factorize", "x.csv", "-r", 2, *what, cwd=tmp_path).returncode == 0
    before = everything(tmp_path)
    for path in ("x.factors.npz", "x.factors.V.csv", "c.json", "t.json", "r.html"):
        for other in set(before) - {path, "x.csv"}:
            (tmp_path / other).unlink()
        refused(within("factorize", "x.csv", "-r", 3, *what, cwd=tmp_path), path, "exists", "--force")
        assert everything(tmp_path) == {name: before[name] for name in (path, "x.csv")}
        for other, content in before.items():
            (tmp_path / other).write_bytes(content)
    assert within("factorize", "x.csv", "-r", 3, *what, "--force", cwd=tmp_path).returncode == 0
    assert all(content != before[name] for name, content in everything(tmp_path).items() if name != "x.csv")


def test_inputs_are_never_replaced(tmp_path):
    frame().to_csv(tmp_path / "x.csv")
    np.savez(tmp_path / "x.npz", frame().to_numpy())
    (tmp_path / "names.txt").write_text("\n".join(frame().columns))
    os.link(tmp_path / "x.csv", tmp_path / "hard.html")
    os.symlink(tmp_path / "x.csv", tmp_path / "soft.html")
    (tmp_path / "parts").mkdir()
    np.save(tmp_path / "parts" / "0.npy", frame().to_numpy())
    before = everything(tmp_path)
    for arguments in (
        ("factorize", "x.csv", "-r", 2, "--report", "x.csv"),
        ("factorize", "x.csv", "-r", 2, "--report", "hard.html"),
        ("factorize", "x.csv", "-r", 2, "--trace", "soft.html"),
        ("factorize", "x.npz", "-r", 2, "--out", "x.npz"),
        ("factorize", "x.npz", "-r", 2, "--out", "x"),
        ("factorize", "x.npz", "-r", 2, "--column-names", "names.txt", "--certificate", "names.txt"),
        ("factorize", "parts", "-r", 2, "--out", "parts/1"),
        ("factorize", "parts", "-r", 2, "--checkpoint", "parts"),
        ("complete", "x.csv", "-r", 2, "--predict", "./x.csv"),
        ("rank", "x.csv", "--out", "x.csv"),
        ("rank", "x.npz", "--checkpoint", "x.npz"),
        ("compare", "x.npz", "x.npz", "--report", "x.npz"),
    ):
        more = () if "--checkpoint" in arguments and "rank" not in arguments else ("--force",)
        done = within(*arguments, *more, cwd=tmp_path)
        refused(done, "another")
        assert everything(tmp_path) == before, arguments
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == ["0.npy"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--out", "x.parquet"), ("x.parquet", "npz")),
        (("--out", "a", "--report", "a.npz"), ("a.npz", "two outputs")),
        (("--image-shape", "2x4"), ("--image-shape", "--report")),
        (("--report", "r.html", "--image-shape", "3x3"), ("3x3", "9 pixels", "8 columns")),
        (("--tables", "excel"), ("--tables", "'excel'")),
        (("--trace", "x" * 300), ("cannot be written",)),
    ],
)
def test_what_would_fail_after_the_work_is_told_before_it(arguments, words, tmp_path):
    frame().to_csv(tmp_path / "x.csv")
    refused(within("factorize", "x.csv", "-r", 2, *arguments, cwd=tmp_path), *words)
    assert sorted(everything(tmp_path)) == ["x.csv"]


def test_missing_packages_are_told_before_the_work(tmp_path, monkeypatch):
    frame().to_csv(tmp_path / "x.csv")
    for package in ("pyarrow", "matplotlib"):
        monkeypatch.setitem(sys.modules, package, None)
    refused(within("factorize", "x.csv", "-r", 2, "--tables", "parquet", cwd=tmp_path), "pip install pyarrow")
    refused(within("rank", "x.csv", "--plot", "p.png", cwd=tmp_path), "matplotlib")
    assert sorted(everything(tmp_path)) == ["x.csv"]


def test_a_full_disk_names_the_file_and_leaves_what_was_there(tmp_path, monkeypatch):
    frame().to_csv(tmp_path / "x.csv")
    (tmp_path / "r.html").write_text("before")

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("enmf.report.page.Path.write_text", full)
    done = within("factorize", "x.csv", "-r", 2, "--report", "r.html", "--force", cwd=tmp_path)
    refused(done, "r.html", "No space left on device")
    assert (tmp_path / "r.html").read_text() == "before"
    assert sorted(everything(tmp_path)) == ["r.html", "x.csv", "x.factors.npz"]


def test_devices_are_written_to_and_links_followed(tmp_path):
    frame().to_csv(tmp_path / "x.csv")
    os.symlink("target.html", tmp_path / "link.html")
    done = within("factorize", "x.csv", "-r", 2, "--out", "/dev/null", "--report", "link.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not os.path.isfile("/dev/null")
    assert (tmp_path / "link.html").is_symlink()
    assert "<html" in (tmp_path / "target.html").read_text()


# ---------------------------------------------------------------- what is printed


def test_what_was_read_is_said(tmp_path):
    spectra = frame(20, 12).set_axis(range(400, 520, 10), axis=1)
    spectra.to_csv(tmp_path / "x.csv")
    said = [
        "read: x.csv, 20 rows x 12 columns",
        "header: line 1 (400, 410, 420, ..., 510)",
        "row names: column 1 (s0, s1, s2, ..., s19)",
    ]
    done = within("factorize", "x.csv", "-r", 2, "--report", "r.html", cwd=tmp_path)
    assert done.stdout.splitlines()[:3] == said
    assert results.load_result(str(tmp_path / "x.factors.npz"))[0].U.shape == (20, 2)
    assert within("certify", "x.csv", "x.factors.npz", cwd=tmp_path).stdout.splitlines()[:3] == said
    assert within("certify", "x.csv", "x.factors.npz", "--json", cwd=tmp_path).stdout.startswith("{")
    assert within("factorize", "x.csv", "-r", 2, "-q", "--force", cwd=tmp_path).stdout == ""
    done = within("factorize", "x.csv", "-r", 2, "--no-header", "--drop", "2", "--out", "all", cwd=tmp_path)
    assert "21 rows x 11 columns" in done.stdout


def test_names_cannot_control_the_terminal(tmp_path):
    evil = "\x1b]0;title\x07\x1b[31m"
    table = frame().rename(columns={"f2": f"f2{evil}"}, index={"s4": f"s4{evil}"})
    table.to_csv(tmp_path / "good.csv")
    table.iloc[4, 2] = -1.0
    table.to_csv(tmp_path / "bad.csv")
    done = within("factorize", "good.csv", "-r", 2, "--out", f"out{evil}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    done = within("factorize", "bad.csv", "-r", 2, cwd=tmp_path)
    refused(done, "row 5", r"f2\x1b]0;title")
    assert "\x1b" not in done.stderr


def test_factors_saved_before_the_format_had_versions_are_read(tmp_path):
    X = frame().to_numpy()
    made = enmf.factorize(X, 2, random_state=0)
    about = {
        "status": made.status,
        "n_iter": made.n_iter,
        "certificate": json.loads(results.to_json(made.certificate.to_dict())),
        "phases": {"descent": {"seconds": 1.0, "passes": 2, "iterations": 3}},
        "trace": [[1, "descent", 0.5, 2.0, None, 4]],
        "settings": {"method": "enmf"},
    }
    np.savez(tmp_path / "old.npz", U=made.U, V=made.V, about=np.array(json.dumps(about)), row_names=["r"] * len(X))
    found, rows, columns = results.load_result(str(tmp_path / "old.npz"))
    assert (found.status, found.certificate, rows, columns) == (made.status, made.certificate, ["r"] * len(X), None)
    assert found.phases["descent"].iterations == 3
    assert np.isnan(found.trace[0].kkt)


def test_a_checkpoint_or_a_newer_file_is_not_taken_for_factors(tmp_path):
    frame().to_csv(tmp_path / "x.csv")
    assert within("factorize", "x.csv", "-r", 3, "--init", "random", "--checkpoint", "c", cwd=tmp_path).returncode == 0
    done = within("certify", "x.csv", "c/factors.npz", cwd=tmp_path)
    refused(done, "c/factors.npz", "is the checkpoint of a run, not a result", "another file")
    with np.load(tmp_path / "x.factors.npz") as held:
        about = json.loads(str(held["about"]))
        assert (about["kind"], about["version"]) == ("result", 1)
        about["version"] = 9
        np.savez(tmp_path / "new.npz", **{**held, "about": np.array(json.dumps(about))})
    refused(within("certify", "x.csv", "new.npz", cwd=tmp_path), "new.npz", "format version 9", "Update enmf")
    np.save(tmp_path / "one.npy", np.ones((3, 2)))
    refused(within("certify", "x.csv", "one.npy", cwd=tmp_path), "one.npy", "not an npz archive", "numpy.savez")
    refused(within("rank", "x.csv", "--checkpoint", "x.factors.npz", cwd=tmp_path), "x.factors.npz", "is a result, not")


def test_factors_of_unknown_content_are_refused_in_one_line(tmp_path):
    frame().to_csv(tmp_path / "x.csv")
    assert within("factorize", "x.csv", "-r", 2, cwd=tmp_path).returncode == 0
    with np.load(tmp_path / "x.factors.npz") as held:
        about = json.loads(str(held["about"]))
        for name, changed in (
            ("less", {}),
            ("more", {"certificate": {**about["certificate"], "colour": 1}}),
            ("no", 3),
        ):
            np.savez(tmp_path / f"{name}.npz", U=held["U"], V=held["V"], about=np.array(json.dumps(changed)))
            refused(within("certify", "x.csv", f"{name}.npz", cwd=tmp_path), f"{name}.npz", "enmf factorize")


def test_ranks_of_a_narrow_table(tmp_path):
    frame(20, 5).to_csv(tmp_path / "five.csv")
    frame(20, 2).to_csv(tmp_path / "two.csv")
    frame(20, 1).to_csv(tmp_path / "one.csv")
    for name, ranks in (("five.csv", [2, 3, 4]), ("two.csv", [1])):
        done = within("rank", name, "--json", cwd=tmp_path)
        assert [row["rank"] for row in json.loads(done.stdout)["table"]] == ranks
    refused(within("rank", "one.csv", cwd=tmp_path), "one.csv", "one row or column")


# ---------------------------------------------------------------- folders


def test_a_folder_of_10x_is_cells_by_genes(tmp_path):
    counts = np.random.default_rng(0).poisson(1.0, (40, 15))  # genes x cells, as it is stored
    folder = tmp_path / "sample"
    folder.mkdir()
    scipy.io.mmwrite(folder / "matrix.mtx", sp.coo_array(counts))
    (folder / "features.tsv").write_text("".join(f"ENSG{i}\tG{i}\tGene Expression\n" for i in range(40)))
    (folder / "barcodes.tsv").write_text("".join(f"AAC-{j}\n" for j in range(15)))
    for name in ("matrix.mtx", "features.tsv", "barcodes.tsv"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
        (folder / name).unlink()
    found = tables.read(str(folder))
    np.testing.assert_array_equal(found.values.toarray(), counts.T)
    assert (found.rows[3], found.columns[7]) == ("AAC-3", "G7")
    done = within("factorize", "sample", "-r", 2, "--tables", "csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "sample, 15 rows x 40 columns" in done.stdout
    assert pd.read_csv(tmp_path / "sample.factors.V.csv", index_col=0).index[7] == "G7"


def test_what_would_not_fit_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "bomb.npz", X=np.zeros((1000, 1000)))
    sp.save_npz(tmp_path / "long.npz", sp.csr_array((200_000, 3)))
    monkeypatch.setattr(tables, "_memory", lambda: 1e6)
    refused(within("factorize", "bomb.npz", "-r", 2, cwd=tmp_path), "bomb.npz", "memory")
    refused(within("factorize", "long.npz", "-r", 2, cwd=tmp_path), "long.npz", "200000 rows", "memory")


def test_a_folder_of_nothing_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    refused(within("factorize", "empty", "-r", 2, cwd=tmp_path), "empty", "parts", "10x")
    refused(within("rank", "empty", cwd=tmp_path), "empty", "folder")


# ---------------------------------------------------------------- more than memory


def test_blocks_memory_limit_and_checkpoint(tmp_path):
    values = frame(200, 8).to_numpy()
    np.save(tmp_path / "x.npy", values)
    (tmp_path / "parts").mkdir()
    for i, part in enumerate(np.array_split(values, 3)):
        np.savez(tmp_path / "parts" / f"{i}.npz", part)
    arguments = ("--rank", 3, "--quiet", "--out")
    assert run("factorize", "x.npy", *arguments, "whole", cwd=tmp_path).returncode == 0
    assert run("factorize", "x.npy", *arguments, "limited", "--memory-limit", "1MB", cwd=tmp_path).returncode == 0
    done = run("factorize", "parts", *arguments, "blocks", "--checkpoint", "saved", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "saved" / "factors.npz").exists()
    wanted, *found = (results.load_result(str(tmp_path / f"{name}.npz"))[0] for name in ("whole", "limited", "blocks"))
    for result in found:
        assert result.error == pytest.approx(wanted.error, rel=1e-6)
        np.testing.assert_allclose(result.U, wanted.U, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("x.csv", "--scheduler", "tcp://127.0.0.1:1"), ("x.csv", "cannot be read in blocks")),
        (("x.npy", "--memory-limit", "much"), ("memory_limit",)),
        (("no.npy", "--memory-limit", "1GB"), ("no.npy", "no such file")),
        (("x.npy", "--memory-limit", "1GB", "--row-names", "names.txt"), ("without names",)),
    ],
)
def test_what_cannot_be_read_in_blocks(arguments, words, tmp_path):
    frame().to_csv(tmp_path / "x.csv")
    np.save(tmp_path / "x.npy", frame().to_numpy())
    refused(run("factorize", *arguments, "--rank", 2, cwd=tmp_path), *words)


def test_a_scheduler_does_the_work(tmp_path):
    distributed = pytest.importorskip("distributed")
    np.save(tmp_path / "x.npy", frame().to_numpy())
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=None
    ) as local:
        address = local.scheduler_address
        done = run("factorize", tmp_path / "x.npy", "--rank", 2, "--quiet", "--scheduler", address, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    found, _, _ = results.load_result(str(tmp_path / "x.factors.npz"))
    assert found.error == pytest.approx(enmf.factorize(frame().to_numpy(), 2, random_state=0).error, rel=1e-6)


@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
def test_sparse_files_that_point_outside_are_refused(form, tmp_path):
    good = sp.csr_array(np.eye(4)).asformat(form)
    parts = {"indptr": good.indptr, "format": form.encode(), "shape": (4, 4), "data": good.data}
    np.savez(tmp_path / "bad.npz", indices=np.array([0, 1, 2, 999_999_999], np.int32), **parts)
    refused(run("factorize", "bad.npz", "-r", 1, cwd=tmp_path), "bad.npz", "999999999")  # a process of its own
