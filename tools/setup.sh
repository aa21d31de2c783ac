#!/bin/sh
# SPDX-License-Identifier: MIT
#
# setup.sh GROUP...: installs the Debian packages that the groups need and that are not
# there yet. Says in one line what it installs; says and does nothing if all is there,
# so it is quick and needs no network then. Root, or sudo, is needed only to install.
# On a system without dpkg it trusts you to have the tools and only says so.
set -eu

install='gcc libc6-dev make meson ninja-build pkg-config python3 libssl-dev'
build="$install check"
examples='libuv1-dev'
test='util-linux openssl redis-server libzookeeper-java libslf4j-java default-jre-headless
    iproute2 nftables man-db groff-base zsh'
bench='util-linux redis-server redis-tools libzookeeper-java libslf4j-java default-jre-headless'
interop='openjdk-17-jdk-headless maven nodejs npm python3-redis libcurator-recipes-java
    python3-kazoo libzookeeper-mt-dev'
evidence='python3-redis etcd-server etcd-client libcurator-recipes-java openjdk-17-jdk-headless'
mutants='python3-clang'
lint='g++ clang clang-format clang-tidy cppcheck cmake git man-db mandoc
    abigail-tools'

wanted=
for group in "$@"; do
    case $group in
    install) wanted="$wanted $install" ;;
    build) wanted="$wanted $build" ;;
    examples) wanted="$wanted $examples" ;;
    test) wanted="$wanted $test" ;;
    bench) wanted="$wanted $bench" ;;
    evidence) wanted="$wanted $evidence" ;;
    interop) wanted="$wanted $interop" ;;
    lint) wanted="$wanted $lint" ;;
    mutants) wanted="$wanted $mutants" ;;
    *)
        echo "setup: no such group: $group" >&2
        exit 2
        ;;
    esac
done

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "setup: not a Debian system; needed, by their Debian names:$wanted" >&2
    exit 0
fi

missing=
for package in $wanted; do
    # A nodejs from elsewhere brings its own npm, and Debian's cannot live beside it.
    [ "$package" != npm ] || ! command -v npm >/dev/null 2>&1 || continue
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    case " $missing " in *" $package "*) continue ;; esac
    [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "setup: missing:$missing. Install them as root and try again." >&2
        exit 1
    fi
    as_root=sudo
fi

echo "setup: installing$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1
}
# Stale package lists are the usual reason for a failure: renew them, then try again.
# shellcheck disable=SC2086
if ! apt install --no-install-recommends $missing; then
    if ! apt update || ! apt install --no-install-recommends $missing; then
        cat "$log" >&2
        echo "setup: could not install$missing" >&2
        exit 1
    fi
fi
