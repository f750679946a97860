"""The forms of the library's own objects: a class of the registry, and the object's attributes."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from mercer import core
from mercer._sklearn import LISTENERS, parameter_names
from mercer.cached import cached_property
from mercer.estimators.losses import Loss
from mercer.expressions.statistics import STATISTICS, PairStatistic
from mercer.kernels import Graph, Kernel, Tree
from mercer.kernels.labels import Numbering
from mercer.persistence import registry
from mercer.persistence.forms import Form, Unsavable, require
from mercer.persistence.registry import METHODS, class_name, name_of, named

# Parameters that name a folder, start processes or print are no part of a model: an object that is
# loaded has their defaults, so that the next fit reads, starts and writes nothing a file asked for.
SURROUNDINGS = ("memory", "n_jobs", "verbose")


def object_kind(value: Any) -> str | None:
    """The name of the form of an object; None where the registry has nothing to say of it."""
    cls = type(value)
    if cls is Numbering:
        return "numbering"
    if cls.__name__ == "KeyTable" and cls.__module__.startswith("mercer.core"):
        return "key table"
    if cls is PairStatistic:
        return "statistic" if STATISTICS.get(value.name) is value else None
    if cls is functools.partial:
        return "partial"
    if isinstance(value, types.MethodType):
        return "method" if _is_known_method(value.__self__, value.__name__) else None
    if class_name(cls) is not None:
        return "member" if isinstance(value, Enum) else "object"
    if isinstance(value, types.FunctionType) and name_of(value) is not None:
        return "known function"
    if hasattr(value, "nodes") and hasattr(value, "edges"):
        return "foreign graph"
    if isinstance(value, list) and callable(getattr(value, "label", None)):
        return "foreign tree"
    return None


def is_users(value: Any) -> bool:
    """Whether this is code of the user's: a function, or an object that acts as one."""
    ours = type(value).__module__.partition(".")[0] == "mercer"
    return not ours and (callable(value) or isinstance(value, Loss))


def are_alike(a: Any, b: Any) -> bool:
    """Whether what a user gave and what is held are the same, or one was copied from the other."""
    if a is b or type(a) is not type(b) or not hasattr(a, "__dict__"):
        return a is b
    if isinstance(a, types.FunctionType):
        return False
    try:
        return bool(vars(a) == vars(b))
    except ValueError:  # arrays
        return False


# Objects by their attributes.


def _object_parts(value: Any) -> list[Any]:
    name, state = class_name(type(value)), _state(value)
    others = set(state) - registry.attributes(name) if name else set()
    if others:
        raise Unsavable(
            f"has {_short(others)}, which objects of {type(value).__qualname__} have not; "
            "a file may hold words of yours as notes"
        )
    return [name, *(part for pair in state.items() for part in pair)]


def _state(value: Any) -> dict[str, Any]:
    if isinstance(value, tuple):
        return value._asdict()  # type: ignore[attr-defined]  (a named tuple)
    if dataclasses.is_dataclass(value):
        return {name: getattr(value, name) for name in _fields(type(value))}
    return {
        name: part
        for name, part in vars(value).items()
        if name not in LISTENERS and not _is_computed(type(value), name)
    }


@functools.lru_cache(maxsize=4096)
def _is_computed(cls: type, name: str) -> bool:
    """Whether an attribute is computed from the others when it is asked for."""
    return isinstance(inspect.getattr_static(cls, name, None), cached_property)


def _fields(cls: type) -> tuple[str, ...]:
    if issubclass(cls, tuple):
        return cls._fields  # type: ignore[attr-defined]
    return tuple(field.name for field in dataclasses.fields(cls))


def made_object(name: str, version: int, parts: list[Any]) -> Any:
    """An object of a class, of the version that the file has, by its attributes."""
    cls = named(name)
    require(isinstance(cls, type) and not issubclass(cls, Enum), f"{name} is not a class")
    names, values = parts[::2], parts[1::2]
    require(all(isinstance(n, str) for n in names), f"an attribute of {name} has no name")
    state = dict(zip(names, values, strict=True))
    require(len(state) == len(names), f"an attribute of {name} is there twice")
    _refuse_others(name, state, registry.attributes(name, version))
    if version < registry.version(name):
        state = registry.upgraded(name, version, state)
        _refuse_others(name, state, registry.attributes(name))
    if issubclass(cls, tuple) or dataclasses.is_dataclass(cls):
        require(set(state) == set(_fields(cls)), f"{name} has other attributes: {_short(state)}")
        if issubclass(cls, tuple):
            return cls(**state)
    else:
        for attribute in state:
            _refuse_attribute(cls, name, attribute)
        parameters = _parameters(cls)
        missing = parameters - set(state)
        require(not missing, f"{name} lacks {_short(missing)}")
        for parameter in parameters.intersection(SURROUNDINGS):
            state[parameter] = inspect.signature(cls).parameters[parameter].default
    made = object.__new__(cls)
    for attribute, value in state.items():
        object.__setattr__(made, attribute, value)
    if cls in CHECKS:
        CHECKS[cls](made)
    return made


def _refuse_others(name: str, state: dict[str, Any], known: frozenset[str]) -> None:
    others = set(state) - known | set(LISTENERS).intersection(state)
    require(not others, f"{name} has no attribute {_short(others)}")


