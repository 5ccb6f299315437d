"""Shared fixtures."""

import os
import signal

if "PYTEST_XDIST_WORKER" in os.environ:  # workers share the cores; before NumPy is loaded
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest

from enmf import parallel
from enmf.datasets import DataFolderMissing, load

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell, where tests of Ctrl-C would hang
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
