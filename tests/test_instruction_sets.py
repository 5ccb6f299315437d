"""Which instruction set the kernels use, how another one is chosen, and where that is told."""

import json
import os
import subprocess
import sys

import pytest

from enmf import kernels


def run(*arguments, cwd, level=None):
    """`python -m ...` in a process of its own, ENMF_KERNELS being `level`."""
    environment = {name: value for name, value in os.environ.items() if name != "ENMF_KERNELS"}
    if level is not None:
        environment["ENMF_KERNELS"] = level
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


def test_the_best_instruction_set_is_in_use_unless_another_one_is_named(tmp_path):
    for level in (None, "", *kernels.available()):  # empty: as if not set
        done = run("enmf.kernels", cwd=tmp_path, level=level)
        assert done.returncode == 0, done.stderr
        in_use, available, compiler, hint = done.stdout.splitlines()
        assert in_use.split() == ["in", "use", level or kernels.available()[-1]]
        assert available == f"available  {', '.join(kernels.available())}"
        assert compiler.split(maxsplit=1) == ["compiler", kernels.load("baseline").COMPILER]
        assert "ENMF_KERNELS" in hint


def test_info_tells_it_too(tmp_path):
    for level in kernels.available():
        facts = json.loads(run("enmf", "info", "--json", cwd=tmp_path, level=level).stdout)
        assert facts["kernels"] == f"{level}, {kernels.load(level).COMPILER}"


@pytest.mark.parametrize("command", [("enmf", "info"), ("enmf.kernels",)])
def test_an_instruction_set_that_is_not_there_is_refused_with_those_that_are(tmp_path, command):
    done = run(*command, cwd=tmp_path, level="sse9")
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert "ENMF_KERNELS=sse9" in last
    assert last.endswith(", ".join(kernels.available()))


def test_load_refuses_in_one_line():
    with pytest.raises(ImportError, match=r"\AENMF_KERNELS=sse9: this machine has baseline.*\Z"):
        kernels.load("sse9")
