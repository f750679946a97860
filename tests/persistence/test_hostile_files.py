"""Whatever a file holds, loading it gives a model or one of two errors, and runs nothing."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import numpy as safetensors

import mercer
from forged_files import CONSTANT, HEADER, constant, forge
from mercer import kernels as K
from mercer.persistence import files, format_1

TRIES = 300 * int(os.environ.get("MERCER_TEST_LENGTH", "1"))
fuzz = settings(
    max_examples=TRIES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def test_forged_files_can_be_right(tmp_path):
    loaded = mercer.load(forge(tmp_path / "it", constant(["list", 1, ["nan"], None])))
    assert isinstance(loaded, K.Constant)
    assert str(loaded.value) == "[1, nan, None]"


ATTACKS = {
    "no records": [],
    "not a list": {"a": 1},
    "an empty record": [[]],
    "no name": [[3]],
    "an unknown form": [["pickle", "x"]],
    "a form that is no name": [[["list"], 1]],
    "another library's class": [["object", "os.system"]],
    "a class nobody listed": [["object", "mercer.solvers.result.Monitor"]],
    "a class by its module": [["object", "mercer.kernels.vector.distance.RBF"]],
    "a class by its public name": [["object", "mercer.SVC"]],
    "an attribute of nobody's": [
        ["object", "kernel.RBF", "gamma", 1, "scales", None, "more", 1]
    ],
    "an attribute of another class": [["object", "kernel.Constant", "value", 1, "gamma", 1]],
    "who listens": [["object", "kernel.Constant", "value", 1, "_skl_callbacks", 1]],
    "a name that is none": [["object", 3]],
    "a builtin": [["object", "builtins.eval"]],
    "a function called a class": [
        ["object", "sklearn.metrics.pairwise.additive_chi2_kernel", "a", 1]
    ],
    "a class called a function": constant(["known function", "SVC"]),
    "a reference to itself": [["list", [0]], [*CONSTANT, [0]]],
    "a reference ahead": [["list", [1]], [*CONSTANT, [0]]],
    "a reference behind": [["list", [-1]], [*CONSTANT, [0]]],
    "a truth value for a reference": [["list", 1], [*CONSTANT, [True]]],
    "a nested part": [["list", [[1, 2]]], [*CONSTANT, [0]]],
    "an array that is not there": constant(["array", {"tensor": "7"}, "", None, ""]),
    "an array twice": constant(["array", {"tensor": "0", "more": 1}, "", None, ""]),
    "wrong axes": constant(["array", {"tensor": "0"}, "", None, "+0 +5"]),
    "no axes": constant(["array", {"tensor": "0"}, "", None, "abc"]),
    "objects as numbers": constant(["list"], ["array", {"tensor": "0"}, "O", [0], ""]),
    "a huge shape": constant(["list", 10**18, 10**18], ["array", None, "object", [0], ""]),
    "a huge text": constant(["list", 1], ["array", {"tensor": "0"}, "<U999999999", [0], ""]),
    "letters that are none": constant(["list", 6], ["array", {"tensor": "high"}, "<U1", [0], ""]),
    "a structure": constant(["list", 1], ["array", {"tensor": "0"}, "f8,f8", [0], ""]),
    "a method hidden": [["object", "kernel.Linear", "__call__", 1]],
    "predict hidden": [["object", "kernel.RBF", "gamma", 1, "scales", None, "diag", 1]],
    "a property hidden": [
        ["object", "kernel.RBF", "gamma", 1, "scales", None, "validity", 1]
    ],
    "the class replaced": [
        ["object", "kernel.RBF", "gamma", 1, "scales", None, "__class__", 1]
    ],
    "the dict replaced": [
        ["list"],
        ["object", "kernel.RBF", "gamma", 1, "scales", None, "__dict__", [0]],
    ],
    "an attribute that is no name": [["object", "kernel.Constant", "value", 1, "a b", 2]],
    "an attribute without a value": [["object", "kernel.Constant", "value"]],
    "an attribute twice": [["object", "kernel.Constant", "value", 1, "value", 2]],
    "a number for an attribute": [["object", "kernel.Constant", "value", 1, 2, 3]],
    "a missing parameter": [["object", "kernel.RBF", "gamma", 1]],
    "other fields": constant(["object", "solver.Result", "value", 1]),
    "no such member": constant(["member", "solver.Status", "__class__"]),
    "a member of no enumeration": constant(["member", "SVC", "fit"]),
    "a method nobody listed": [
        ["object", "kernel.Linear"],
        ["method", [0], "validity"],
        [*CONSTANT, [1]],
    ],
    "a function not given": constant(["function", "eval"]),
    "a partial of nothing": constant(
        ["tuple"], ["dict"], ["partial", 3, [0], [1]]
    ),
    "a dict without a value": constant(["dict", 1]),
    "a key that cannot be one": constant(["list"], ["dict", [0], 1]),
    "a set of lists": constant(["list"], ["set", [0]]),
    "a sparse matrix out of bounds": constant(
        ["list", 2, 2],
        ["array", {"tensor": "0"}, "", None, ""],
        ["array", {"tensor": "far"}, "", None, ""],
        ["array", {"tensor": "ends"}, "", None, ""],
        ["sparse", "csr", True, [0], [1], [2], [3]],
    ),
    "a sparse matrix too large": constant(
        ["list", 10**15, 10**15],
        ["array", {"tensor": "0"}, "", None, ""],
        ["sparse", "csr", True, [0], [1], [1], [1]],
    ),
    "an unknown sparse form": constant(
        ["list", 2, 2],
        ["array", {"tensor": "far"}, "", None, ""],
        ["sparse", "lil", True, [0], [1], [1], [1]],
    ),
    "a random state": constant(
        ["array", {"tensor": "far"}, "", None, ""], ["random state", "MT19937", [0], 1, 0, 0.0]
    ),
    "another generator": constant(
        ["dict", "bit_generator", "RandomState"], ["generator", [0]]
    ),
    "a type": constant(["type", "eval"]),
    "another type": constant(["type", "numpy V8"]),
    "features twice": constant(
        ["array", {"tensor": "twice"}, "", None, ""], ["key table", [0]]
    ),
    "labels twice": constant(["numbering", "a", "a"]),
    "a graph out of bounds": constant(
        ["numbering", None],
        ["array", {"tensor": "far"}, "", None, ""],
        ["array", {"tensor": "ends"}, "", None, ""],
        [
            "object", "data.Graph",
            "indptr", [2], "indices", [1], "node_codes", [1], "edge_codes", [1],
            "nodes", [0], "edges", [0],
        ],
    ),
    "a tree of nothing": constant(
        ["tuple"], ["object", "data.Tree", "labels", [0], "children", [0]]
    ),
    "a tree with a loop": constant(
        ["tuple", "a"],
        ["tuple", 0],
        ["tuple", [1]],
        ["object", "data.Tree", "labels", [0], "children", [2]],
    ),
    "a table without names": constant(["table", 1, 2]),
    "a slice of nothing": constant(["slice"]),
    "an endless range": constant(["range", 1, 2, 0]),
    "something else": [["list", 1]],
    "a result alone": [["member", "solver.Status", "EXACT"]],
    "a long number": b"[" + b"9" * 10_000 + b"]",
    "no text": b"\xff\xfe",
    "deep brackets": b"[" * 1_000_000,
}  # fmt: skip
TENSORS = {
    "0": np.zeros(4, dtype=np.uint8),
    "high": np.full(24, 255, dtype=np.uint8),
    "far": np.array([0, 10**9]),
    "ends": np.array([0, 1, 2]),
    "twice": np.zeros((2, 1), dtype=np.uint32),
}


def in_format_1(records):
    """The records with the names that classes had in version 1."""
    names = {new: old for old, new in [*format_1.IDS.items(), *format_1.METHODS.items()]}
    if not isinstance(records, list):
        return records
    return [
        [names.get(part, part) if isinstance(part, str) else part for part in record]
        for record in records
    ]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_refused_in_a_line(name, version, tmp_path):
    records = ATTACKS[name] if version == 2 else in_format_1(ATTACKS[name])
    header = {**HEADER, "version": version}
    path = forge(tmp_path / "it", records, TENSORS, header)
    with pytest.raises(ValueError, match="cannot be loaded") as caught:
        mercer.load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 700
    with contextlib.suppress(ValueError):
        files.inspect(path)


def test_keys_that_take_ages_to_hash(tmp_path):
    """A tuple of two tuples of two tuples ...: 2^60 parts in sixty records."""
    records = [["tuple", 1, 2], *(["tuple", [i], [i]] for i in range(60))]
    for form in (["dict", [60], 1], ["set", [60]], ["frozenset", [60]], ["numbering", [60]]):
        with pytest.raises(ValueError, match="too many parts"):
            mercer.load(forge(tmp_path / "it", constant(*records, form)))
    deep = [["tuple"], *(["tuple", [i]] for i in range(90_000))]
    with pytest.raises(ValueError, match="key is too large"):
        mercer.load(forge(tmp_path / "it", constant(*deep, ["set", [90_000]])))
    assert mercer.load(forge(tmp_path / "it", constant(*deep))).value is not None


def test_loading_takes_memory_for_what_is_there_only(tmp_path):
    """In 1 GiB, of which most is taken by the libraries' address space, all attacks fail alike."""
    for i, (name, records) in enumerate(ATTACKS.items()):
        if name != "deep brackets":
            forge(tmp_path / f"{i}.mercer", records, TENSORS)
    code = (
        "import sys, pathlib, mercer\n"
        "bad = []\n"
        "for path in sorted(pathlib.Path(sys.argv[1]).glob('*.mercer')):\n"
        "    try:\n"
        "        mercer.load(path)\n"
        "        bad.append(path.name)\n"
        "    except ValueError:\n"
        "        pass\n"
        "print(bad)\n"
    )

    resource = pytest.importorskip("resource", reason="this system sets processes no limits")

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))

    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        preexec_fn=limit,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    assert run.stdout.strip() == "[]", run.stderr


