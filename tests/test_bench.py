"""The two protocols: structure and fairness of the rows, not times."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import typer

import enmf
import problems
import slow
from enmf.bench import Setting, Table, equal_error, equal_time, outside, summarize
from enmf.bench.__main__ import main, opponents, repeated
from enmf.bench.protocols import Case, count_runs, run_ours
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.losses import check_loss


def small(**changes):
    options = {"data": "counts", "X": problems.counts(), "rank": 3, "methods": ("hals", "e-hals", "sklearn-cd")}
    return Setting(**{**options, "starts": ("random-0", "nndsvd"), "threads": 1, **changes})


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_equal_time(store):
    table = Table()
    setting = small(X=store(problems.counts()), repeats=2)
    rows = list(equal_time(setting, table))
    assert len(rows) == count_runs(setting) == 14
    assert rows == table.rows
    bound = slow.bound(problems.counts(), 3)
    for row in rows:
        assert row.status in ("reference", "timeout", "converged", "stalled", "target_reached")
        assert row.error >= bound * (1 - 1e-9)
        assert row.ratio == pytest.approx(row.error / bound, rel=1e-6)
        assert row.threads == 1
        assert row.seconds >= row.reference_seconds or row.status != "timeout"
    for row in rows:
        if row.method == "hals":  # two products a step; the one that shows where the last step led; the start's own
            assert 0 <= row.passes - 2 * row.iterations <= 6
    assert [row.method for row in rows[:4]] == ["enmf", "hals", "e-hals", "sklearn-cd"]  # interleaved


def test_equal_error():
    rows = list(equal_error(small(patience=200.0), Table()))
    reference = rows[0]
    for row in rows[1:]:
        if row.status == "target_reached":
            assert row.error <= reference.error * (1 + 1e-5)
        else:
            assert row.status in ("converged", "stalled", "timeout")
    assert any(row.status == "target_reached" for row in rows[1:])


def test_an_interrupted_grid_goes_on_where_it_stopped(tmp_path):
    path = tmp_path / "grid.csv"
    run = equal_time(small(), Table(path))
    first = [next(run) for _ in range(3)]
    run.close()
    again = Table(path)
    assert [row.key for row in again.rows] == [row.key for row in first]
    rest = list(equal_time(small(), again))
    assert len(rest) == count_runs(small()) - 3
    assert len({row.key for row in Table(path).rows}) == count_runs(small())
    assert list(equal_time(small(), Table(path))) == []


def test_a_failing_opponent_is_a_row_not_a_crash(monkeypatch):
    def broken(*arguments):
        raise RuntimeError("no such device")

    monkeypatch.setitem(outside._KNOWN, "sklearn-cd", ("sklearn", True, broken))
    rows = list(equal_time(small(methods=("sklearn-cd", "hals")), Table()))
    assert [row.status for row in rows if row.method == "sklearn-cd"] == ["failed: RuntimeError: no such device"] * 2
    assert all(np.isfinite(row.error) for row in rows if row.method == "hals")
    summarize(rows)


def test_the_clock_stands_still_while_measuring(monkeypatch):
    """A slow KKT residual must not change the charged time."""
    import time

    from enmf.problem.state import State

    original = State.kkt

    def slow_kkt(state, fixed=None):
        time.sleep(0.02)
        return original(state, fixed)

    monkeypatch.setattr(State, "kkt", slow_kkt)
    began = time.perf_counter()
    run = run_ours(check_problem(problems.counts()), small(tol=1e-9), Case("hals", "nndsvd"))
    wall = time.perf_counter() - began
    assert run.iterations > 50
    assert wall - run.seconds > 0.02 * run.iterations / 11


def test_summary_reports_best_median_and_worst_over_starts():
    rows = list(equal_time(small(starts=("random-0", "random-1", "nndsvd")), Table()))
    line = next(line for line in summarize(rows) if line.method == "hals")
    errors = sorted(row.error for row in rows if row.method == "hals")
    assert (line.best_error, line.median_error, line.worst_error) == tuple(errors)
    assert line.starts == 3
    best = min((row for row in rows if row.method == "hals"), key=lambda row: row.error)
    assert line.best_start == best.start


def test_command_line(tmp_path, capsys):
    path = tmp_path / "out.csv"
    arguments = ["--data", "digits", "--rank", "3", "--methods", "hals", "--starts", "random-0", "nndsvd"]
    assert main(["equal-time", *arguments, "--out", str(path)]) == 0
    assert "equal-time: digits, rank 3" in capsys.readouterr().out
    assert main(["show", str(path)]) == 0
    assert "hals" in capsys.readouterr().out
    with pytest.raises(typer.BadParameter, match="unknown method magic"):
        main(["equal-time", "--data", "digits", "--rank", "3", "--methods", "magic"])


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_another_loss_is_everybodys(store):
    X = problems.counts()
    setting = small(X=store(X), methods=("e-hals", "sklearn-mu", "sklearn-cd"), starts=("random-0",), loss=1)
    table = Table()
    rows = list(equal_time(setting, table))
    by = {row.method: row for row in rows}
    assert {row.loss for row in rows} == {"kullback-leibler"}
    own = enmf.factorize(X, 3, loss="kullback-leibler", random_state=0)
    assert by["enmf"].error == pytest.approx(own.error, rel=1e-3)
    assert by["enmf"].ratio == np.inf  # no bound
    assert by["sklearn-cd"].status.startswith("failed: TypeError: sklearn-cd minimizes the Frobenius norm only")
    assert np.isfinite(by["sklearn-mu"].error)
    assert by["sklearn-mu"].error > 0.9 * own.error
    assert {line.loss for line in summarize(rows)} == {"kullback-leibler"}
    # another loss on the same data is another run
    assert len(list(equal_time(small(X=store(X), methods=("hals",), starts=("random-0",)), table))) == 2


def test_a_table_without_losses_is_one_of_the_frobenius_norm(tmp_path):
    path, setting = tmp_path / "old.csv", small(methods=("hals",), starts=("random-0",))
    list(equal_time(setting, Table(path)))
    Table(path).frame.drop(columns="loss").to_csv(path, index=False)
    assert list(equal_time(setting, Table(path))) == []
    list(equal_time(small(methods=("e-hals",), starts=("random-0",)), Table(path)))
    assert [row.method for row in Table(path).rows] == ["enmf", "hals", "e-hals"]


def test_losses_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "out.csv"
    arguments = ["--data", "digits", "--rank", "3", "--starts", "random-0", "--methods", "e-hals", "--tol", "1e-2"]
    assert main(["equal-time", *arguments, "--loss", "kullback-leibler", "--out", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "equal-time: digits, rank 3, loss kullback-leibler" in shown
    assert "loss / eNMF's" in shown
    assert "bound" not in shown
    loss = 0.5 * next(row.error for row in Table(path).rows if row.method == "enmf") ** 2
    assert f"{loss:.6g}" in shown
    assert "sklearn-mu" in opponents(["all"], check_loss(1))
    assert not {"sklearn-cd", "anls-bpp"} & set(opponents(["all"], check_loss(1)))
    with pytest.raises(typer.BadParameter, match="outside 0 <= beta <= 2"):
        main(["equal-time", *arguments, "--loss", "3"])


def test_a_missing_data_folder_is_one_line_and_exit_code_two(tmp_path):
    environment = {"PATH": "", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    command = [sys.executable, "-m", "enmf.bench", "equal-time", "--data", "verb", "--rank", "3"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert done.stderr.strip() == "no data folder: set the environment variable ENMF_DATA or pass folder="


def test_several_values_may_follow_one_option():
    options = {"--data", "--rank"}
    words = ["--data", "a", "b", "--out", "x.csv", "--rank=3", "4", "--data", "c"]
    assert repeated(words, options) == [
        *("--data", "a", "--data", "b", "--out", "x.csv"),
        *("--rank=3", "--rank", "4", "--data", "c"),
    ]
