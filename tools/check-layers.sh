#!/bin/sh
# SPDX-License-Identifier: MIT
#
# check-layers.sh: fails on an include that points the wrong way.
#
#   base       libc, base, the types of the two public headers
#   kit        base, kit, public headers; kit/tls*.c also OpenSSL (a module of its own)
#   backends/x its own directory, kit, base, public headers, any client library
#   core       core, base, public headers; core/registry.c also the generated list
#   shims      shims, kit, base, public headers
#   holdfast.c, holdfast_objects.c, api.h: core, base, public headers
#   include    itself, stdbool.h, stddef.h, stdint.h
#   cli, examples, bench, tests/contract   holdfast.h, their own files, tests/harness
#   tests/outside                          the public headers and its own files
#   other tests                            anything
#
# Core never names a store. And the lists of src/meson.build name what is there.
set -eu
cd "$(dirname "$0")/.."

bad=0
for source in $(sh tools/sources.sh src | grep '\.c$'); do
    if ! grep -qE "'([^']*/)?$(basename "$source")'" src/meson.build; then
        echo "$source:1: not in the lists of src/meson.build"
        bad=1
    fi
done
for name in $(sed -n "s/^ *'\(.*\.c\)',$/\1/p" src/meson.build); do
    if [ -z "$(find src -path "*/$name")" ]; then
        echo "src/meson.build:$(grep -nF "'$name'" src/meson.build | cut -d: -f1):" \
            "no such source: $name"
        bad=1
    fi
done

sh tools/sources.sh | xargs -r awk -f tools/strip.awk | awk '
function layer(path,    part) {
    split(path, part, "/")
    if (part[1] == "include")
        return path == "include/holdfast.h" ? "public" : "seam"
    if (path ~ /^src\/(holdfast|holdfast_objects|api)\.[ch]$/)
        return "api"
    if (path == "src/backends.inc")
        return "list"
    if (part[1] == "src" && part[2] == "backends")
        return "backends/" part[3]
    if (part[1] == "src")
        return part[2] ~ /^(base|kit|core|shims)$/ ? part[2] : "unknown"
    if (part[1] == "tests")
        return part[2] ~ /^(contract|outside|harness)$/ ? "tests/" part[2] : "tests"
    return part[1]
}
# "a/b/../c" -> "a/c"
function tidy(path) {
    while (match(path, /[^\/.][^\/]*\/\.\.\//))
        path = substr(path, 1, RSTART - 1) substr(path, RSTART + RLENGTH)
    return path
}
function there(path,    line, rc) {
    rc = (getline line < path)
    close(path)
    return rc >= 0
}
function resolve(from, name,    dir) {
    dir = from
    sub(/[^\/]*$/, "", dir)
    if (name == "backends.inc")
        return "src/backends.inc"
    if (name == "scripts.inc")
        return "src/backends/redis/scripts.inc"
    if (there(tidy(dir name)))
        return tidy(dir name)
    if (there("src/" name))
        return "src/" name
    if (there("include/" name))
        return "include/" name
    return tidy(dir name)
}
function complain(text) {
    print where ": " text
    bad = 1
}
BEGIN {
    libc = "^((sys|linux|asm|arpa|net|netinet)/.*|assert|ctype|dirent|dlfcn|endian|errno" \
        "|fcntl|float|fnmatch|getopt|grp|inttypes|limits|locale|math|mntent|poll|pthread" \
        "|netdb|pwd|sched|semaphore|setjmp|signal|spawn|stdalign|stdarg|stdatomic|stdbool" \
        "|stddef|stdint|stdio|stdlib|string|strings|syscall|time|uchar|unistd|wchar)" \
        "(\\.h)?$"
    may["base"] = " base public seam "
    may["kit"] = " kit base public seam "
    may["core"] = " core base public seam "
    may["shims"] = " shims kit base public seam "
    may["api"] = " api core base public seam "
    may["public"] = " "
    may["seam"] = " public "
    may["cli"] = " cli public "
    may["examples"] = " examples public "
    may["bench"] = " bench public tests/harness "
    may["tests/contract"] = " tests/contract tests/harness public "
    may["tests/outside"] = " tests/outside tests/harness public seam "
}
{
    match($0, /:[0-9]+:/)
    file = substr($0, 1, RSTART - 1)
    where = substr($0, 1, RSTART + RLENGTH - 2)
    code = substr($0, RSTART + RLENGTH)
    from = layer(file)
    if (from == "unknown")
        complain("this directory belongs to no layer")
    if (from == "core" &&
        tolower(code) ~ /redis|zookeeper|etcd|consul|postgres|mariadb|sqlite/)
        complain("core names a store")
}
code ~ /^[ \t]*#[ \t]*include/ && from !~ /^tests(\/harness)?$/ {
    angled = code ~ /</
    name = code
    sub(/^[^"<]*["<]/, "", name)
    sub(/[">].*$/, "", name)
    if (angled && name !~ /^holdfast(\.h|\/backend\.h)$/) {
        if ((from == "public" || from == "seam") && name !~ /^std(bool|def|int)\.h$/)
            complain("a public header includes <" name ">")
        else if (file ~ /^src\/kit\/tls/ && name ~ /^openssl\//)
            next
        else if (from ~ /^(base|kit|core|shims|api)$/ && name !~ libc)
            complain("<" name "> is not of the C library (layer " from ")")
        next
    }
    target = resolve(file, name)
    to = layer(target)
    if (from ~ /^backends\//)
        allowed = " " from " kit base public seam "
    else
        allowed = may[from]
    if (file == "src/core/registry.c")
        allowed = allowed "list "
    if (!index(allowed, " " to " "))
        complain(from " must not include " to " (" target ")")
}
END {
    if (NR == 0)
        print "no sources found"
    exit bad || NR == 0
}
' || bad=1
exit $bad
