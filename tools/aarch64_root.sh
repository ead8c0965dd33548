#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Installs the libraries that a cross-build for AArch64 needs into a folder, from Debian's packages
# for arm64. The system's package lists are neither read nor changed, and root is not needed.
set -eu
[ $# -ge 1 ] || { echo "usage: $0 FOLDER [PACKAGE...]" >&2; exit 2; }
mkdir -p "$1"
root=$(cd "$1" && pwd)
shift
PACKAGES="libc6-dev libffi-dev libxxhash-dev libmpfr-dev libgmp-dev libcmocka-dev libllvm19
libpopt-dev libcjson-dev zlib1g-dev python3-minimal python3-numpy"
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $PACKAGES
[ "$(cat "$root/.packages" 2> /dev/null || true)" = "$*" ] && exit 0

state=$root/.apt
mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
: > "$state/status"
cat > "$state/apt.conf" << EOF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
Dir::State "$state";
Dir::State::lists "$state/lists";
Dir::State::status "$state/status";
Dir::Cache "$state/cache";
EOF
[ "$(id -u)" != 0 ] || echo 'APT::Sandbox::User "root";' >> "$state/apt.conf"
apt() {
    APT_CONFIG=$state/apt.conf apt-get -qq "$@"
}
apt update
apt install -y --no-install-recommends --download-only "$@" > /dev/null
for package in "$state"/cache/archives/*.deb; do
    dpkg -x "$package" "$root"
done
rm -rf "$state"
echo "$*" > "$root/.packages"
