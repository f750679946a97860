"""Damaged files of data and of LIBSVM's models: each is read, or refused in a line."""

from __future__ import annotations

import contextlib
import io
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

import mercer
from fuzz.damage import damaged
from fuzz.driver import fuzz
from mercer import kernels as K
from mercer.tables.readers import read

rng = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "a": [1.5, 2.5, None, 4.0],
        "b": ["x", "y y", "x,z", 'q"'],
        "n": [3, 1, 4, 1],
        "when": ["2024-01-31", "2024-02-01", "", "2024-03-01"],
        "money": ["$1,200.50", "$3.00", "$4.00", "$5.00"],
        "y": [0, 1, 0, 1],
    }
)


def svmlight() -> bytes:
    content = io.BytesIO()
    X = sp.csr_array(np.round(rng.normal(size=(6, 9)), 1) * (rng.random((6, 9)) < 0.4))
    dump_svmlight_file(X, [1, -1, 1, 2, 1, -1], content, zero_based=False)
    return content.getvalue()


COLLECTION = {
    "T/T_A.txt": b"1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n4, 5\n5, 4\n",
    "T/T_graph_indicator.txt": b"1\n1\n1\n2\n2\n",
    "T/T_graph_labels.txt": b"1\n-1\n",
    "T/T_node_labels.txt": b"0\n1\n0\n1\n1\n",
    "T/T_edge_labels.txt": b"0\n0\n1\n1\n0\n0\n1\n1\n",
}
TEXTS = {
    "csv": [
        TABLE.to_csv(index=False).encode(),
        TABLE.to_csv(index=False, sep=";", decimal=",").encode(),
        TABLE.to_csv(index=True).encode("utf-16"),
    ],
    "tsv": [TABLE.to_csv(index=False, sep="\t").encode()],
    "libsvm": [svmlight(), b"1 qid:1 1:0.5 # a comment\n0 qid:2 3:1e3\n"],
    "jsonl": [
        TABLE.to_json(orient="records", lines=True).encode(),
        TABLE.to_json(orient="records").encode(),
    ],
    "fasta": [b">s kind=a\nACGT\n>t kind=b\nAC\nGG\n", b">only\nMKV*\n\n>none\n"],
}


