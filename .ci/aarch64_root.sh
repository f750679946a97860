#!/usr/bin/env bash
# Make a folder with a Python 3.11 for aarch64 and what the tests need, for qemu to run on any Linux:
#
#     .ci/aarch64_root.sh FOLDER && AARCH64_ROOT=FOLDER make portability
#
# Debian's packages of its release 12 are unpacked there, and wheels from PyPI. Needs apt, dpkg and
# pip, but no rights beyond those to write the folder; nothing is installed on the machine itself.
set -euo pipefail
root=$(realpath -m "${1:?name a folder}")
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
mkdir -p "$root"/apt/{lists/partial,archives/partial}
: > "$root/apt/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main" \
  > "$root/apt/sources.list"
options=(
  -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=
  -o Dir::State::lists="$root/apt/lists" -o Dir::State::status="$root/apt/status"
  -o Dir::Cache="$root/apt" -o Dir::Etc::sourcelist="$root/apt/sources.list"
  -o Dir::Etc::sourceparts=- -o Debug::NoLocking=1
)
apt-get "${options[@]}" -qq update
apt-get "${options[@]}" -qq install --yes --no-install-recommends --download-only \
  python3.11 libpython3.11-stdlib libstdc++6 > /dev/null
for package in "$root"/apt/archives/*.deb; do
  dpkg-deb --extract "$package" "$root"
done
# What mercer needs, and what the tests of wheels do.
needed=$("$python" - <<'END'
import tomllib
with open("pyproject.toml", "rb") as file:
    settings = tomllib.load(file)
print(*settings["project"]["dependencies"], *settings["tool"]["cibuildwheel"]["test-requires"])
END
)
# shellcheck disable=SC2086 (one word per requirement)
"$python" -m pip install --quiet --upgrade --target "$root/usr/lib/python3/dist-packages" \
  --platform manylinux2014_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux_2_28_aarch64 \
  --platform any --python-version 3.11 --implementation cp --only-binary=:all: \
  $needed
rm -r "$root/apt"
