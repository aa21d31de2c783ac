#!/bin/sh
# SPDX-License-Identifier: MIT
#
# check-doc-examples.sh: compiles every ```c block of README.md, CONTRIBUTING.md and
# docs/, with the public headers alone and warnings as errors.
#
# A block with an #include or a function definition is a file of its own. Any other block
# is the inside of a function in which these are declared (the block may declare its own):
#
#     hf_client *c;  hf_hold *hold;  hf_error why;  int rc;
#
# A comment on the line above the fence gives what the text leaves out:
#
#     <!-- c: void write_report(uint64_t token); -->     declarations
#     <!-- c: continues -->                              after the earlier files of this page
set -eu
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Writes one source per block, with #line, so that messages name the page.
find README.md CONTRIBUTING.md docs -name '*.md' -type f 2>/dev/null | LC_ALL=C sort |
    xargs -r awk -v dir="$dir" '
function write_block(    out, head) {
    out = sprintf("%s/%04d.c", dir, ++count)
    head = "#include <holdfast.h>\n#include <holdfast/backend.h>\n"
    if (whole) {
        print (body ~ /#include/ ? "" : head) given (follow ? earlier : "") body >out
        earlier = earlier body
    } else {
        print head "#include <errno.h>\n#include <poll.h>\n#include <stdio.h>\n" \
            "#include <stdlib.h>\n#include <string.h>\n" given \
            "int example(hf_client *c, hf_hold *hold, hf_error why, int rc);\n" \
            "int example(hf_client *c, hf_hold *hold, hf_error why, int rc)\n{\n{\n" \
            body "}\nreturn c && hold && why.code && rc;\n}" >out
    }
    close(out)
}
FNR == 1 { inside = 0; earlier = given = "" }
!inside && /^ *```c *$/ {
    inside = 1
    whole = 0
    body = sprintf("#line %d \"%s\"\n", FNR + 1, FILENAME)
    next
}
inside && /^ *``` *$/ {
    write_block()
    inside = follow = 0
    given = ""
    next
}
inside {
    if (/^ *# *include/ || (/^\{/ && before ~ /^[A-Za-z_ ].*\)$/))
        whole = 1
    before = $0
    body = body $0 "\n"
    next
}
/^<!-- c: .* -->$/ {
    given = $0
    sub(/^<!-- c: /, "", given)
    sub(/ -->$/, "", given)
    follow = given == "continues"
    given = follow ? "" : given "\n"
    next
}
!/^ *$/ { given = ""; follow = 0 }
END { print count + 0 >(dir "/count") }
'

bad=0
for source in "$dir"/*.c; do
    [ -f "$source" ] || continue
    ${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-unused-variable \
        -Wno-unused-but-set-variable -Wno-unused-function -Wno-unused-parameter \
        -fsyntax-only -I include "$source" || bad=1
done
echo "doc examples: $(cat "$dir/count") blocks"
exit $bad
