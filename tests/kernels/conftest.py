"""Kernels are judged by their slow twins at every instruction set that this machine has."""

import pytest

from enmf import kernels as compiled


@pytest.fixture(scope="session", params=compiled.available())
def kernels(request):
    return compiled.load(request.param)
