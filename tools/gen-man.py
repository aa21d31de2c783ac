#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the man pages of section 3 from the public headers.

usage: gen-man.py [--list] VERSION DIRECTORY HEADER...

Writes holdfast.3 (the overview: the first comment of the first header, the errors, the
list of functions), a page for each group of functions, and for each further function of
a group a page that is a `.so` of the first. --list only prints the file names.

What a header must look like:
  - Declarations that no blank line separates are one group: the comment before them is
    about all of them. A comment in the middle is about those that follow it; one on the
    same line is about that declaration.
  - `/* ---- Title ---- */` begins a section.
  - A group without any comment belongs to the page before it.
  - Structs, enums and callbacks of the first header are shown on the page whose functions
    name them, in the same section, or else on the next page.
  - "Errors: HF_EX (when), HF_EY." and "Errors as those of hf_x()." become ERRORS, as do
    the codes elsewhere in the comment of a function that has a `why`.
  - `word` is a parameter, *word* a term, a line that ends early ends a paragraph.
"""

import os
import re
import sys

WIDTH = 88      # columns of the headers
SYNOPSIS = 72   # columns of a prototype
SUMMARY = 88    # columns of a summary
SLACK = 4       # columns by which a full line may be short

# ---- Reading a header ----------------------------------------------------------------


class Item:
    """A comment, a declaration, a macro or the title of a section."""

    def __init__(self, kind, text):
        self.kind, self.text = kind, text


def end_of_comment(text, at):
    return text.index("*/", at) + 2


def end_of_line(text, at):
    """The end of a preprocessor line, with those that continue it."""
    while True:
        end = text.find("\n", at)
        if end < 0 or text[end - 1] != "\\":
            return len(text) if end < 0 else end
        at = end + 1


def end_of_declaration(text, at):
    """After the semicolon, or after the body of a function."""
    depth, seen_body = 0, False
    while at < len(text):
        if text.startswith("/*", at):
            at = end_of_comment(text, at)
            continue
        c = text[at]
        depth += (c in "({[") - (c in ")}]")
        at += 1
        if c == "{" and depth == 1:
            seen_body = text[:at - 1].rstrip().endswith(")")
        if depth == 0 and (c == ";" or (c == "}" and seen_body)):
            return at
    raise ValueError("a declaration without an end")


def items_of(text):
    """The items of a header in their order; None where there is a blank line."""
    found, at = [], 0
    text = re.sub(r'#ifdef __cplusplus\n.*?#endif\n', "", text, flags=re.S)
    text = re.sub(r"/\* clang-format (on|off) \*/\n", "", text)
    while at < len(text):
        if text.startswith("\n", at):
            if text.startswith("\n\n", at):
                found.append(None)
            at += 1
            continue
        if text[at] in " \t":
            at += 1
            continue
        if text.startswith("/*", at):
            end = end_of_comment(text, at)
            title = re.fullmatch(r"/\* -+ (.*?) -+ \*/", text[at:end])
            if title:
                found.append(Item("section", title[1]))
            elif "\n" not in text[max(at - 1, 0):at] and found and found[-1]:
                found.insert(len(found) - 1, Item("comment", text[at:end]))
            else:
                found.append(Item("comment", text[at:end]))
        elif text[at] == "#":
            end = end_of_line(text, at)
            kind = "macro" if text.startswith("#define", at) else "other"
            found.append(Item(kind, text[at:end]))
        else:
            end = end_of_declaration(text, at)
            found.append(Item("declaration", text[at:end]))
        at = end
    return found


def words_of(comment):
    """The lines of a comment without its frame."""
    lines = comment[2:-2].split("\n")
    lines = [re.sub(r"^ \*( |$)", "", line).rstrip() for line in lines]
    lines[0] = lines[0].strip()
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    return lines


class Function:
    def __init__(self, declaration):
        text = re.sub(r"/\*.*?\*/", "", declaration, flags=re.S)
        text = re.sub(r"^(HF_API|static inline)\s+", "", " ".join(text.split()))
        text = re.sub(r"\s*(\{.*\}|;)$", "", text, flags=re.S)
        self.result, self.name, given = re.fullmatch(
            r"(.*?[ *])(\w+)\((.*)\)", text).groups()
        self.parameters = given.split(", ")
        self.inline = declaration.startswith("static")
        self.lines = []    # of the comment about this function alone
        self.text = text


class Type:
    """A struct, an enum, a callback or its initialiser."""

    def __init__(self, item, lines, section, following):
        self.item, self.lines, self.section = item, lines, section
        self.following = following    # the number of the page that comes next
        found = re.search(r"\b(hf_\w+)\s*[({]", item.text)
        self.name = found[1] if found else ""


class Page:
    def __init__(self, section, header):
        self.section, self.header = section, header
        self.functions, self.types = [], []
        self.lines = []    # of the comment about all functions
        self.title = ""    # if not that of the first function

    @property
    def name(self):
        return self.title or self.functions[0].name

    def names(self):
        return [self.title] * bool(self.title) + [f.name for f in self.functions]

    def comments(self):
        return [c for c in [self.lines] + [f.lines for f in self.functions] if c]


def is_function(item):
    return item.kind == "declaration" and re.match(r"(HF_API|static inline)\b", item.text)


def is_type(item):
    """What a reader has to see: no opaque struct."""
    if item.kind == "macro":
        return re.match(r"#define HF_\w+_INIT\b", item.text)
    return item.kind == "declaration" and not is_function(item) and \
        re.search(r"[{(]", item.text) and "#define" not in item.text


def groups_of(items):
    group = []
    for item in [*items, None]:
        if item is not None:
            group.append(item)
        elif group:
            yield group
            group = []


class Reader:
    """Collects the pages, their types and the facts of the overview over all headers."""

    def __init__(self, paths):
        self.pages, self.types, self.macros = [], [], []
        self.overview, self.errors = [], []
        for path in paths:
            self.read(path)
            for kind in self.types if path == paths[0] else []:
                self.give(kind)

    def read(self, path):
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        items, section = items_of(text), ""
        if not self.overview:
            self.overview = words_of([i for i in items if i][1].text)
            self.errors = re.findall(r'X\((HF_\w+), (-\d+), "(.*)"\)', text)
        for group in groups_of(items):
            section = next((i.text for i in group if i.kind == "section"), section)
            self.group(group, Page(section, path.partition("include/")[2]))

    def group(self, group, page):
        lines = []
        for item in group:
            if item.kind == "comment":
                lines = words_of(item.text)
                continue
            if is_function(item):
                function = Function(item.text)
                if page.functions:
                    function.lines = lines
                else:
                    page.lines = lines
                page.functions.append(function)
            elif is_type(item):
                self.types.append(Type(item, lines, page.section, len(self.pages)))
            elif item.kind == "macro":
                self.macro(item, lines)
            if item.kind != "macro":
                lines = []
        if page.functions:
            self.add(page)

    def macro(self, item, lines):
        """A constant: those that follow each other share a comment."""
        found = re.fullmatch(r"#define (HF_[A-Z_]+) +(\S.*)", item.text)
        if found and lines and found[1] != "HF_API":
            if not self.macros or self.macros[-1][1] is not lines:
                self.macros.append(([], lines))
            self.macros[-1][0].append((found[1], found[2]))

    def add(self, page):
        if page.functions[0].inline and not page.lines:
            # What makes a value: the page is that of its type.
            page.title = self.types[-1].name
            page.lines, self.types[-1].lines = self.types[-1].lines, []
        if page.comments():
            self.pages.append(page)
        else:
            self.pages[-1].functions += page.functions

    def give(self, kind):
        """A type to the page that shows it."""
        for page in self.pages:
            words = " ".join(f.text for f in page.functions)
            if page.section == kind.section and re.search(rf"\b{kind.name or '!'}\b", words):
                page.types.append(kind)
                return
        self.pages[min(kind.following, len(self.pages) - 1)].types.append(kind)


# ---- Roff ----------------------------------------------------------------------------

def plain(text):
    """Text in which roff finds nothing of its own."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = text.replace("~", "\\(ti").replace("^", "\\(ha").replace("'", "\\(aq")
    return "\n".join("\\&" + line if line.startswith(".") else line
                     for line in text.split("\n"))


class Roff:
    """Writes pages; knows which functions have one."""

    def __init__(self, reader, version):
        self.reader, self.version = reader, version
        self.home = {name: page.name for page in reader.pages for name in page.names()}
        self.sentences = {name: sentence for name, _, sentence in reader.errors}

    def prose(self, text, own=()):
        """Running text: parameters in italics, functions and codes bold."""

        def mark(found):
            word, call = found["word"], found["call"] or ""
            if found["quoted"]:
                return f"\\fI{plain(found['quoted'])}\\fP"
            if found["term"]:
                return f"\\fI{plain(found['term'])}\\fP"
            if word in self.home and word not in own:
                return f"\\fB{word}\\fP(3)"
            return f"\\fB{word}\\fP{call}"

        pattern = (r"`(?P<quoted>[^`]+)`|(?<!\w)\*(?P<term>\w+)\*(?!\w)|"
                   r"\b(?P<word>hf_\w+|HF_\w+)(?P<call>\(\))?")
        out, at = "", 0
        for found in re.finditer(pattern, text):
            out += plain(text[at:found.start()]) + mark(found)
            at = found.end()
        out += plain(text[at:])
        return out if not re.match(r"[.']", out) else "\\&" + out

    def head(self, name, names, summary):
        return ['.\\" Made by tools/gen-man.py; do not edit.',
                f'.TH {name.upper()} 3 "" "holdfast {self.version}" "holdfast manual"',
                ".SH NAME", f"{', '.join(names)} \\- {plain(summary)}"]

    # ---- Paragraphs ------------------------------------------------------------------

    def paragraphs(self, parts, own=()):
        """Paragraphs and lists of a comment."""
        out = []
        for kind, text in parts:
            out += [".IP \\(bu 2" if kind == "item" else ".PP", self.prose(text, own)]
        return out

    def literal(self, text):
        return [".PP", ".RS 4", ".EX", *plain(text).split("\n"), ".EE", ".RE"]

    # ---- A page of functions ---------------------------------------------------------

    def prototype(self, function):
        """One line of bold and italics, or several if it is long."""
        parts = [function.result + function.name + "("]
        width, lines, indent = len(parts[0]), [], " " * len(parts[0])
        indent = indent if len(indent) < 30 else " " * 8
        for i, given in enumerate(function.parameters):
            end = ", " if i + 1 < len(function.parameters) else ");"
            if width + len(given) + len(end) > SYNOPSIS and len(parts) > 1:
                lines.append(parts)
                parts, width = [indent], len(indent)
            parts.append(given + end)
            width += len(given + end)
        lines.append(parts)
        return [self.prototype_line(parts) for parts in lines]

    @staticmethod
    def prototype_line(parts):
        """Types bold, names of parameters in italics."""
        out = f"\\fB{parts[0]}\\fP"
        for part in parts[1:]:
            kind, name, end = re.fullmatch(r"(.*?)(\w+)([,;) ]+)", part).groups()
            if kind:
                out += f"\\fB{kind}\\fP\\fI{name}\\fP\\fB{end}\\fP"
            else:
                out += f"\\fB{name}{end}\\fP"
        return out.rstrip()

    def synopsis(self, page):
        out = [".SH SYNOPSIS", ".nf", f"\\fB#include <{page.header}>\\fP", ".PP"]
        for function in page.functions:
            out += self.prototype(function)
        return out + [".fi"]

    def description(self, page):
        out = [".SH DESCRIPTION"]
        several = len(page.comments()) > 1
        for i, function in enumerate(page.functions):
            lines = function.lines or (page.lines if i == 0 else [])
            if lines and several and not (i == 0 and page.title):
                out += [f".SS {function.name}()"]
            out += self.paragraphs(split_errors(lines)[0], page.names())
        if page.types:
            out += [".SS Types"]
        for kind in page.types:
            out += self.paragraphs(paragraphs_of(kind.lines), page.names())
            out += self.literal(kind.item.text)
        return out

    def errors(self, page):
        """The codes that the comments name, each with its sentence and the reason."""
        reasons, others = {}, []
        for lines in page.comments() if self.result(page) else []:
            rest, given, other = split_errors(lines)
            reasons.update(given)
            others += other
            for code in re.findall(r"(?<!calls )\bHF_E[A-Z]+\b", " ".join(t for _, t in rest)):
                reasons.setdefault(code, "")
        out = [".SH ERRORS"] if reasons or others else []
        for text in others:
            out += [self.prose(text, page.names())]
        for code in [c for c in self.sentences if c in reasons]:
            reason = reasons[code]
            out += [".TP", f"\\fB{code}\\fP", self.prose(
                self.sentences[code] + (f" ({reason})" if reason else ""), page.names())]
        return out

    def result(self, page):
        """What the functions return that fill `why` in; the others' comments say it."""
        names = [f"{f.name}()" for f in page.functions
                 if f.parameters[-1] == "hf_error *why"]
        if not names:
            return []
        value = "the descriptor" if page.name.endswith("_fd") else "0"
        verb = f"return{'s' * (len(names) == 1)} {value}, or a negative code."
        subject = " and ".join(", ".join(names).rsplit(", ", 1))
        return [".SH RETURN VALUE", self.prose(
            f"{subject} {verb} On failure `why`, if it is not NULL, says what happened.",
            page.names()), "\\fBholdfast\\fP(3) lists all codes."]

    def see_also(self, page):
        """The rest of the section, and what the page names."""
        words = re.findall(r"\bhf_\w+", " ".join(
            word for lines in page.comments() for word in lines) + " ".join(
                f.text for f in page.functions))
        shown = {kind.name: other.name for other in self.reader.pages
                 for kind in other.types}
        found = {self.home.get(word) or shown.get(word) for word in words}
        found |= {other.name for other in self.reader.pages
                  if other.section == page.section and other.header == page.header}
        found -= {None, page.name}
        return [".SH SEE ALSO", ",\n".join(
            f"\\fB{name}\\fP(3)" for name in [*sorted(found), "holdfast"])]

    def page(self, page):
        return [*self.head(page.name, page.names(), self.summary(page)),
                *self.synopsis(page), *self.description(page), *self.result(page),
                *self.errors(page), *self.see_also(page)]

    def summary(self, page):
        """The beginning of the comment; of several comments, the title of the section."""
        if len(page.comments()) > 1 and not page.title:
            text = page.section
        else:
            text = next(paragraphs_of(page.comments()[0]))[1]
        text = re.sub(r" \([^()]*[^()\w][^()]*\)", "", text)
        text = re.split(r"[.;:](?: |$)", re.sub(r"[`*](\w+)[`*]", r"\1", text))[0]
        while len(text) > SUMMARY and ", " in text:
            text = text.rpartition(", ")[0]
        return text if re.match(r"[A-Z_]{2}|hf_", text) else text[0].lower() + text[1:]

    # ---- The overview ----------------------------------------------------------------

    def overview_text(self):
        """The story of the header: its titles in capitals become headings."""
        out, lines = [], []
        for line in self.reader.overview[1:]:
            found = re.match(r"([A-Z]{4,})(?:[,:].*)?$", line)
            if found:
                out += self.paragraphs(paragraphs_of(lines)) + [f".SH {found[1]}"]
                lines = []
            else:
                lines.append(line)
        return out + self.paragraphs(paragraphs_of(lines))

    def overview(self):
        name, _, summary = self.reader.overview[0].rstrip(".").partition(": ")
        out = self.head(name, [name], summary)
        out += [".SH SYNOPSIS", ".nf", "\\fB#include <holdfast.h>\\fP", ".PP",
                "\\fBcc\\fP \\fIprogram.c\\fP \\fB$(pkg\\-config \\-\\-cflags "
                "\\-\\-libs holdfast)\\fP", ".fi", ".SH DESCRIPTION",
                "Each function has a manual page of its own, or shares one with those "
                "that belong to it."]
        section = ""
        for page in self.reader.pages:
            if page.section != section:
                section = page.section
                out += [f".SS {plain(section)}"]
            names = ", ".join(f"\\fB{n}\\fP(3)" for n in page.names())
            out += [".TP", names, self.prose(self.summary(page), page.names())]
        out += self.overview_text()
        out += [".SH ERRORS"]
        for code, value, sentence in self.reader.errors:
            out += [".TP", f"\\fB{code}\\fP ({plain(value)})", self.prose(sentence)]
        out += [".SH CONSTANTS"]
        for macros, lines in self.reader.macros:
            names = ", ".join(f"\\fB{name}\\fP = {plain(value)}" for name, value in macros)
            out += [".TP", names, self.prose(" ".join(t for _, t in paragraphs_of(lines)))]
        return out + [".SH SEE ALSO", "\\fBholdfast\\fP(1),\n\\fBholdfast\\-url\\fP(7)"]


# ---- Comments ------------------------------------------------------------------------

def paragraphs_of(lines):
    """(kind, text) of each paragraph; `item` is one of a list. A line ends early if the
    next word would have fitted well."""
    kind, text, last = "text", [], ""
    for line in [*lines, ""]:
        word = (line.split() or [""])[0]
        early = len(" * ") + len(f"{last} {word}") + SLACK <= WIDTH and kind == "text"
        if text and (not line or word == "-" or early):
            yield kind, " ".join(text)
            kind, text = "text", []
        if word == "-":
            kind, line = "item", line.lstrip()[2:]
        if line:
            text.append(line.strip())
            last = line


def split_errors(lines):
    """(paragraphs without the errors, {code: reason}, [sentences about errors])"""
    parts, reasons, others = [], {}, []
    for kind, text in paragraphs_of(lines):
        others += re.findall(r"\bErrors as [^.]*\.", text)
        text = re.sub(r" *\bErrors as [^.]*\.", "", text)
        before, found, after = text.partition("Errors: ")
        if found:
            end = end_of_sentence(after)
            for code, reason in re.findall(r"(HF_E[A-Z]+)(?: \(((?:[^()]|\(\))*)\))?",
                                           after[:end]):
                reasons[code] = reason
            parts += [(kind, before.strip()), ("text", after[end + 1:].strip())]
        else:
            parts.append((kind, text))
    return [(k, t) for k, t in parts if t], reasons, others


def end_of_sentence(text):
    """Where its full stop is: none in parentheses counts."""
    depth = 0
    for at, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == "." and depth == 0:
            return at
    return len(text)


# ---- Files ---------------------------------------------------------------------------

def text_of(lines):
    """The lines of a page; no paragraph begins right after a heading."""
    text = "\n".join(lines) + "\n"
    return re.sub(r"^(\.S[HS] .*\n)\.PP\n", r"\1", text, flags=re.M)


def pages(reader, version):
    """{file name: text}"""
    roff = Roff(reader, version)
    made = {"holdfast.3": text_of(roff.overview())}
    for page in reader.pages:
        made[f"{page.name}.3"] = text_of(roff.page(page))
        for name in page.names()[1:]:
            made[f"{name}.3"] = f".so man3/{page.name}.3\n"
    return made


def main(arguments):
    listing = arguments[:1] == ["--list"]
    version, directory, *headers = arguments[listing:]
    made = pages(Reader(headers), version)
    for name, text in made.items():
        if listing:
            print(name)
            continue
        with open(os.path.join(directory, name), "w", encoding="utf-8") as stream:
            stream.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