def archived(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return content.getvalue()


def binaries() -> dict[str, list[bytes]]:
    """Files of the other forms; of those whose libraries are missing, none."""
    rows = TABLE.assign(kind=pd.Categorical(["u", "v"] * 2), day=pd.to_datetime(TABLE["when"]))
    found: dict[str, list[bytes]] = {}

    def add(form: str, write) -> None:
        content = io.BytesIO()
        with contextlib.suppress(ImportError):
            write(content)
            found.setdefault(form, []).append(content.getvalue())

    add("npz", lambda file: np.savez(file, X=np.ones((4, 2)), y=np.arange(4)))
    add("xlsx", lambda file: rows.to_excel(file, index=False))
    add("parquet", lambda file: rows.to_parquet(file))
    add("parquet", lambda file: rows.set_index("b").to_parquet(file, compression="gzip"))
    for packing in ("uncompressed", "zstd", "lz4"):
        add("feather", lambda file, packing=packing: rows.to_feather(file, compression=packing))
    return found


BINARIES = binaries()
FORMS = [*TEXTS, "tu", *BINARIES]


def flipped(rng: np.random.Generator, content: bytes) -> bytes:
    """With some bytes changed, and perhaps some numbers of four or eight bytes."""
    changed = bytearray(content)
    for _ in range(rng.choice([1, 2, 8])):
        at = int(rng.integers(len(changed)))
        size = int(rng.choice([1, 1, 4, 8]))
        odd = [0, 1, 2, 255, 2**31 - 1, 2**32, 2**62, -1, -8, int(rng.integers(2**31))]
        number = odd[rng.integers(len(odd))] % 2 ** (8 * size)
        changed[at : at + size] = number.to_bytes(size, "little")
    return bytes(changed[: len(content) if rng.integers(8) else at])


def damaged_archive(rng: np.random.Generator, content: bytes) -> bytes:
    """An archive whose parts are damaged, under right checksums."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    for _ in range(rng.integers(1, 3)):
        name = str(rng.choice(list(files)))
        text = not name.endswith(".npy")
        files[name] = damaged(rng, files[name]) if text else flipped(rng, files[name])
    return archived(files)


def binary_file(rng: np.random.Generator, form: str) -> bytes:
    content = BINARIES[form][rng.integers(len(BINARIES[form]))]
    if form in ("npz", "xlsx") and rng.integers(8):
        return damaged_archive(rng, content)
    return flipped(rng, content)


def data_file(rng: np.random.Generator) -> bytes:
    """The name of a form, a line, and a file."""
    form = str(rng.choice(FORMS))
    if form in BINARIES:
        return form.encode() + b"\n" + binary_file(rng, form)
    if form == "tu":
        files = dict(COLLECTION)
        for _ in range(rng.integers(1, 3)):
            name = str(rng.choice(list(files)))
            files[name] = damaged(rng, files[name])
            if rng.integers(8) == 0:
                del files[str(rng.choice(list(files)))]
                break
        archive = archived(files)
        return b"tu\n" + (archive if rng.integers(3) else damaged(rng, archive))
    text = TEXTS[form][rng.integers(len(TEXTS[form]))]
    return form.encode() + b"\n" + damaged(rng, text)


@pytest.fixture
def check_data(tmp_path):
    def check(data: bytes) -> str:
        form, content = data.split(b"\n", 1)
        path = tmp_path / "it"
        path.write_bytes(content)
        outcome = form.decode()
        for asked in (outcome, None):  # by its form, and by how it begins
            try:
                found = read(str(path), asked)
            except (ValueError, OSError) as error:
                readable(error)
                outcome = f"refused as {form.decode()}"
            else:
                assert found.X is not None
                assert found.y is None or len(found.y) == np.shape(found.X)[0]
        if form == b"tu":
            with contextlib.suppress(ValueError, OSError):
                K.read_tu(path)
        return outcome

    return check


def readable(error: Exception) -> None:
    """Short enough, and of one line."""
    message = str(error)
    assert message
    assert "\n" not in message.strip(), message[:300]
    assert len(message) < 2000, message[:300]


@pytest.mark.filterwarnings("ignore")
def test_files_of_data(check_data):
    outcomes = fuzz("data", data_file, check_data, 700)
    for form in FORMS:
        assert outcomes[form]
        assert outcomes[f"refused as {form}"]


def libsvm_models() -> list:
    """Models of every machine and kernel that LIBSVM has."""
    X = np.round(rng.normal(size=(12, 3)), 2)
    y, labels = np.round(X[:, 0], 2), np.arange(12) % 3
    kernels = [K.Linear(), K.Polynomial(2), K.RBF(0.5), K.Sigmoid(0.1)]
    fitted = [mercer.SVC(kernel=k, indefinite="clip").fit(X, labels) for k in kernels[:3]]
    fitted += [mercer.SVC(kernel=kernels[2]).fit(X, labels > 0), mercer.SVR(kernel="rbf").fit(X, y)]
    fitted += [mercer.NuSVC(nu=0.2).fit(X, labels), mercer.OneClassSVM().fit(X)]
    fitted.append(mercer.SVC(kernel="precomputed").fit(kernels[2](X), labels))
    return fitted


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("libsvm") / "it"
    found = []
    for model in libsvm_models():
        mercer.write_libsvm(model, path)
        found.append(path.read_bytes())
    return found


@pytest.fixture
def check_model(tmp_path):
    def check(data: bytes) -> str:
        path = tmp_path / "it"
        path.write_bytes(data)
        try:
            model = mercer.read_libsvm(path)
        except (ValueError, OSError) as error:
            readable(error)
            return "refused"
        if model.n_features_in_ > 10_000:
            return "wide"
        new = np.zeros((2, model.n_features_in_))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model.predict(new)
            except ValueError:
                return "read, and no use"
        return "read"

    return check


@pytest.mark.filterwarnings("ignore")
def test_models_of_libsvm(check_model, written):
    def make(rng: np.random.Generator) -> bytes:
        return damaged(rng, written[rng.integers(len(written))])

    outcomes = fuzz("libsvm", make, check_model, 500)
    assert outcomes["read"]
    assert outcomes["refused"]
