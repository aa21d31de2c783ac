# SPDX-License-Identifier: MIT
#
# Prints C sources as `file:line:code`, without comments. With -v strings=1 the text
# inside string and character literals goes as well. A line whose comment holds `pause:`
# is printed with the mark `@pause` at its end (tools/check-banned.sh).

FNR == 1 { state = "code" }

{
    out = ""
    mark = /\/\*.*pause: .*\*\// ? " @pause" : ""
    n = length($0)
    for (i = 1; i <= n; i++) {
        c = substr($0, i, 1)
        two = substr($0, i, 2)
        if (state == "comment") {
            if (two == "*/") {
                state = "code"
                i++
            }
        } else if (state == "string") {
            if (c == "\\") {
                if (!strings)
                    out = out two
                i++
            } else if (c == quote) {
                state = "code"
                out = out c
            } else if (!strings) {
                out = out c
            }
        } else if (two == "/*") {
            state = "comment"
            out = out " "
            i++
        } else if (two == "//") {
            break
        } else {
            if (c == "\"" || c == "'") {
                state = "string"
                quote = c
            }
            out = out c
        }
    }
    # A literal never runs over the end of a line, except after a backslash.
    if (state == "string" && substr($0, n) != "\\")
        state = "code"
    print FILENAME ":" FNR ":" out mark
}
