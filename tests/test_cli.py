"""The command line end to end, as subprocesses: every format, every broken file, every exit code."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
from typer.testing import CliRunner

import enmf
from enmf import tables
from enmf.cli import app

ENTRY = [sys.executable, "-m", "enmf.cli"]


def run(*arguments, cwd, stdin=None):
    return subprocess.run([*ENTRY, *map(str, arguments)], cwd=cwd, input=stdin, capture_output=True, text=True)


def within(*arguments, cwd, stdin=None):
    """As `run`, in this process: for the many inputs where another one would show nothing more."""
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
    table.to_parquet(folder / "x.parquet")
    np.save(folder / "x.npy", values)
    np.savez(folder / "x.npz", X=values, other=np.zeros((2, 2)))
    sp.save_npz(folder / "sparse.npz", sp.csr_array(values))
    scipy.io.mmwrite(folder / "x.mtx", sp.coo_array(values), precision=17)
    with gzip.open(folder / "x.mtx.gz", "wb") as file:
        file.write((folder / "x.mtx").read_bytes())
    named = ["x.csv", "x.tsv", "semicolons.csv", "zipped.csv.gz", "r.csv", "x.parquet"]
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


def test_factorize_from_every_format(tmp_path):
    table = frame()
    expected = enmf.factorize(table.to_numpy(), 3, random_state=0)
    for name in write_all(tmp_path, table):
        done = (run if name == "x.mtx.gz" else within)("factorize", name, "--rank", 3, "--out", "f.npz", cwd=tmp_path)
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
    result, rows, columns = tables.load_result(str(tmp_path / "f.npz"))
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


def test_complete_a_table_with_gaps_and_a_list_of_triplets(tmp_path):
    table = frame(40, 12, 2)
    gaps = np.random.default_rng(1).random(table.shape) < 0.2
    table.mask(gaps).to_csv(tmp_path / "gaps.csv")
    rows, columns = np.nonzero(~gaps)
    listed = pd.DataFrame({"who": table.index[rows], "what": table.columns[columns], "value": table.to_numpy()[~gaps]})
    listed.to_csv(tmp_path / "list.csv", index=False)
    estimates = []
    for name, more in (("gaps.csv", []), ("list.csv", ["--triplets"])):
        done = run("complete", name, *more, "--rank", 2, "--predict", "p.csv", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
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
    facts = json.loads(run("info", "--json", cwd=tmp_path).stdout)
    assert facts["methods"] == enmf.methods()
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
    # goes on: finished ranks keep their seconds to the last digit
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
    done = run("factorize", "x.npy", "-r", 3, "--max-iter", 1, "--tol", "1e-12", cwd=tmp_path)
    assert done.returncode == 3
    assert "status: max_iter" in done.stdout
    assert "Traceback" not in done.stderr
    assert (tmp_path / "x.factors.npz").exists()


def test_ctrl_c_is_130_and_writes(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((2000, 500)))
    command = [*ENTRY, "factorize", "x.npy", "-r", "40", "--tol", "0", "--max-iter", "1000000"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(8)  # well inside the descent, which would go on for hours
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "status: interrupted" in out
    assert np.load(tmp_path / "x.factors.npz")["U"].shape == (2000, 40)


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
    "latin.csv": ("UTF-8",),
    "x.xlsx": ("not known", ".csv"),
    "cut.parquet": ("cannot be read", "ending"),
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
    refused(done, "x.csv", "may not be read", "permission")


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
    for name, words in (("twice.csv", ("more than one value", "data row 3")), ("words.csv", ("data row 2", "number"))):
        with pytest.raises(tables.InputProblem) as problem:
            tables.read(str(tmp_path / name), triplets=True)
        assert all(word in str(problem.value) for word in (name, *words)), problem.value
    np.save(tmp_path / "x.npy", np.ones((2, 3)))
    with pytest.raises(tables.InputProblem, match="2 names for the 3 columns"):
        tables.read(str(tmp_path / "x.npy"), column_names=str(tmp_path / "names.txt"))


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
    wanted, *found = (tables.load_result(str(tmp_path / f"{name}.npz"))[0] for name in ("whole", "limited", "blocks"))
    for result in found:
        assert result.error == pytest.approx(wanted.error, rel=1e-6)
        np.testing.assert_allclose(result.U, wanted.U, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("x.csv", "--scheduler", "tcp://127.0.0.1:1"), ("x.csv", "is not read in blocks")),
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
    found, _, _ = tables.load_result(str(tmp_path / "x.factors.npz"))
    assert found.error == pytest.approx(enmf.factorize(frame().to_numpy(), 2, random_state=0).error, rel=1e-6)
