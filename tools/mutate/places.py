# SPDX-License-Identifier: MIT
"""What a mutant is, and how the mutants of a C source are found.

A mutant changes one place: `before` is put ahead of the range [start, end) of the source
and `after` behind it. The text in between stays, so that mutants nest. `M(@)` in either
is the question "am I the mutant of this run?"; the number is put in when the sources are
written (schemata.py). `old` and `new` tell a reader what changes.

libclang finds the places. A place inside a macro is left alone: its pieces do not stand
in the source one after the other.
"""

import glob
import hashlib
import os
import re
from dataclasses import dataclass

import clang.cindex as clang
from clang.cindex import CursorKind as K
from clang.cindex import TypeKind as T

INTEGERS = {T.INT, T.UINT, T.LONG, T.ULONG, T.LONGLONG, T.ULONGLONG, T.SHORT, T.USHORT,
            T.CHAR_S, T.SCHAR, T.UCHAR, T.ENUM}
OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
         "+": "-", "-": "+"}
COMMENT = re.compile(rb"/\*.*?\*/|//[^\n]*", re.S)
STATEMENTS = {K.CALL_EXPR: "call", K.COMPOUND_ASSIGNMENT_OPERATOR: "assign",
              K.BINARY_OPERATOR: "assign", K.UNARY_OPERATOR: "assign",
              K.RETURN_STMT: "return", K.BREAK_STMT: "break",
              K.CONTINUE_STMT: "continue", K.GOTO_STMT: "goto"}
HERE = "\0"  # stands for the operand that is dropped
LEFT_ALONE = re.compile(r"^(assert|va_start|va_end|\(void\))\b")


@dataclass
class Mutant:
    """One change. `key` names it whatever the line; `id` is short for the key."""

    file: str
    function: str
    line: int
    operator: str
    old: str
    new: str
    start: int
    end: int
    before: str = ""
    after: str = ""
    nth: int = 0
    number: int = -1

    @property
    def words(self):
        parts = [self.file, self.function, self.operator, self.old, self.new]
        return " | ".join(parts + ([f"#{self.nth + 1}"] if self.nth else []))

    @property
    def key(self):
        return self.words.strip()

    @property
    def id(self):
        return hashlib.sha1(self.words.encode()).hexdigest()[:8]


def number_alike(mutants):
    """Tells mutants apart that read alike: the second, the third of a function."""
    seen = {}
    for mutant in sorted(mutants, key=lambda m: (m.file, m.start, m.end)):
        base = mutant.words
        mutant.nth = seen.get(base, 0)
        seen[base] = mutant.nth + 1
    return mutants


def squeeze(text):
    """One line, no comments: how a piece of source is shown and compared."""
    if isinstance(text, bytes):
        text = COMMENT.sub(b" ", text).decode()
    return " ".join(text.split())