def _refuse_attribute(cls: type, name: str, attribute: str) -> None:
    """Attributes are data: none hides a method, and none has a meaning to Python.

    A property that can be set is data, too.
    """
    proper = attribute.isidentifier() and not attribute.startswith("__")
    require(proper, f"{attribute[:80]!r} is not an attribute of {name}")
    held = inspect.getattr_static(cls, attribute, None)
    kept = isinstance(held, property) and held.fset is not None
    hides = not kept and (callable(held) or hasattr(type(held), "__get__"))
    require(not hides, f"the attribute {attribute!r} would hide what {name} does")


def _parameters(cls: type) -> set[str]:
    return set(parameter_names(cls)) if issubclass(cls, BaseEstimator | Kernel) else set()


def _short(names: Any) -> str:
    return ", ".join(sorted(map(repr, names)))[:80]


def _check_graph(graph: Graph) -> None:
    """What the core relies on: neighbours that are nodes, and codes that have labels."""
    arrays = (graph.indptr, graph.indices, graph.node_codes, graph.edge_codes)
    ok = all(isinstance(a, np.ndarray) and a.ndim == 1 and a.dtype.kind == "i" for a in arrays)
    require(ok and all(isinstance(x, Numbering) for x in (graph.nodes, graph.edges)), "no graph")
    n, ends = len(graph.node_codes), graph.indptr
    require(len(ends) == n + 1 and ends[0] == 0 and np.all(np.diff(ends) >= 0), "no graph")
    require(ends[-1] == len(graph.indices) == len(graph.edge_codes), "a graph has other edges")
    for numbers, limit in (
        (graph.indices, n),
        (graph.node_codes, len(graph.nodes)),
        (graph.edge_codes, len(graph.edges)),
    ):
        require(np.all((numbers >= 0) & (numbers < limit)), "a graph names a node that it lacks")


def _check_tree(tree: Tree) -> None:
    """Children come before their parents, and are of one tree."""
    require(isinstance(tree.labels, tuple) and isinstance(tree.children, tuple), "no tree")
    require(len(tree.labels) == len(tree.children) > 0, "a tree has other labels than nodes")
    below = list(_checked_children(tree))
    require(sorted(below) == list(range(len(tree.labels) - 1)), "a tree is in pieces")


def _checked_children(tree: Tree) -> Iterator[int]:
    for node, children in enumerate(tree.children):
        for child in children:
            require(type(child) is int and 0 <= child < node, "a tree has a child before its time")
            yield child


CHECKS: dict[type, Callable[[Any], None]] = {Graph: _check_graph, Tree: _check_tree}


# Members of enumerations, statistics, methods and functions, which have names.


def _member(name: Any, member: Any) -> Enum:
    cls = named(name)
    require(isinstance(cls, type) and issubclass(cls, Enum), f"{name} has no members")
    require(member in cls.__members__, f"{name} has no such member")
    return cls.__members__[member]


def _method_parts(method: Any) -> list[Any]:
    (name,) = (name for name, kept in METHODS.items() if kept == method.__name__)
    return [method.__self__, name]


def _method(owner: Any, name: Any) -> Any:
    known = name in METHODS and _is_known_method(owner, METHODS[name])
    require(known and hasattr(owner, METHODS[name]), "a method is none that a file may name")
    return getattr(owner, METHODS[name])


def _is_known_method(owner: Any, name: str) -> bool:
    ours = isinstance(owner, Kernel) and class_name(type(owner)) is not None
    return ours and name in METHODS.values()


def _known_function(name: Any) -> Any:
    function = named(name)
    require(isinstance(function, types.FunctionType), f"{name} is not a function")
    return function


def _partial(function: Any, arguments: Any, named: Any) -> functools.partial:
    fitting = callable(function) and isinstance(arguments, tuple) and isinstance(named, dict)
    require(fitting, "a partial function is none")
    return functools.partial(function, *arguments, **named)


# Numbered labels and features.


def _numbering(*labels: Any) -> Numbering:
    made = Numbering((label, i) for i, label in enumerate(labels))
    require(len(made) == len(labels), "a label is numbered twice")
    return made


def _key_table(keys: Any) -> Any:
    is_keys = isinstance(keys, np.ndarray) and keys.dtype == np.uint32 and keys.ndim == 2
    require(is_keys, "a table of features is none")
    made = core.table(keys.shape[1])
    made.count_keys(np.ascontiguousarray(keys), np.array([0, len(keys)]), True)
    require(made.size == len(keys), "a feature is numbered twice")
    return made


def _the(value: Any) -> Any:
    require(isinstance(value, Graph | Tree), "a graph or tree is none")
    return value


FORMS = {
    # networkx's graphs and nltk's trees come back as the library's own.
    "foreign graph": Form(lambda graph: [Graph.parse(graph)], _the),
    "foreign tree": Form(lambda tree: [Tree.parse(tree)], _the),
    "key table": Form(lambda table: [table.keys()], _key_table),
    "known function": Form(lambda function: [name_of(function)], _known_function),
    "member": Form(lambda member: [class_name(type(member)), member.name], _member),
    "method": Form(_method_parts, _method),
    "numbering": Form(list, _numbering),
    "object": Form(_object_parts, made_object),
    "partial": Form(lambda p: [p.func, p.args, p.keywords], _partial),
    "statistic": Form(lambda kind: [kind.name], lambda name: STATISTICS[name]),
}
