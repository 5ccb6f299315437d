"""The rooms of the package, read from the source: who may import whom, who may know what, how long lists may be."""

import ast
from collections import defaultdict
from functools import cache
from itertools import combinations
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "enmf"

# Every import points to a line above its own, or stays in its room; rooms in one line do not know each other.
LAYERS = [
    {"kernels", "parallel", "files", "_moved"},  # compiled loops, threads, files that are written whole or not at all
    {"matrix"},  # X in this process, and factors wherever they are
    {"linalg", "distributed", "losses"},  # spectra and rotations; X in blocks elsewhere; what is minimized
    {"problem", "starts"},  # a matrix, a loss and a penalty; where descents begin
    {"certificate", "datasets"},  # what is known about a pair of factors
    {"geometry"},  # which factorizations are the same, exact ones
    {"report"},  # pages and pictures
    {"run"},  # the one loop, its phases, what it returns
    {"solvers", "io"},  # descent methods; tables and results in files
    {"exterior"},  # the paper's start
    {"api"},  # what a user can ask for
    {"stream"},  # rows that arrive in batches
    {"sklearn", "bench"},
    {"cli"},
]
ROOT = {"__init__", "__main__", "_version"}  # the package itself may import, and be imported, at will
PLAIN_AT_MOST = 3
CHAIN_AT_MOST = 10
PARAMETERS_AT_MOST = 8
SHARED_AT_MOST = 5

KEEPERS = {"matrix", "distributed"}  # who may ask how X is stored or where rows are
STORAGE = {
    "RowBlocks",
    "DenseMatrix",
    "SparseMatrix",
    "ChunkedMatrix",
    "MaskedMatrix",
    "LowRankMatrix",
    "GatheredMatrix",
}
EVERYBODYS = {"self", "X", "U", "V", "F", "G", "B", "rng"}  # names of things, not of options


# Reading the source ---------------------------------------------------------------------------------------------------