class Source:
    """The mutants of one C file."""

    def __init__(self, top, file, arguments):
        self.file = file
        with open(os.path.join(top, file), "rb") as stream:
            self.text = stream.read()
        unit = clang.Index.create().parse(os.path.join(top, file), args=arguments)
        errors = [d for d in unit.diagnostics if d.severity >= clang.Diagnostic.Error]
        if errors:
            raise SystemExit(f"mutate: {file}: {errors[0]}")
        self.mutants = []
        self.path = os.path.join(top, file)
        for cursor in unit.cursor.get_children():
            place = cursor.location.file
            if (cursor.kind == K.FUNCTION_DECL and cursor.is_definition() and place and
                    place.name == self.path):
                self.function(cursor)

    # ---- helpers ----------------------------------------------------------------

    def span(self, cursor):
        return cursor.extent.start.offset, cursor.extent.end.offset

    def of(self, cursor):
        start, end = self.span(cursor)
        return squeeze(self.text[start:end])

    def add(self, operator, cursor, new, before, after, old=None, span=None):
        start, end = span or self.span(cursor)
        self.mutants.append(Mutant(
            self.file, self.name, cursor.extent.start.line, operator,
            old or squeeze(self.text[start:end]), new, start, end, before, after))

    def always(self, operator, cursor, whole=None):
        """The condition is true, and is not even asked."""
        new = squeeze(whole.replace(HERE, "true")) if whole else "true"
        self.add(operator, cursor, new, "(M(@) || (", "))")

    def never(self, operator, cursor, whole=None):
        new = squeeze(whole.replace(HERE, "false")) if whole else "false"
        self.add(operator, cursor, new, "(!M(@) && (", "))")

    def instead(self, operator, cursor, new):
        """Another expression of the same type."""
        self.add(operator, cursor, new, f"(M(@) ? ({new}) : (", "))")

    def gap(self, left, right):
        """The operator that stands between two operands; nothing in a macro."""
        start, end = self.span(left)[1], self.span(right)[0]
        return squeeze(self.text[start:end]).strip("() ") if start < end else ""

    def is_integer(self, cursor):
        return cursor.type.get_canonical().kind in INTEGERS

    def until_semicolon(self, cursor):
        """The span of a statement with its semicolon, None if there is none."""
        start, end = self.span(cursor)
        rest = COMMENT.sub(lambda m: b" " * len(m[0]), self.text[end:end + 200])
        blanks = len(rest) - len(rest.lstrip())
        if rest[blanks:blanks + 1] != b";" or end <= start:
            return None
        return start, end + blanks + 1

    # ---- statements ---------------------------------------------------------------

    def function(self, cursor):
        self.name = cursor.spelling
        self.result = cursor.result_type.get_canonical().kind
        body = list(cursor.get_children())[-1]
        if body.kind == K.COMPOUND_STMT:
            statements = list(body.get_children())
            self.last = statements[-1] if statements else None
            self.statements(body)

    def statements(self, block):
        for statement in block.get_children():
            self.statement(statement)

    def statement(self, cursor):
        kind = cursor.kind
        children = list(cursor.get_children())
        if kind == K.COMPOUND_STMT:
            self.statements(cursor)
        elif kind == K.IF_STMT:
            self.condition(children[0], "if")
            for child in children[1:]:
                self.statement(child)
        elif kind in (K.WHILE_STMT, K.FOR_STMT, K.DO_STMT):
            self.loop(cursor, children)
        elif kind == K.SWITCH_STMT:
            self.expression(children[0])
            self.statement(children[1])
        elif kind in (K.CASE_STMT, K.DEFAULT_STMT, K.LABEL_STMT):
            self.statement(children[-1])
        elif kind == K.DECL_STMT:
            for child in children:
                self.declaration(child)
        elif kind in STATEMENTS:
            self.deletion(cursor, STATEMENTS[kind])
            self.inside_statement(cursor, children)
        else:
            for child in children:
                self.expression(child)

    def inside_statement(self, cursor, children):
        if cursor.kind == K.RETURN_STMT and children:
            self.result_of(children[0])
        for child in children[1 if cursor.kind == K.CALL_EXPR else 0:]:
            self.expression(child)

    def result_of(self, value):
        text = self.of(value)
        if self.result == T.BOOL and text not in ("true", "false"):
            if self.connective(value) is None and not text.startswith("!"):
                self.instead("negate", value, f"!({text})")
        elif self.result in (T.INT, T.ENUM) and re.match(r"^(rc|-\d+|-?H?F?_?E[A-Z]+)$",
                                                         text):
            self.instead("answer", value, "0")

    def deletion(self, cursor, operator):
        span = self.until_semicolon(cursor)
        text = self.of(cursor)
        if not span or LEFT_ALONE.match(text):
            return
        if cursor.kind == K.RETURN_STMT and self.last and self.last == cursor:
            return
        if cursor.kind == K.BINARY_OPERATOR and "=" not in text:
            return
        if cursor.kind == K.UNARY_OPERATOR and not re.search(r"\+\+|--", text):
            return
        self.add(f"drop-{operator}", cursor, "", "{ if (!M(@)) { ", " } }",
                 old=text + ";", span=span)

    def loop(self, cursor, children):
        body = children[0] if cursor.kind == K.DO_STMT else children[-1]
        for child in children:
            if child == body:
                self.statement(child)
            elif child.kind == K.DECL_STMT:
                self.statement(child)
            elif child.type.kind != T.INVALID and self.is_asked(cursor, child):
                self.condition(child, "loop")
            else:
                self.expression(child)

    def is_asked(self, cursor, child):
        """Whether a child of a loop is its condition."""
        if cursor.kind != K.FOR_STMT:
            return True
        start, end = self.span(child)
        rest = self.text[end:end + 200].lstrip()
        ahead = self.text[self.span(cursor)[0]:start].rstrip()
        return rest[:1] == b";" and ahead[-1:] == b";"

    def declaration(self, cursor):
        if cursor.kind != K.VAR_DECL or cursor.storage_class == clang.StorageClass.STATIC:
            return
        is_array = cursor.type.get_canonical().kind == T.CONSTANTARRAY
        for child in cursor.get_children():
            if child.kind == K.INIT_LIST_EXPR or not is_array: # not what it measures
                self.expression(child)

    # ---- conditions and expressions ------------------------------------------------

    def bare(self, cursor):
        """Without parentheses and conversions that are not written."""
        while cursor.kind in (K.PAREN_EXPR, K.UNEXPOSED_EXPR):
            children = list(cursor.get_children())
            if len(children) != 1:
                break
            cursor = children[0]
        return cursor

    def connective(self, cursor):
        cursor = self.bare(cursor)
        children = list(cursor.get_children())
        if cursor.kind == K.BINARY_OPERATOR and len(children) == 2:
            between = self.gap(*children)
            return between if between in ("&&", "||") else None
        return None

    def condition(self, cursor, where):
        joined = self.connective(cursor)
        if where == "if" and joined != "&&":
            self.always("if-true", cursor)
        if joined != "||":
            self.never(f"{where}-false", cursor)
        self.expression(cursor, asked=True)

    def expression(self, cursor, asked=False):
        if cursor.kind in (K.PAREN_EXPR, K.UNEXPOSED_EXPR):
            for child in cursor.get_children():
                self.expression(child, asked)
            return
        children = list(cursor.get_children())
        if cursor.kind == K.BINARY_OPERATOR and len(children) == 2:
            self.binary(cursor, children, asked)
        elif cursor.kind == K.CONDITIONAL_OPERATOR and len(children) == 3:
            if self.gap(children[0], children[1]) == "?":
                self.condition(children[0], "if")
            children = children[1:]
        elif cursor.kind == K.UNARY_OPERATOR and not asked:
            text = self.of(cursor)
            if text.startswith("!") and not text.startswith("!!"):
                self.instead("no-not", cursor, f"!!({text[1:]})")
        elif cursor.kind == K.INTEGER_LITERAL:
            self.literal(cursor)
            return
        elif cursor.kind in (K.CXX_UNARY_EXPR, K.StmtExpr):
            return # sizeof
        for child in children:
            self.expression(child)

    def literal(self, cursor):
        swapped = {"true": "false", "false": "true"}.get(self.of(cursor))
        if swapped:
            self.instead("swap-bool", cursor, swapped)

    def binary(self, cursor, children, asked):
        left, right = children
        operator = self.gap(left, right)
        whole = lambda a, b: f"{a} {operator} {b}"
        if operator in ("&&", "||"):
            drop = self.always if operator == "&&" else self.never
            if self.connective(left) != operator: # of a chain, each alone
                drop("drop-operand", left, whole(HERE, self.of(right)))
            drop("drop-operand", right, whole(self.of(left), HERE))
        elif operator in ("<", "<=", ">", ">="):
            self.swapped("boundary", cursor, left, operator, right)
        elif operator in ("==", "!=") and not asked:
            self.swapped("equality", cursor, left, operator, right)
        elif operator in ("+", "-") and self.is_integer(cursor) and \
                self.is_integer(left) and self.is_integer(right):
            self.swapped("arithmetic", cursor, left, operator, right)
            self.instead("forget", cursor, self.of(left))
        elif operator == "|" and self.is_integer(cursor):
            self.instead("forget", cursor, self.of(left))

    def swapped(self, name, cursor, left, operator, right):
        plain = self.text[self.span(left)[0]:self.span(right)[1]]
        start = self.span(left)[0]
        head = self.text[start:self.span(left)[1]].decode()
        tail = self.text[self.span(right)[0]:self.span(right)[1]].decode()
        if plain.count(b"(") == plain.count(b")"):
            self.instead(name, cursor, squeeze(f"{head} {OTHER[operator]} {tail}"))


def compiler_arguments(top, made):
    """What libclang has to know; `made` holds the headers that the build makes."""
    own = sorted(glob.glob("/usr/lib/llvm-*/lib/clang/*/include"))[-1:]
    return ["-xc", "-std=gnu11", "-D_GNU_SOURCE", "-DHF_HAVE_TLS",
            '-DHF_MODULE_DIR="/nowhere"', f"-I{top}/include", f"-I{top}/src",
            f"-I{made}"] + [f"-isystem{path}" for path in own]