# The header.


@pytest.mark.parametrize("version", [3, 0, 10**12, "1", None, [1], 1.5])
def test_other_versions(version, tmp_path):
    path = forge(tmp_path / "it", constant(["list"]), header={**HEADER, "version": version})
    with pytest.raises(ValueError, match=r"it has the format .* this mercer .* reads 1 to 2"):
        mercer.load(path)
    with pytest.raises(ValueError, match="it has the format"):
        mercer.read_notes(path)


@pytest.mark.parametrize(
    "header",
    [[], 3, {}, {"version": 1}, {**HEADER, "notes": 3}, {**HEADER, "functions": []}],
    ids=repr,
)
def test_headers_that_are_none(header, tmp_path):
    with pytest.raises(ValueError, match=r"no header|header has no|the format None"):
        mercer.load(forge(tmp_path / "it", constant(["list"]), header=header))


def test_functions_a_file_asks_for_come_from_the_user_only(tmp_path):
    header = {**HEADER, "functions": {"f": "somewhere"}}
    path = forge(tmp_path / "it", constant(["function", "f"]), header=header)
    with pytest.raises(ValueError, match="code of yours"):
        mercer.load(path)
    assert mercer.load(path, functions={"f": len}).value is len


def test_truth_values_that_are_none(tmp_path):
    odd = np.array([0, 1, 7], dtype=np.uint8).view(bool)
    records = constant(["array", {"tensor": "odd"}, "", None, ""])
    with pytest.raises(ValueError, match="truth values"):
        mercer.load(forge(tmp_path / "it", records, {"odd": odd}))


