"""Shared fixtures."""

import os

import pytest

from enmf import parallel
from enmf.datasets import DataFolderMissing, load


@pytest.fixture(autouse=True)
def two_threads():
    """Kernels are called directly in many tests; give them two threads as a fit would."""
    with parallel.limit(min(2, os.cpu_count() or 1)):
        yield


@pytest.fixture
def real_data():
    """load(name) for the real sets; skips with the reason where there is no data folder."""

    def get(name, **options):
        try:
            return load(name, **options)[0]
        except DataFolderMissing as reason:
            pytest.skip(str(reason))

    return get
