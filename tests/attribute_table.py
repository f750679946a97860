"""The attributes that objects of each saved class can have, found in its source.

``python tests/attribute_table.py`` writes `attributes.json` where a class has joined or its
attributes have changed: as another version, or with ``--amend`` in place of the last one, which no
release has written yet.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import json
import sys
import textwrap
from enum import Enum
from pathlib import Path

from sklearn.base import BaseEstimator

import mercer
import model_corpus
from mercer.cached import cached_property
from mercer.estimators.scores import Classifier
from mercer.kernels import Kernel
from mercer.operators import GramOperator
from mercer.persistence import files, format_1, registry

TABLE = Path(registry.__file__).parent / "attributes.json"
# What functions outside of a class set.
RIDGE = (
    "X_fit_ centres_ coef_ dual_coef_ error_bound_ feature_map_ intercept_ moments_ n_iter_ path_ "
    "result_"
)
MACHINE = "X_fit_ dual_coef_ intercept_ n_iter_ result_"
OUTSIDE = {
    Classifier: "_labels_in_tensors",  # where labels come from tensors
    BaseEstimator: "feature_names_in_ n_features_in_",
    GramOperator: "dtype shape",  # which SciPy's operators have
    mercer.GaussianProcessRegressor: (
        "L_ X_train_ _fixed_noise _template alpha_ evidence_ hyperparameters_ "
        "log_marginal_likelihood_value_ mean_coef_ mean_coef_std_ noise_ posterior_ y_train_"
    ),
    mercer.KernelCCA: "loo_scores_ regularizations_",
    mercer.KernelDensity: (
        "X_fit_ _bounds _total_weight adaptive bandwidth_ kernel_ local_bandwidths_ "
        "sample_weight_ selection_"
    ),
    mercer.KernelKMeans: (
        "X_fit_ dual_coef_ inertia_ inertia_bound_ labels_ n_iter_ result_ squared_norms_"
    ),
    mercer.KernelMachineClassifier: MACHINE,
    mercer.KernelMachineRegressor: MACHINE,
    mercer.KernelPCA: (
        "X_fit_ X_transformed_fit_ corrected_ dual_coef_ eigenvalues_ eigenvectors_ "
        "explained_variance_ explained_variance_ratio_ mean_coef_ mean_similarity_ projection_ "
        "projection_offset_ residuals_ result_"
    ),
    mercer.KernelRidge: RIDGE,
    mercer.KernelRidgeCV: RIDGE,
    mercer.KernelRidgeClassifier: RIDGE,
    mercer.SVC: "tie_order_",  # by read_libsvm
    mercer.NuSVC: "tie_order_",
}


def in_source(cls):
    """The names that the methods of a class set of their first argument."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    for method in ast.walk(tree):
        if isinstance(method, ast.FunctionDef) and method.args.args:
            yield from set_of(method, method.args.args[0].arg)


def set_of(method, owner):
    def is_owner(node):
        return isinstance(node, ast.Name) and node.id == owner

    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if is_owner(node.value):
                yield node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setattr":
            if is_owner(node.args[0]) and isinstance(node.args[1], ast.Constant):
                yield node.args[1].value
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            held = node.value  # self.__dict__["name"]
            if isinstance(held, ast.Attribute) and held.attr == "__dict__":
                yield node.slice.value


@functools.cache
def of_class(cls):
    """The names that a class declares or sets, and its bases."""
    if issubclass(cls, Enum):
        return frozenset(cls.__members__)
    if issubclass(cls, tuple):
        return frozenset(cls._fields)
    if dataclasses.is_dataclass(cls):
        return frozenset(field.name for field in dataclasses.fields(cls))
    names = set(cls._get_param_names()) if issubclass(cls, BaseEstimator | Kernel) else set()
    library = cls.__module__.partition(".")[0]
    for base in cls.__mro__:
        names |= set(OUTSIDE.get(base, "").split())
        if base.__module__.partition(".")[0] != library:
            continue
        names |= set(in_source(base))
        names |= {k for k, held in vars(base).items() if isinstance(held, cached_property)}
    return frozenset(names)


def found(name):
    """The attributes of the things of an id, as the code is now."""
    if name in registry.METHODS or not isinstance(registry.named(name), type):
        return []
    return sorted(filter(is_data, of_class(registry.named(name))))


def is_data(name):
    return not name.startswith(("__", "_skl_callbacks", "_callback", "_parent_callback"))


def in_corpora():
    """For each id and version, the attributes of its objects in the model files of each format."""
    seen = {}
    for folder in model_corpus.FOLDER.iterdir():
        for _, data, _, _ in model_corpus.read(folder):
            tensors, versions = files.safetensors.load(data), {}
            start = 8 + int.from_bytes(data[:8], "little")
            header = json.loads(json.loads(data[8:start])["__metadata__"]["mercer"])
            versions = header.get("versions", {})
            for record in json.loads(tensors["records"].tobytes()):
                if record[0] == "object":
                    name = format_1.IDS[record[1]] if header["version"] == 1 else record[1]
                    seen.setdefault((name, versions.get(name, 1)), set()).update(record[2::2])
    return seen


def main(amend):
    table = json.loads(TABLE.read_text())
    for name in sorted(registry.ids()):
        versions = table.setdefault(name, [found(name)])
        now, before = set(found(name)), set(versions[-1])
        if registry.is_theirs(name):  # whose releases differ
            versions[-1] = sorted(now | before)
        elif now != before:
            print(name, sorted(now ^ before))
            versions[-1 if amend else len(versions) :] = [sorted(now)]
    lines = [f"{json.dumps(name)}: {json.dumps(table[name])}" for name in sorted(table)]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main("--amend" in sys.argv[1:])