def test_numbers_of_other_kinds(tmp_path):
    """A kind of numbers that NumPy does not have, or that are not where they are said to be."""
    good = forge(tmp_path / "it", constant(["list"]), {"0": np.zeros(2, dtype=np.float16)})
    data = good.read_bytes()
    for old, new in ((b'"F16"', b'"BF8"'), (b'"F16"', b'"F32"'), (b'"shape":[2]', b'"shape":[9]')):
        assert old in data
        good.write_bytes(data.replace(old, new))
        with pytest.raises(ValueError, match="cannot be loaded"):
            mercer.load(good)
    half = forge(tmp_path / "it", constant(["list"]), {"0": np.zeros(2, dtype=np.float16)})
    half.write_bytes(half.read_bytes().replace(b'"F16"', b'"BF16"', 1))
    with pytest.raises(ValueError, match="cannot be loaded"):
        mercer.load(half)


# Files that are none.


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 7,
        b"\xff" * 8,
        b"\xff" * 1000,
        b"\x02\0\0\0\0\0\0\0{}",
        b"\x80\x04\x95cos\nsystem\n(S'true'\ntR.",
        b"PK\x03\x04" + b"\0" * 100,
        (2**60).to_bytes(8, "little") + b"{}",
        (20).to_bytes(8, "little") + b"[" * 20,
    ],
    ids=range(9),
)
def test_files_that_are_none(data, tmp_path):
    path = tmp_path / "it"
    path.write_bytes(data)
    for read in (mercer.load, mercer.read_notes):
        with pytest.raises(ValueError, match="it cannot be loaded"):
            read(path)


def test_a_plain_safetensors_file(tmp_path):
    safetensors.save_file({"a": np.zeros(3)}, tmp_path / "it")
    with pytest.raises(ValueError, match="mercer did not write"):
        mercer.load(tmp_path / "it")


