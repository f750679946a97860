"""Files appear whole or not at all."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import numpy as np
import pytest

import mercer
from mercer import kernels as K
from mercer import whole_files
from mercer.persistence import files


def test_the_format_is_safetensors_and_json(tmp_path):
    from safetensors import safe_open

    X = np.arange(6.0).reshape(3, 2)
    mercer.save(mercer.KernelRidge().fit(X, X[:, 0]), tmp_path / "it", notes={"a": 1})
    with safe_open(tmp_path / "it", framework="np") as file:
        metadata = file.metadata()
        arrays = [file.get_tensor(name) for name in file.keys()]  # noqa: SIM118
    header = json.loads(metadata["mercer"])
    assert header["version"] == 2
    assert header["class"] == "KernelRidge"
    assert header["notes"] == {"a": 1}
    assert any(np.array_equal(array, X) for array in arrays)
    assert b"pickle" not in (tmp_path / "it").read_bytes()


def test_one_model_gives_one_file(tmp_path):
    X = np.arange(6.0).reshape(3, 2)
    model = mercer.KernelRidge().fit(X, X[:, 0])
    for name in ("a", "b"):
        mercer.save(model, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file(failing, tmp_path, monkeypatch):
    path = tmp_path / "it"
    mercer.save(K.RBF(0.5), path)
    before = path.read_bytes()

    def fail(*arguments, **named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(whole_files.os, failing, fail)
    with pytest.raises(OSError, match="No space left"):
        mercer.save(K.RBF(0.25), path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["it"]


def test_ctrl_c_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "it"
    mercer.save(K.RBF(0.5), path)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(whole_files.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        mercer.save(K.RBF(0.25), path)
    assert mercer.load(path).gamma == 0.5
    assert os.listdir(tmp_path) == ["it"]


KILLED = """
import os, signal, sys, time
import numpy as np
import mercer
from mercer import kernels as K
from mercer import whole_files

path = sys.argv[1]
values = [K.FromMatrix(np.full((400, 400), float(i))) for i in range(2)]
mercer.save(values[0], path)


def killed_while(save):
    child = os.fork()
    if not child:
        save()
        os._exit(0)
    return child


def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)


def save_until(step):
    setattr(whole_files.os, step, die)
    mercer.save(values[1], path)


def save_forever():
    while True:
        for value in values:
            mercer.save(value, path)


for step in ("fsync", "replace"):
    _, status = os.waitpid(killed_while(lambda: save_until(step)), 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert mercer.load(path).A[0][0] == 0.0
begun = time.perf_counter()
for value in values:
    mercer.save(value, path)
once = time.perf_counter() - begun
rng, seen = np.random.default_rng(0), set()
for _ in range(100):
    child = killed_while(save_forever)
    time.sleep(rng.uniform(0, 3 * once))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    A = np.asarray(mercer.load(path).A)
    assert A.shape == (400, 400) and len(np.unique(A)) == 1
    seen.add(float(A[0, 0]))
print(sorted(seen))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "it")], capture_output=True, text=True
    )
    assert run.stdout.strip() == "[0.0, 1.0]", run.stderr


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions, and links for few")
def test_permissions_and_links(tmp_path):
    path, link = tmp_path / "it", tmp_path / "link"
    old = os.umask(0o027)
    try:
        mercer.save(K.RBF(), path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    link.symlink_to(path)
    mercer.save(K.RBF(0.25), link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert mercer.load(path).gamma == 0.25


def test_a_file_is_replaced_where_a_system_lacks_what_posix_has(tmp_path, monkeypatch):
    for name in ("fchmod", "O_NONBLOCK"):
        monkeypatch.delattr(os, name, raising=False)
    for gamma in (0.5, 0.25):
        mercer.save(K.RBF(gamma), tmp_path / "it")
        assert mercer.load(tmp_path / "it").gamma == gamma


def test_places_that_cannot_be_written(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"folder .* does not exist"):
        mercer.save(K.RBF(), tmp_path / "missing" / "it")
    with pytest.raises(OSError, match="not a regular file"):
        mercer.save(K.RBF(), tmp_path)
    with pytest.raises(OSError, match="not a regular file"):
        mercer.save(K.RBF(), os.devnull)


def test_importing_mercer_does_not_import_this():
    later = "'mercer.persistence' in sys.modules, 'safetensors' in sys.modules"
    code = f"import sys, mercer; print({later})"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.split() == ["False", "False"]
    assert {"load", "save", "read_notes"} <= set(dir(mercer))
    with pytest.raises(AttributeError, match="no attribute 'dump'"):
        _ = mercer.dump


def test_inspect_lists_what_is_inside_and_builds_nothing(tmp_path, monkeypatch):
    X = np.arange(6.0)[:, None]
    model = mercer.KernelRidge(kernel=K.RBF(0.5)).fit(X, X[:, 0])
    mercer.save(model, tmp_path / "m.mercer", notes={"by": "me"})
    monkeypatch.setattr("mercer.persistence.files.unpacked", None)
    found = files.inspect(tmp_path / "m.mercer")
    assert (found["class"], found["notes"]) == ("KernelRidge", {"by": "me"})
    assert found["classes"]["kernel.RBF"] >= 1
    assert sum(a["bytes"] for a in found["arrays"].values()) >= X.nbytes
    (tmp_path / "m.mercer").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="cannot be loaded"):
        files.inspect(tmp_path / "m.mercer")
