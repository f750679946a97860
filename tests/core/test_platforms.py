"""What the build decides for compilers and processors, of which this machine has but one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mercer import core

PLATFORMS = Path(__file__).parents[2] / "cmake" / "platforms.cmake"
CMAKE = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")

with_cmake = pytest.mark.skipif(
    CMAKE is None or not PLATFORMS.exists(), reason="the build needs CMake and the source"
)


def said(tmp_path, *lines):
    """What CMake prints, in one line, and whether it went on to the end."""
    script = tmp_path / "script.cmake"
    head = ["cmake_minimum_required(VERSION 3.20)", f"include({PLATFORMS.as_posix()})"]
    script.write_text("\n".join([*head, *lines]), encoding="utf-8")
    run = subprocess.run([CMAKE, "-P", str(script)], capture_output=True, text=True)
    return " ".join((run.stdout + run.stderr).split()), run.returncode == 0


def decided(tmp_path, function, **variables):
    lines = [f"set({name} {value})" for name, value in variables.items()]
    found, done = said(tmp_path, *lines, f"{function}found)", 'message(STATUS "${found}")')
    assert done, found
    return found.removeprefix("-- ")


LEVELS = {
    "ARM has one": ({"CMAKE_SYSTEM_PROCESSOR": "aarch64", "MERCER_LEVELS": "all"}, "baseline"),
    "all": ({"CMAKE_SYSTEM_PROCESSOR": "AMD64", "MERCER_LEVELS": "all"}, "baseline;v3;v4"),
    "some": ({"CMAKE_SYSTEM_PROCESSOR": "x86_64", "MERCER_LEVELS": "v3"}, "baseline;v3"),
    "for another machine": (
        {
            "CMAKE_SYSTEM_PROCESSOR": "x86_64",
            "CMAKE_CROSSCOMPILING": "TRUE",
            "MERCER_LEVELS": "native",
        },
        "baseline;v3;v4",
    ),
    "Apple's processor from an older Mac": (
        {
            "APPLE": "TRUE",
            "CMAKE_SYSTEM_PROCESSOR": "x86_64",
            "CMAKE_OSX_ARCHITECTURES": "arm64",
            "MERCER_LEVELS": "native",
        },
        "baseline",
    ),
    "a universal module": (
        {
            "APPLE": "TRUE",
            "CMAKE_SYSTEM_PROCESSOR": "arm64",
            "CMAKE_OSX_ARCHITECTURES": "arm64 x86_64",
            "MERCER_LEVELS": "native",
        },
        "baseline;v3;v4",
    ),
}


@with_cmake
@pytest.mark.parametrize(("variables", "expected"), LEVELS.values(), ids=LEVELS)
def test_levels_of_a_platform(variables, expected, tmp_path):
    assert decided(tmp_path, "mercer_levels(", **variables) == expected


@with_cmake
def test_options_of_a_level(tmp_path):
    one = {"CMAKE_SYSTEM_PROCESSOR": "x86_64"}
    assert decided(tmp_path, "mercer_march(v3 ", **one) == "-march=x86-64-v3"
    both = {"APPLE": "TRUE", "CMAKE_OSX_ARCHITECTURES": "arm64 x86_64"}
    expected = "SHELL:-Xarch_x86_64 -march=x86-64-v4"
    assert decided(tmp_path, "mercer_march(v4 ", **both) == expected


@with_cmake
@pytest.mark.parametrize(
    ("compiler", "advice"),
    [("MSVC 19.40", "clang-cl"), ("GNU 10.2.1", "GNU 11 or later"), ("Clang 13.0", "Clang 14")],
)
def test_an_unsupported_compiler_is_refused_with_a_way_out(compiler, advice, tmp_path):
    # CMake sets the variable MSVC where the compiler is Microsoft's or takes its options.
    found, done = said(tmp_path, "set(MSVC 1)", f"mercer_check_compiler({compiler})")
    assert not done
    assert advice in found
    assert "pip install --config-settings=wheel.cmake=false ." in found


@with_cmake
@pytest.mark.parametrize("compiler", ["GNU 11.3.0", "Clang 14.0.6", "AppleClang 15.0", "NVHPC 1"])
def test_other_compilers_are_tried(compiler, tmp_path):
    assert said(tmp_path, f"mercer_check_compiler({compiler})") == ("", True)


@with_cmake
def test_a_level_that_does_not_exist(tmp_path):
    lines = ["set(CMAKE_SYSTEM_PROCESSOR x86_64)", "set(MERCER_LEVELS v5)", "mercer_levels(found)"]
    found, done = said(tmp_path, *lines)
    assert not done
    assert "'v5'; expected native, all, or a list" in found


@pytest.fixture
def level_of(monkeypatch):
    """The level in use on a machine, with these modules built."""

    def chosen(machine, *built, asked=None):
        baseline = SimpleNamespace(machine_level=lambda: machine)
        monkeypatch.setattr(core, "importlib", SimpleNamespace(import_module=lambda _: baseline))
        modules = [f"mercer.core.{core.MODULES[level]}" for level in built]
        monkeypatch.setattr(core, "find_spec", lambda name: name in modules or None)
        monkeypatch.delenv("MERCER_ISA", raising=False)
        if asked:
            monkeypatch.setenv("MERCER_ISA", asked)
        return core.level.__wrapped__()

    return chosen


def test_the_highest_level_that_is_built_and_that_the_machine_runs(level_of):
    assert level_of("x86-64-v4", "baseline", "x86-64-v4") == "x86-64-v4"
    assert level_of("x86-64-v3", "baseline", "x86-64-v4") == "baseline"  # moved to an older machine
    assert level_of("x86-64-v4", "baseline", "x86-64-v3") == "x86-64-v3"
    assert level_of("x86-64-v3", "baseline", "x86-64-v3", asked="baseline") == "baseline"


def test_a_level_that_cannot_be_had_is_refused(level_of):
    with pytest.raises(ImportError, match="MERCER_LEVELS=all"):
        level_of("x86-64-v4", "baseline", "x86-64-v4", asked="x86-64-v3")
    with pytest.raises(ImportError, match="runs x86-64-v3 at most"):
        level_of("x86-64-v3", "baseline", "x86-64-v4", asked="x86-64-v4")
