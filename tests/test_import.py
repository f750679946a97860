"""What `import mercer` brings along."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import mercer

# Each takes a good part of the time that the import of an estimator may take.
SLOW = ["scipy.signal", "sklearn.linear_model", "sklearn.metrics", "sklearn.model_selection"]

FORGET = "[sys.modules.pop(name) for name in theirs]"


def imported(code, names):
    """Those of the modules that are there once the code has run in a fresh interpreter."""
    code = f"import sys; {code}; print([name for name in {names} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return run.stdout.strip()


def test_what_is_slow_to_import_waits_for_its_use():
    assert imported("from mercer import *", SLOW) == "[]"


@pytest.mark.parametrize(
    "code",
    [
        "from mercer import SVC",
        "from mercer import AutoKernelClassifier, KernelDensity, KernelRidge",
        "import mercer; mercer.SVC().fit([[0.0], [1.0]], [0, 1]).predict([[0.5]])",
    ],
)
def test_estimators_import_none_of_the_extras(code):
    """scikit-learn imports pandas on its own, where it is installed."""
    code = f"import sklearn.svm; theirs = set(sys.modules); {code}; {FORGET}"
    assert imported(code, ["pandas", "matplotlib", "dask", "torch", "networkx"]) == "[]"


def test_an_estimator_imports_its_own_family_only():
    others = ["machines", "ridge", "smoothing", "spectral", "clustering", "gaussian_process"]
    modules = [f"mercer.estimators.{family}" for family in others]
    assert imported("from mercer import SVC", [*modules, "mercer.core.triton.tiles"]) == "[]"


def test_the_command_says_how_it_is_used_before_anything_slow_is_imported():
    assert imported("import mercer.cli.app", ["sklearn", "scipy", "pandas", "matplotlib"]) == "[]"


def test_the_front_door_is_complete():
    everything = {}
    exec("from mercer import *", everything)
    assert set(mercer.__all__) <= set(everything)
    assert set(mercer.__all__) <= set(dir(mercer))
    assert set(mercer.estimators.__all__) <= set(mercer.__all__)


def without(modules, code):
    """What the code prints in a fresh interpreter that cannot import these modules."""
    code = f"import sys; sys.modules.update(dict.fromkeys({modules}))\n{textwrap.dedent(code)}"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return run.stdout.strip()


@pytest.mark.parametrize(
    "modules", [["dask", "distributed"], ["matplotlib"], ["pandas"], ["networkx"]]
)
def test_the_members_are_listed_whatever_is_not_installed(modules):
    code = """
        import inspect, mercer
        for module in (mercer, mercer.plots, mercer.kernels, mercer.estimators):
            members = dict(inspect.getmembers(module))
            print(sorted(set(module.__all__) - set(members)))
        print("distributed" in dir(mercer), hasattr(mercer, "distributed"))
        """
    lists = "[]\n" * 4
    assert without(modules, code) == f"{lists}True {'dask' not in modules}"


def test_what_is_not_installed_is_named_with_how_to_install_it():
    code = """
        import mercer
        class Collection:
            __dask_graph__ = None
        def distributed(): mercer.distributed
        def module(): import mercer.distributed
        def name(): from mercer import distributed
        def fit(): mercer.KernelRidge().fit(Collection(), [1.0])
        for attempt in (distributed, module, name, fit):
            try:
                attempt()
            except (AttributeError, ImportError) as error:
                print(type(error).__name__, "pip install 'mercer[dask]'" in str(error))
        """
    found = without(["dask", "distributed"], code)
    expected = ["AttributeError True", *["ModuleNotFoundError True"] * 3]
    assert found.splitlines() == expected
    code = """
        import mercer
        from mercer import kernels
        X, y = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [0, 1, 1]
        model = mercer.SVC().fit(X, y)
        pca = mercer.KernelPCA().fit(X)
        draw = mercer.plots
        for attempt in (
            lambda: draw.DecisionDisplay.from_estimator(model, X, y),
            lambda: draw.GramDisplay.from_kernel(kernels.RBF(), X),
            lambda: draw.ProofDisplay.from_kernel(kernels.RBF()),
            lambda: draw.ScreeDisplay.from_estimator(pca),
            lambda: draw.PreImageDisplay(rows={"given": [[[0.0]]]}).plot(),
        ):
            try:
                attempt()
            except ImportError as error:
                print("pip install 'mercer[plots]'" in str(error))
        """
    assert without(["matplotlib"], code).splitlines() == ["True"] * 5