def test_places_that_are_no_files(tmp_path):
    for path in (tmp_path, tmp_path / "missing", "/dev/zero", ""):
        with pytest.raises(OSError):  # noqa: PT011 (the system's own words)
            mercer.load(path)


# Damage.


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    model = mercer.SVC(kernel=K.RBF(0.5) + K.Linear()).fit(X, X[:, 0] > 0)
    path = tmp_path_factory.mktemp("damage") / "it.mercer"
    mercer.save(model, path, notes={"rows": 12})
    return path.read_bytes(), path.with_name("other.mercer"), model.decision_function(X), X


def check_damaged(data, saved):
    original, path, expected, X = saved
    path.write_bytes(data)
    try:
        loaded = mercer.load(path)
    except (ValueError, OSError):
        return
    assert data == original
    assert loaded.decision_function(X).tobytes() == expected.tobytes()


@fuzz
@given(st.data())
def test_flipped_bits(saved, data):
    original = bytearray(saved[0])
    for _ in range(data.draw(st.integers(1, 3))):
        bit = data.draw(st.integers(0, 8 * len(original) - 1))
        original[bit // 8] ^= 1 << bit % 8
    check_damaged(bytes(original), saved)


def test_every_byte_of_the_head_flipped(saved):
    """The text of the header, of which a flip may keep the grammar."""
    head = 8 + int.from_bytes(saved[0][:8], "little")
    for at in range(head):
        damaged = bytearray(saved[0])
        damaged[at] ^= 1 << at % 8
        check_damaged(bytes(damaged), saved)


@fuzz
@given(st.data())
def test_cut_and_spliced(saved, data):
    original = saved[0]
    a, b = sorted(data.draw(st.tuples(*[st.integers(0, len(original))] * 2)))
    middle = data.draw(st.binary(max_size=50))
    check_damaged(original[:a] + middle + original[b:], saved)


@fuzz
@given(st.data())
def test_damage_under_a_right_checksum(saved, data):
    """Records of a true model with parts exchanged: some load, none does anything else."""
    original, path, _, X = saved
    tensors = safetensors.load(original)
    records = json.loads(tensors.pop("records").tobytes())
    for _ in range(data.draw(st.integers(1, 4))):
        record = records[data.draw(st.integers(0, len(records) - 1))]
        place = data.draw(st.integers(0, len(record) - 1))
        record[place] = data.draw(
            st.one_of(
                st.none(),
                st.booleans(),
                st.integers(),
                st.floats(allow_nan=False, allow_infinity=False),
                st.text(max_size=5),
                st.sampled_from(["SVC", "object", "list", "dict", "array", "sparse"]),
                st.tuples(st.integers(-1, len(records))).map(list),
                st.sampled_from(sorted(tensors)).map(lambda name: {"tensor": name}),
            )
        )
    try:
        loaded = mercer.load(forge(path, records, tensors))
    except (ValueError, OSError):
        return
    # Wrong numbers may give any error, and end no process.
    with np.errstate(all="ignore"), contextlib.suppress(Exception):
        loaded.decision_function(X)


def test_a_value_written_out_is_not_much_larger_than_its_file(tmp_path):
    """Tuples of two equal tuples, sixty deep, would never be printed."""
    records = [["tuple", 1, 2], *(["tuple", [i], [i]] for i in range(60))]
    with pytest.raises(ValueError, match="too many parts"):
        mercer.load(forge(tmp_path / "it", constant(*records)))
    shared = [["list", *range(1000)], ["list", *([0] for _ in range(50))]]
    assert len(mercer.load(forge(tmp_path / "it", constant(*shared))).value) == 50


@pytest.mark.parametrize("form", ["set", "frozenset", "numbering", "dict"])
def test_keys_of_one_hash_are_refused(form, tmp_path):
    keys = [k * (2**61 - 1) for k in range(1, 200)]
    parts = [part for key in keys for part in (key, 0)] if form == "dict" else keys
    with pytest.raises(ValueError, match="199 keys have the same hash"):
        mercer.load(forge(tmp_path / "it", constant([form, *parts])))
    apart = [part for key in range(199) for part in (key, 0)] if form == "dict" else range(199)
    assert len(mercer.load(forge(tmp_path / "it", constant([form, *apart]))).value) == 199


@pytest.mark.parametrize("change", [{"version": True}, {"version": 1.0}, {"class": "SVC"}])
def test_headers_that_do_not_fit(change, tmp_path):
    path = forge(tmp_path / "it", constant(["list"]), header={**HEADER, **change})
    with pytest.raises(ValueError, match=r"it has the format|its header says"):
        mercer.load(path)


def test_arrays_that_nothing_holds_are_refused(tmp_path):
    with pytest.raises(ValueError, match="nothing in it has the array 'more'"):
        mercer.load(forge(tmp_path / "it", constant(["list"]), {"more": np.zeros(3)}))


def state_of(generator):
    """Records of a generator's state, for tests to change."""
    model = K.Constant(generator)
    return files.Packed(model, "K")


def with_field(packed, name, value):
    """The records with another value of one field, wherever it is."""
    records = json.loads(json.dumps(packed.records))
    changed = 0
    for record in records:
        for i in range(1, len(record) - 1):
            if record[i] == name and isinstance(record[i], str):
                record[i + 1], changed = value, changed + 1
    assert changed
    return records


@pytest.mark.parametrize("name", ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"])
def test_states_of_generators_are_checked_field_by_field(name, tmp_path):
    generator = np.random.Generator(getattr(np.random, name)(7))
    generator.integers(9, size=3, dtype=np.uint32)
    packed = state_of(generator)
    made = mercer.load(forge(tmp_path / "it", packed.records, packed.tensors)).value
    assert made.integers(10**6) == generator.integers(10**6)
    wrong = {
        "MT19937": [("pos", 10**8), ("pos", -1), ("pos", 625), ("pos", 1.0), ("key", None)],
        "PCG64": [("has_uint32", 2), ("uinteger", 2**32), ("inc", -1), ("inc", 2), ("state", 3)],
        "PCG64DXSM": [("has_uint32", -1), ("uinteger", "1"), ("inc", 2**128), ("inc", 0)],
        "Philox": [("buffer_pos", 10**8), ("buffer_pos", 5), ("buffer", None), ("counter", 1)],
        "SFC64": [("has_uint32", 10**8), ("state", None)],
    }[name]
    for field, value in wrong:
        records = with_field(packed, field, value)
        with pytest.raises(ValueError, match="generator is"):
            mercer.load(forge(tmp_path / "it", records, packed.tensors))


def test_random_states_are_checked_field_by_field(tmp_path):
    packed = state_of(np.random.RandomState(3))
    at = next(i for i, r in enumerate(packed.records) if r[0] == "random state")
    made = mercer.load(forge(tmp_path / "it", packed.records, packed.tensors)).value
    assert made.randint(10**6) == np.random.RandomState(3).randint(10**6)
    for place, value in ((3, 10**8), (3, -1), (3, True), (4, 2), (5, "0"), (2, None)):
        records = json.loads(json.dumps(packed.records))
        records[at][place] = value
        with pytest.raises(ValueError, match="random state is damaged"):
            mercer.load(forge(tmp_path / "it", records, packed.tensors))


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.MT19937])
def test_states_that_repeat_zero_forever_are_refused(make, tmp_path):
    """A normal number would be drawn from them again and again."""
    drawn = make(3) if make is np.random.RandomState else np.random.Generator(make(3))
    packed = state_of(drawn)
    ((name, key),) = packed.tensors.items()
    for first in (0, 1, 2**31 - 1):
        zeros = np.zeros_like(key)
        zeros[0] = first
        with pytest.raises(ValueError, match=r"(state|generator) is damaged"):
            mercer.load(forge(tmp_path / "it", packed.records, {name: zeros}))
    zeros[1] = 1
    made = mercer.load(forge(tmp_path / "it", packed.records, {name: zeros})).value
    assert np.isfinite(made.standard_normal())


def test_folders_processes_and_printing_are_not_restored(tmp_path):
    """A cache next to a model would be unpickled by the next fit."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    columns = ColumnTransformer([("all", StandardScaler(), [0])], n_jobs=2, verbose=True)
    X, y = np.arange(6.0)[:, None], np.arange(6.0)
    cache = str(tmp_path / "cache")
    model = make_pipeline(columns, mercer.SVR(), memory=cache, verbose=True).fit(X, y)
    mercer.save(model, tmp_path / "it")
    loaded = mercer.load(tmp_path / "it")
    assert (loaded.memory, loaded.verbose) == (None, False)
    assert (loaded[0].n_jobs, loaded[0].verbose) == (None, False)
    assert np.array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_and_devices_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", tmp_path):
        for read in (mercer.load, mercer.read_libsvm, mercer.persistence.files.read_notes):
            with pytest.raises(OSError, match=r"not a regular file|directory"):
                read(path)
