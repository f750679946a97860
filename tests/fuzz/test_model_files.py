"""Model files with damaged records, tensors and headers under a right checksum.

Loading one gives a model or a ValueError. What a model that was loaded says of points, and what it
learns from others, may be nonsense or any ordinary error; it ends no process and takes no time or
memory without limit.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Iterator
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from safetensors import numpy as safetensors
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import mercer
from every_estimator import lesson, made, names
from fuzz.driver import TooLong, fuzz, limits
from mercer import kernels as K
from mercer.persistence import files
from model_zoo import feature_maps, kernel_models, other_models, outputs, table
from naive_kernels import all_cases, points

LONG = os.environ.get("MERCER_TEST_LENGTH", "1") != "1" or "MERCER_FUZZ_SECONDS" in os.environ
N = 24
STRUCTURED = (
    *(K.Spectrum, K.Substring, K.Subsequence, K.Mismatch, K.WeightedDegree),
    *(K.WeisfeilerLehman, K.ShortestPath, K.RandomWalk, K.SubsetTree, K.SetJaccard),
)
# Values that are right somewhere, and wrong elsewhere.
ODD = [
    *(None, True, False, 0, 1, -1, 2, 3, 0.5, -0.5, 1e-300, 1e300, 2**31, 2**63, -(2**63), 10**25),
    *("", "a", "rbf", "auto", "precomputed", "0", "é", "x" * 300),
    *(["nan"], ["inf"], ["-inf"], [], {}),
]
DTYPES = [float, np.float32, np.float16, np.int64, np.int32, np.uint32, np.uint8, np.int8, bool]
VALUES = [0, 1, -1, 2, 100, 2**31 - 1, -(2**31), 2**62, np.nan, np.inf, -np.inf, 1e308, 1e-308]


def models() -> Iterator[tuple[str, object, object, tuple]]:
    """Names, models, points to ask about, and what to learn from; short to fit and to write."""
    rng = np.random.default_rng(0)
    for name in names():
        if not name.startswith("Auto"):
            given = lesson(name, N)
            yield name, made(name).fit(*given), given[0][:4], given
    y = np.arange(N) % 2
    for kernel in all_cases():
        if isinstance(kernel, STRUCTURED):
            X = points(kernel, N, rng)
            fitted = mercer.SVC(kernel=kernel, indefinite="clip").fit(X, y)
            yield f"SVC {kernel!r}", fitted, X[:4], (X, y)
            with contextlib.suppress(K.NoFiniteFeatureMap):
                yield f"features {kernel!r}", kernel.feature_map().fit(X), X[:4], (X,)
    mixed = K.Spectrum(2).on("word") + K.RBF(1.0).on(["size"])
    rows = table(rng, N).assign(kind=pd.Categorical(["u", "v"] * (N // 2)))
    steps = [StandardScaler(), OneHotEncoder()]
    coded = make_pipeline(
        make_column_transformer((steps[0], ["size"]), (steps[1], ["kind"])), mercer.SVC()
    )
    for name, model in (("table", mercer.SVC(kernel=mixed)), ("pipeline", coded)):
        yield name, model.fit(rows, y), rows[:4], (rows, y)
    local = mercer.NadarayaWatsonRegressor(categorical_features="from_dtype")
    yield "categories", local.fit(rows[["size", "kind"]], y), rows[["size", "kind"]][:4], ()
    X = sp.csr_array(np.round(rng.normal(size=(N, 3))))
    for state in (np.random.RandomState(3), 5):
        drawn = mercer.KernelPerceptron(kernel="rbf", random_state=state)
        yield f"sparse {state}", drawn.fit(X, y), X[:4], (X, y)
    if LONG:
        for name, model, X in [*other_models(), *feature_maps(), *kernel_models("SVC")]:
            yield name, model, X, ()


@cache
def written() -> list[tuple[str, dict, list, dict, object, tuple]]:
    """Names, headers, records and tensors of saved models, points and lessons."""
    found = []
    for name, model, X, given in models():
        try:
            packed = files.Packed(model, name)
        except TypeError:  # it holds a function of the user's
            continue
        header = {
            "sha256": files.NO_CHECKSUM,
            "version": files.VERSION,
            "class": files.class_name(type(model)),
            "functions": {},
            "mercer": "0",
            "notes": {},
            "scikit-learn": "1.9.1",
            "versions": packed.versions(),
        }
        if not packed.functions:
            records = json.loads(files._text(packed.records))
            found.append((name, header, records, packed.tensors, X, given))
    return found


def file_of(header: dict, records: object, tensors: dict[str, np.ndarray]) -> bytes:
    text = json.dumps(records).encode()
    held = {**tensors, "records": np.frombuffer(text, dtype=np.uint8)}
    written = json.dumps(header, separators=(",", ":"))
    data = safetensors.save(held, metadata={"mercer": written})
    return b"".join(files._signed(data)) if "sha256" in written else data


def part(rng: np.random.Generator, records: list, tensors: dict) -> object:
    """Something to stand in a record."""
    how = rng.integers(6)
    if how == 0:
        return [int(rng.integers(-1, len(records) + 1))]
    if how == 1 and tensors:
        return {"tensor": str(rng.choice(list(tensors)))}
    if how == 2:
        record = records[rng.integers(len(records))]
        return record[rng.integers(len(record))] if record else None
    if how == 3:
        _, _, others, *_ = written()[rng.integers(len(written()))]
        record = others[rng.integers(len(others))]
        return record[rng.integers(len(record))]
    return ODD[rng.integers(len(ODD))]


def change_records(rng: np.random.Generator, records: list, tensors: dict) -> None:
    record = records[rng.integers(len(records))]
    how = rng.integers(10)
    if how < 6 and record:
        record[rng.integers(len(record))] = part(rng, records, tensors)
    elif how == 6 and record:
        del record[rng.integers(len(record))]
    elif how == 7:
        record.insert(int(rng.integers(len(record) + 1)), part(rng, records, tensors))
    elif how == 8:
        i, j = rng.integers(0, len(records), 2)
        records[i], records[j] = records[j], records[i]
    else:
        _, _, others, *_ = written()[rng.integers(len(written()))]
        records[rng.integers(len(records))] = list(others[rng.integers(len(others))])


def change_tensors(rng: np.random.Generator, tensors: dict[str, np.ndarray]) -> None:
    if not tensors:
        return
    name = str(rng.choice(list(tensors)))
    A = np.array(tensors[name])
    how = rng.integers(9)
    if how < 4 and A.size:
        with np.errstate(all="ignore"):
            value = np.array(VALUES[rng.integers(len(VALUES))], float).astype(A.dtype)
        A.reshape(-1)[rng.integers(0, A.size, rng.integers(1, 4))] = value
    elif how == 4:
        with np.errstate(all="ignore"):
            A = A.astype(DTYPES[rng.integers(len(DTYPES))])
    elif how == 5:
        A = A[: rng.integers(0, len(A) + 1)] if A.ndim else A[None]
    elif how == 6:
        A = [A.ravel(), A[None], A.T, np.concatenate([A.ravel()] * 2)][rng.integers(4)]
    elif how == 7:
        A = np.array(tensors[str(rng.choice(list(tensors)))])
    elif A.size:
        A = A.reshape(-1)[rng.permutation(A.size)].reshape(A.shape)
    tensors[name] = np.ascontiguousarray(A)


def model_file(rng: np.random.Generator) -> bytes:
    """The name of a model in a line, then its file, damaged."""
    at = int(rng.integers(len(written())))
    name, header, records, tensors, *_ = written()[at]
    header, records, tensors = dict(header), json.loads(json.dumps(records)), dict(tensors)
    for _ in range(rng.choice([1, 1, 2, 4])):
        how = rng.integers(20)
        if how < 10:
            change_records(rng, records, tensors)
        elif how < 19:
            change_tensors(rng, tensors)
        else:
            key = str(rng.choice(list(header)[1:]))
            header[key] = ODD[rng.integers(len(ODD))]
            if rng.integers(4) == 0:
                del header[key]
    return name.encode() + b"\n" + file_of(header, records, tensors)


def hunted(folder):
    """What makes the files of this target, and what checks them in a folder."""

    def check(data: bytes) -> str:
        name, content = data.split(b"\n", 1)
        _, _, _, _, X, given = next(model for model in written() if model[0] == name.decode())
        path = folder / "it.mercer"
        path.write_bytes(content)
        try:
            with limits(5.0, 2.0):
                model = mercer.load(path)
                mercer.persistence.files.inspect(path)
        except (ValueError, OSError) as error:
            message = str(error)
            assert "\n" not in message, message[:300]
            assert len(message) < 1000, message[:300]
            return "refused"
        outcome = "loaded"
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                outputs(model, X)
                outcome = "predicts"
            except MemoryError:
                raise
            except Exception:
                pass
            # A fit may take as long as its parameters ask; it is left early, and not a finding.
            with contextlib.suppress(Exception, TooLong), limits(1.0):
                if given:
                    model.fit(*given)
                    outcome = "learns"
        return outcome

    return model_file, check


@pytest.mark.filterwarnings("ignore")
def test_model_files(tmp_path):
    make, check = hunted(tmp_path)
    outcomes = fuzz("models", make, check, 400)
    assert outcomes["refused"]
    assert outcomes["learns"]


def test_the_files_are_right_before_they_are_damaged(tmp_path):
    _, check = hunted(tmp_path)
    for name, header, records, tensors, *_ in written():
        outcome = check(name.encode() + b"\n" + file_of(header, records, tensors))
        assert outcome in ("predicts", "learns"), name
