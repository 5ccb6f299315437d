"""A checkpoint is used where it is whole and fits, refused by its name where not; a run does not die of saving one."""

import errno
import json
import os
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import enmf
import problems

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
def test_a_file_that_is_cut_off_is_named(saved, swept, share):
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
        ({"about": np.array("[1, 2]")}, "cannot be used"),
        ({"iterations": np.int64(-4)}, "it counts -4 iterations"),
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


def full_disk(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_run_goes_on_where_it_cannot_save(saved, monkeypatch, name):
    before = saved.read_bytes()
    monkeypatch.setattr(os, name, full_disk)
    with pytest.warns(UserWarning, match="cannot be written: No space left on device.*saved before is kept") as caught:
        result = enmf.factorize(X, 3, random_state=0, checkpoint=saved.parent)
    assert sum("No space left" in str(one.message) and str(saved) in str(one.message) for one in caught) == 1
    assert result.status == "converged"
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [FILE]


def test_a_sweep_goes_on_where_it_cannot_save(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.warns(UserWarning, match=r"sweep.npz' cannot be written: No space left") as caught:
        assert len(sweep(tmp_path / "sweep.npz").table) == 2
    assert len(caught) == 1
    assert os.listdir(tmp_path) == []
