"""Build the native core with every supported compiler that is found, and test each build.

Nothing is installed: compilers that are missing are listed. Warnings are errors. To save time only
the baseline and this machine's level are built. For Windows (MinGW) and macOS (Zig) the core is
compiled only; for ARM too, unless AARCH64_ROOT names a folder that `.ci/aarch64_root.sh` made, for
qemu to run the tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
BUILDS = HERE / "build" / "portability"
COMPILERS = [f"g++-{n}" for n in range(11, 17)] + [f"clang++-{n}" for n in (14, 16, 19)]
MINGW = "x86_64-w64-mingw32-g++-posix"
ARM = "aarch64-linux-gnu-g++"
QEMU = "qemu-aarch64-static"
# Of Zig, which `pip install ziglang` gets.
MACOS = ("aarch64-macos.11.0", "x86_64-macos.10.14")
JOBS = str(min(os.cpu_count() or 1, int(os.environ.get("JOBS", "2"))))
# Python finds the package built here, not the one that is installed for development.
# Where it is emulated, processes of its own are started by the emulator.
SITECUSTOMIZE = """import os, sys
sys.executable = os.environ.get("EMULATED_PYTHON", sys.executable)
sys.meta_path[:] = [f for f in sys.meta_path if "ScikitBuild" not in type(f).__name__]
"""
# What Python's headers ask of a 64-bit Windows: its own pyconfig.h comes with Windows alone.
WINDOWS_PYCONFIG = """#define MS_WIN64
#define MS_WINDOWS
#define HAVE_PY_SSIZE_T 1
#define PY_SSIZE_T_MAX LLONG_MAX
#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_TIME_T 8
#define SIZEOF_WCHAR_T 2
#define SIZEOF_PID_T 4
#define SIZEOF_DOUBLE 8
#define ALIGNOF_SIZE_T 8
#define ALIGNOF_MAX_ALIGN_T 8
#define HAVE_STDINT_H 1
#define HAVE_SYS_TYPES_H 1
#define HAVE_SYS_STAT_H 1
#define HAVE_ERRNO_H 1
#define WITH_THREAD 1
#define NT_THREADS
typedef long long Py_ssize_t;
"""


class Failed(Exception):
    """A step that failed, with its log."""


def run(log: Path, *command: str | Path, **options) -> str:
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "a", encoding="utf-8") as file:
        start = file.tell()
        status = subprocess.run(
            [str(part) for part in command],
            stdout=file, stderr=subprocess.STDOUT, cwd=HERE, **options,
        ).returncode  # fmt: skip
    said = log.read_text(encoding="utf-8")[start:]
    if status:
        raise Failed(log)
    return said


def tool(name: str) -> str:
    """A tool of the environment that runs this, or of the system."""
    own = Path(sys.executable).parent / name
    return str(own) if own.exists() else name


def built(name: str, compiler: str, *arguments: str) -> Path:
    """The folder with the package, its native modules built by the compiler."""
    folder, log = BUILDS / name, BUILDS / f"{name}.log"
    shutil.rmtree(folder, ignore_errors=True)
    log.unlink(missing_ok=True)
    run(
        log, tool("cmake"), "-S", HERE, "-B", folder, "-G", "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}", f"-DCMAKE_CXX_COMPILER={compiler}",
        f"-DPython_EXECUTABLE={sys.executable}", "-DMERCER_STRICT=ON", *arguments,
    )  # fmt: skip
    run(log, tool("ninja"), "-C", folder, "-j", JOBS)
    site = folder / "site"
    shutil.copytree(HERE / "src", site, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    run(log, tool("cmake"), "--install", folder, "--prefix", site)
    (site / "sitecustomize.py").write_text(SITECUSTOMIZE, encoding="utf-8")
    return site


def outcome(name: str, site: Path, folders: list[str], *python: str) -> str:
    """The last line of pytest, run on the package in `site`."""
    threads = dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"], "1")
    said = run(
        BUILDS / f"{name}.log", *(python or (sys.executable,)), "-m", "pytest", "-q",
        "-p", "no:cacheprovider", *folders,
        env={**os.environ, **threads, "PYTHONPATH": str(site)},
    )  # fmt: skip
    return said.strip().splitlines()[-1].strip("= ")


def with_native(compiler: str) -> str:
    return outcome(compiler, built(compiler, compiler, "-DMERCER_LEVELS=native"), ["tests/core"])


def compiled(name: str, compiler: list[str], headers: Path) -> None:
    """Compile headers and bindings; nothing is linked or run."""
    import nanobind

    flags = re.search(r"set\(options (.*)\)", (HERE / "CMakeLists.txt").read_text("utf-8"))
    for source in sorted((HERE / "src/mercer/core/native").glob("*.cpp")):
        run(
            BUILDS / f"{name}.log", *compiler, "-std=c++20", *flags[1].split(), "-Wall", "-Wextra",
            "-Wno-psabi", "-Werror", "-DNDEBUG", "-DMERCER_MODULE=_baseline", "-DNB_DOMAIN=mercer",
            f"-isystem{nanobind.include_dir()}", f"-isystem{headers}",
            "-Isrc/mercer/core/native/include", "-c", source, "-o", BUILDS / name / "object.o",
        )  # fmt: skip


def prepared(name: str) -> Path:
    """An empty folder for a build, and no log of an earlier one."""
    folder = BUILDS / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (BUILDS / f"{name}.log").unlink(missing_ok=True)
    return folder


def for_windows() -> str:
    headers = prepared("mingw") / "include"
    shutil.copytree(sysconfig.get_paths()["include"], headers)
    (headers / "pyconfig.h").write_text(WINDOWS_PYCONFIG, encoding="utf-8")
    compiled("mingw", [MINGW], headers)
    return "compiled only"


def for_macos(target: str) -> str:
    """With Clang and libc++ as Zig brings them, and the headers of the Python that runs this."""
    prepared(target)
    zig = [sys.executable, "-m", "ziglang", "c++", "-target", target]
    compiled(target, zig, Path(sysconfig.get_paths()["include"]))
    return "compiled only"


def for_arm() -> str:
    """Cross-compile, and run the tests by qemu where there is a Python for it."""
    site = built(
        "aarch64", ARM, "-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
    )  # fmt: skip
    for module in (site / "mercer" / "core").glob("*.so"):
        module.rename(module.with_name(module.name.split(".")[0] + ".so"))
    root = os.environ.get("AARCH64_ROOT")
    if not root or not shutil.which(QEMU):
        return "compiled only"
    emulated = BUILDS / "aarch64" / "python"
    emulated.write_text(f'#!/bin/sh\nexec {QEMU} -L {root} {root}/usr/bin/python3.11 "$@"\n')
    emulated.chmod(0o755)
    os.environ["EMULATED_PYTHON"] = str(emulated)
    return outcome("aarch64", site, ["tests/core", "tests/kernels"], str(emulated))


def version_of(compiler: str) -> str | None:
    """Its version, or None where it is not installed."""
    if compiler in MACOS:
        command = [sys.executable, "-m", "ziglang", "version"]
    elif shutil.which(compiler):
        command = [compiler, "-dumpversion"]
    else:
        return None
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def main() -> int:
    rows, failures = [], 0
    jobs = [(name, lambda name=name: with_native(name)) for name in COMPILERS]
    jobs += [(MINGW, for_windows), (ARM, for_arm)]
    jobs += [(target, lambda target=target: for_macos(target)) for target in MACOS]
    chosen = sys.argv[1:]
    for compiler, job in jobs:
        if chosen and compiler not in chosen:
            continue
        version = version_of(compiler)
        if version is None:
            rows.append((compiler, "not installed", "", ""))
            continue
        begun = time.perf_counter()
        try:
            result = job()
        except Failed as error:
            result = f"FAILED, see {Path(str(error)).relative_to(HERE)}"
            failures += 1
        rows.append((compiler, version, f"{time.perf_counter() - begun:.0f} s", result))
        print("  ".join(rows[-1]), flush=True)
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    print()
    for row in rows:
        print("  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
