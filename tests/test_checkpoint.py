"""A checkpoint is used if it is intact and fits, and refused by name if not; a run survives a failure to save one."""

import errno
import json
import os
import re
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import enmf
import problems
from enmf.run.saved import KINDS

X = problems.dense(40, 30)
FILE = "factors.npz"


def run(folder, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return enmf.factorize(X, 3, random_state=0, checkpoint=folder, **options)


def sweep(path):
    return enmf.select_rank(X, [2, 3], folds=2, checkpoint=path)


def rewrite(path, **changes):
    with np.load(path) as content:
        arrays = {**content, **changes}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


def refused(use, place, path):
    with pytest.raises(ValueError, match="Delete it") as caught:
        use(place)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.fixture
def saved(tmp_path):
    run(tmp_path, max_iter=5)
    return tmp_path / FILE


@pytest.fixture
def swept(tmp_path):
    sweep(tmp_path / "sweep.npz")
    return tmp_path / "sweep.npz"


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_truncated_file_is_named(saved, swept, share):
    for path, use, place in ((saved, run, saved.parent), (swept, sweep, swept)):
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])
        refused(use, place, path)


def test_flipped_bits_are_harmless_or_named(saved):
    content = saved.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(content), 30):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(place % 8)
        saved.write_bytes(damaged)
        try:
            assert run(saved.parent, max_iter=6).U.min() >= 0
        except ValueError as problem:
            assert str(saved) in str(problem)  # noqa: PT017


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"V": -np.ones((30, 3))}, "its V has entries that are negative"),
        ({"V": np.full((30, 3), np.nan)}, "its V has entries that are negative, NaN"),
        ({"V": np.full((30, 3), 1e300)}, "its V has entries that are .* too large"),
        ({"V": np.ones((30, 2))}, r"its V must be numbers of shape \(30, 3\), got float64 of shape \(30, 2\)"),
        ({"U": np.ones((30, 3))}, r"its U must be numbers of shape \(40, 3\)"),
        ({"V": np.full((30, 3), "1")}, "its V must be numbers"),
        ({"V": None}, "it has no 'V"),
        ({"about": None}, "it has no 'about"),
        ({"about": np.array("[1, 2]")}, "its 'about' is not a JSON object"),
        ({"iterations": np.int64(-4)}, "its number of iterations is -4"),
    ],
)
def test_contents_that_no_run_has_saved_are_refused(saved, changes, message):
    rewrite(saved, **changes)
    with pytest.raises(ValueError, match=message):
        run(saved.parent)
    refused(run, saved.parent, saved)


@pytest.mark.parametrize(
    "changes",
    [
        {"U0": -np.ones((40, 3))},
        {"V1": np.ones((30, 1))},
        {"U1": None},
        {"about": None},
        {"rows": np.array(json.dumps([]))},
        {"rows": np.array(json.dumps([{"rank": 3}]))},
    ],
)
def test_contents_that_no_sweep_has_saved_are_refused(swept, changes):
    rewrite(swept, **changes)
    refused(sweep, swept, swept)


# ---------------------------------------------------------------- the format, and the one before it


def about_of(path):
    with np.load(path) as content:
        return json.loads(str(content["about"]))


def change_about(path, **changes):
    about = {**about_of(path), **changes}
    rewrite(path, about=np.array(json.dumps({key: value for key, value in about.items() if value is not None})))


def test_a_file_says_what_it_is_and_belongs_to(saved, swept):
    norm = pytest.approx(np.linalg.norm(X))
    run_of = {"shape": [40, 30], "dtype": "float64", "norm of X": norm, "rank": 3, "method": "enmf"}
    assert about_of(saved) == {"kind": "run", "version": 1, **run_of}
    assert {"kind": "sweep", "version": 1, "folds": 2}.items() <= about_of(swept).items()


def test_a_run_resumes_from_the_layout_without_kind_and_version(tmp_path):
    about = {"shape": [40, 30], "dtype": "float64", "norm of X": np.linalg.norm(X), "rank": 3, "method": "enmf"}
    start = enmf.factorize(X, 3, random_state=0)
    factors = {"U": start.U, "V": start.V, "iterations": np.int64(70)}
    np.savez(tmp_path / FILE, about=np.array(json.dumps(about)), **factors)
    assert run(tmp_path, max_iter=75).n_iter >= 70
    np.savez(tmp_path / FILE, about=np.array(json.dumps({**about, "rank": 4})), **factors)
    assert "its rank is 4, not 3" in refused(run, tmp_path, tmp_path / FILE)


def test_a_sweep_resumes_from_the_layout_without_kind_and_version(tmp_path):
    path = tmp_path / "old.npz"
    seed = int(np.random.default_rng(0).integers(2**63))
    about = {"shape": [40, 30], "norm of X": f"{np.linalg.norm(X):.6g}", "seed": seed, "folds": 2}
    row = dict.fromkeys(("bound", "error", "gap", "relative_error", "held_out", "held_out_se", "stability"), 0.5)
    row |= {"rank": 2, "status": "converged", "seconds": 1234.5, "folds": [0.5, 0.5]}
    pairs = {f"{name}{fold}": np.ones((rows, 2)) for fold in range(2) for name, rows in (("U", 40), ("V", 30))}
    sweep(path)
    about["side of the sample"] = about_of(path)["side of the sample"]
    np.savez(path, about=np.array(json.dumps(about)), rows=np.array(json.dumps([row])), **pairs)
    assert sweep(path).table["seconds"].tolist()[0] == 1234.5
    assert about_of(path)["version"] == 1  # saved again, in the present layout


def test_files_of_another_kind_or_a_newer_version_are_refused_but_not_to_be_deleted(saved, swept):
    for path, use, place, other in ((saved, run, saved.parent, "sweep"), (swept, sweep, swept, "result")):
        for changes, words in (
            ({"version": 2}, "written by a newer enmf (format version 2, this one reads up to 1). Update enmf"),
            ({"kind": other}, f"it is {KINDS[other]}, not "),
            ({"kind": "thing"}, "it is of kind 'thing', not the checkpoint"),
        ):
            before = path.read_bytes()
            change_about(path, **changes)
            with pytest.raises(ValueError, match=re.escape(words)) as caught:
                use(place)
            assert str(path) in str(caught.value)
            assert "Delete" not in str(caught.value)
            path.write_bytes(before)
    change_about(swept, kind=None, version=None)
    os.replace(swept, saved)
    with pytest.raises(ValueError, match="the checkpoint of a rank sweep, not the checkpoint of a run"):
        run(saved.parent)


# ---------------------------------------------------------------- where saving fails


def full_disk(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_run_continues_where_it_cannot_save(saved, monkeypatch, name):
    before = saved.read_bytes()
    monkeypatch.setattr(os, name, full_disk)
    with pytest.warns(
        UserWarning, match="cannot be written: No space left on device.*last saved state is kept"
    ) as caught:
        result = enmf.factorize(X, 3, random_state=0, checkpoint=saved.parent)
    assert sum("No space left" in str(one.message) and str(saved) in str(one.message) for one in caught) == 1
    assert result.status == "settled"
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [FILE]


def test_a_sweep_continues_where_it_cannot_save(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.warns(UserWarning, match=r"sweep.npz' cannot be written: No space left") as caught:
        assert len(sweep(tmp_path / "sweep.npz").table) == 2
    assert len(caught) == 1
    assert os.listdir(tmp_path) == []
