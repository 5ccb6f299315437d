"""What is added is found: starts and methods in their tables, stopping rules, their words and the ranges of limits."""

import ast
import inspect
from pathlib import Path

import pytest

import enmf
from enmf.api import registry
from enmf.certificate.words import BY_USER, DONE, LIMITED, STATUSES
from enmf.run import stopping
from enmf.run.checks import FLAGS, NUMBERS
from enmf.run.method import Method

SOURCE = Path(enmf.__file__).parent
HELPERS = {"starts": {"scaling", "__init__"}, "solvers": {"__init__"}}


@pytest.mark.parametrize("room", ["starts", "solvers"])
def test_every_file_of_a_start_or_method_is_in_the_registry(room):
    imported = ast.parse(inspect.getsource(registry))
    known = {node.module for node in ast.walk(imported) if isinstance(node, ast.ImportFrom)}
    files = {path.stem for path in (SOURCE / room).glob("*.py")} - HELPERS[room]
    assert {f"enmf.{room}.{name}" for name in files} <= known


def test_every_start_and_method_that_the_registry_imports_has_a_name():
    tables = [registry.DESCENTS, registry.STARTS, registry.OWN_STARTS, registry.COMPLETIONS]
    tables += [registry.COMPLETION.starts, registry.OWN_DESCENTS]
    named = {type(value) if isinstance(value, Method) else value for table in tables for value in table.values()}
    imported = [value for value in vars(registry).values() if getattr(value, "__module__", "").startswith("enmf.")]
    starts = {value for value in imported if value.__module__.startswith("enmf.starts.")}
    methods = {value for value in imported if value.__module__.startswith("enmf.solvers.")}
    assert starts | methods <= named


def rules():
    """Functions of the module that take a run and a moment."""
    functions = [value for value in vars(stopping).values() if inspect.isfunction(value)]
    return {f for f in functions if list(inspect.signature(f).parameters) == ["run", "now"]}


def test_every_stopping_rule_is_asked():
    assert rules() == set(stopping.RULES)


def test_every_word_of_a_rule_has_its_meaning():
    words = set()
    for rule in rules():
        tree = ast.parse(inspect.getsource(rule))
        words |= {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
    assert words <= set(STATUSES)
    assert {*DONE, *BY_USER, *LIMITED} <= set(STATUSES)


def test_every_limit_has_a_parameter_or_a_range():
    for name in stopping.FURTHER:
        assert name in NUMBERS or name in FLAGS, f"{name} of Stopping has no range in run/checks.py"
    assert set(stopping.OTHERS) <= set(stopping.Stopping.__dataclass_fields__)