@cache
def modules():
    """Syntax tree of each module by its name, with `enmf.` left out; a package by its own name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def for_types_only(node):
    """Whether this is `if TYPE_CHECKING:`."""
    return isinstance(node, ast.If) and getattr(node.test, "id", getattr(node.test, "attr", "")) == "TYPE_CHECKING"


def statements(node, at_import_only=False):
    """All nodes below this one that may run (while the module is imported)."""
    inner = node.orelse if for_types_only(node) else ast.iter_child_nodes(node)
    for child in inner:
        if at_import_only and isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        yield child
        yield from statements(child, at_import_only)


def imported(name, node):
    """Modules of the package that an import statement in module `name` names, without `enmf.`."""
    if isinstance(node, ast.Import):
        wholes = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{name}:{node.lineno} is a relative import; write enmf. ..."
        base = node.module or ""
        wholes = [f"{base}.{alias.name}" for alias in node.names]
        wholes = [whole if whole.removeprefix("enmf.") in modules() else base for whole in wholes]
    else:
        return []
    return [whole.removeprefix("enmf.") for whole in wholes if whole.startswith("enmf.")]


def room(name):
    return name.split(".")[0]


@cache
def imports_between_rooms():
    """{room: {room that it imports: ["module:line", ...]}}"""
    found = defaultdict(lambda: defaultdict(list))
    for name, tree in modules().items():
        for node in statements(tree):
            for target in imported(name, node):
                if room(name) != room(target) and not {room(name), room(target)} & ROOT:
                    found[room(name)][room(target)].append(f"{name}:{node.lineno}")
    return found


def lines(offenders):
    return "\n  ".join(["", *offenders])


def cycle_among(graph):
    """A list of nodes, each of which points to the next and the last to the first, or None."""
    done = set()

    def visit(node, path):
        if node in path:
            return path[path.index(node) :]
        if node in done:
            return None
        done.add(node)
        return next(filter(None, (visit(target, [*path, node]) for target in graph.get(node, ()))), None)

    return next(filter(None, (visit(node, []) for node in list(graph))), None)


# Who imports whom -----------------------------------------------------------------------------------------------------


def test_every_room_has_one_place_in_the_layers():
    """A new room says where it stands."""
    placed = [name for layer in LAYERS for name in layer]
    assert len(placed) == len(set(placed)), "a room stands in two layers"
    assert {room(name) for name in modules()} - ROOT == set(placed)


def test_every_import_points_to_a_lower_layer():
    """Also those inside functions: a room can be read, tested and replaced with the ones below it alone."""
    level = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    wrong = [
        f"{places[0]} imports from {target}, which is not below {source}"
        for source, targets in imports_between_rooms().items()
        for target, places in targets.items()
        if level[target] >= level[source]
    ]
    assert not wrong, lines(wrong)


def test_no_rooms_import_each_other_in_a_circle():
    """Whatever the layers above say."""
    graph = imports_between_rooms()
    cycle = cycle_among(graph)
    if cycle is not None:
        steps = zip(cycle, [*cycle[1:], cycle[0]])
        raise AssertionError(lines(f"{one} imports {two}: {graph[one][two][0]}" for one, two in steps))


def test_kernels_import_no_other_room():
    """Kernels are numbers in, numbers out."""
    assert not imports_between_rooms().get("kernels", {}), dict(imports_between_rooms()["kernels"])


def test_the_longest_chain_of_imports_is_short():
    """Who opens a file should not have to open twenty others: at most ten modules import one another in a row."""
    graph = {
        name: {
            target
            for node in statements(tree, at_import_only=True)
            for target in imported(name, node)
            if target != name and target in modules()
        }
        for name, tree in modules().items()
        if name not in ROOT
    }
    cycle = cycle_among(graph)
    assert cycle is None, f"modules import each other in a circle: {' -> '.join([*cycle, cycle[0]])}"

    @cache
    def longest(name):
        return [name, *max((longest(target) for target in graph[name]), key=len, default=[])]

    chain = max((longest(name) for name in graph), key=len)
    assert len(chain) <= CHAIN_AT_MOST, f"{len(chain)} modules: {' -> '.join(chain)}"


def test_there_are_few_plain_modules_beside_the_rooms():
    """What belongs together is in a room."""
    plain = sorted(path.stem for path in PACKAGE.glob("*.py") if path.stem not in ROOT)
    assert len(plain) <= PLAIN_AT_MOST, plain


# Who knows what -------------------------------------------------------------------------------------------------------


def names_in(node):
    return {getattr(part, "id", getattr(part, "attr", None)) for part in ast.walk(node)}


def asks_about_storage(node):
    """isinstance(_, DenseMatrix), issubclass(...), match ... case DenseMatrix(), hasattr(_, "home")."""
    if isinstance(node, ast.MatchClass):
        return bool(names_in(node.cls) & STORAGE)
    if not isinstance(node, ast.Call) or len(node.args) < 2:
        return False
    function, what = getattr(node.func, "id", None), node.args[1]
    if function in ("isinstance", "issubclass"):
        return bool(names_in(what) & STORAGE)
    return function in ("hasattr", "getattr") and isinstance(what, ast.Constant) and what.value == "home"


def test_only_matrix_and_distributed_ask_how_x_is_stored():
    """All others ask X for what they need, so that a new kind of X is one class and no search through the rooms."""
    wrong = [
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for name, tree in modules().items()
        if room(name) not in KEEPERS
        for node in ast.walk(tree)
        if asks_about_storage(node)
    ]
    assert not wrong, lines(wrong)


# How long lists are ---------------------------------------------------------------------------------------------------


def public_names():
    """`enmf.__all__`."""
    for node in modules()["__init__"].body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return set(ast.literal_eval(node.value))
    raise AssertionError("enmf has no __all__")


def is_command(function):
    """A typer command: its parameters are the options of the command line."""
    return any("command" in names_in(decorator) | {""} for decorator in function.decorator_list)


def is_public(name, owners, function):
    """Whether users write this parameter list: a function of `enmf`, the options of a public class, a command."""
    public = public_names()
    if name == "bench.__main__" and owners == ["_command"]:  # the commands of `enmf bench`
        return True
    if owners:
        return function.name == "__init__" and owners[0] in public
    if f"{name}.{function.name}" == "report.page.write":  # `enmf.report.write`, `Result.report`
        return True
    return function.name in public or (room(name) == "cli" and is_command(function))


def private_functions():
    """(place, parameter names) of every function that is neither public nor a kernel; self and cls left out."""

    def visit(name, node, owners):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                yield from visit(name, child, [*owners, child.name])
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if not is_public(name, owners, child):
                    a = child.args
                    every = [*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg]
                    parameters = [p.arg for p in every if p is not None and p.arg not in ("self", "cls")]
                    yield f"{name}:{child.lineno} {'.'.join([*owners, child.name])}", parameters
                yield from visit(name, child, [*owners, child.name])
            else:
                yield from visit(name, child, owners)

    for name, tree in modules().items():
        if room(name) != "kernels":
            yield from visit(name, tree, [])


def long_lists():
    """{name of a function: what is too long about it}"""
    return {
        place.split(":")[0] + "." + place.split()[1]: f"{place}: {len(parameters)} ({', '.join(parameters)})"
        for place, parameters in private_functions()
        if len(parameters) > PARAMETERS_AT_MOST
    }


def test_no_function_of_ours_has_a_long_parameter_list():
    """What always travels together is one thing with a name."""
    assert not long_lists(), lines(long_lists().values())


def test_no_parameter_list_is_written_twice():
    """Two functions with the same six parameters hand on what should be one object."""
    wrong = [
        f"{one} and {two}: {', '.join(sorted(shared))}"
        for (one, first), (two, second) in combinations(private_functions(), 2)
        if len(shared := {*first} & {*second} - EVERYBODYS) > SHARED_AT_MOST
    ]
    assert not wrong, lines(wrong)
