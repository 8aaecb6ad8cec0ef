"""Macro definitions and their expansion on the spot, so that every line keeps its number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

MAX_DEPTH = 12
"""Expansions inside expansions; what lies deeper stays as it is written."""

MAX_GROWTH = 2_000_000
"""Characters that the expansions of one file may add; calls past that stay as they are."""

TOKEN = re.compile(r'(?P<name>[A-Za-z_]\w*)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|\d[\w.\']*')
MARK = re.compile(r"/\*@(\d+)\*/")
"""A comment that says which line of the file the text after it stands on."""

LABEL = "unroll__"
"""How a label begins that stands for a pragma that unrolls."""

_OPENING = re.compile(r"(?:\s|/\*@\d+\*/)*\(")
_LAUNCH = re.compile(r"<<<|\bcudaLaunch\w+")
_PASTE = re.compile(r"\s*##\s*")


@dataclass(frozen=True, slots=True)
class Macro:
    """`#define name(parameters) body`; parameters are None for a plain name, `of_target` is true
    where another target has another one or none. It stands at `line` of the header `path`, or of
    the file itself."""

    name: str
    parameters: tuple[str, ...] | None
    body: str
    of_target: bool = False
    line: int = field(default=0, compare=False)
    path: str = field(default="", compare=False)


def definition(text: str) -> Macro | None:
    """The macro that the text after `#define` makes, None when it is malformed."""
    head = re.match(r"\s*([A-Za-z_]\w*)(\(([^()]*)\))?", text)
    if head is None:
        return None
    body = text[head.end() :].strip()
    if head.group(2) is None:
        return Macro(head.group(1), None, body)
    names = [part.strip() for part in head.group(3).split(",") if part.strip()]
    return Macro(head.group(1), tuple(names), body)


def with_lines(lines: Sequence[str], first: int, macros: Mapping[str, Macro]) -> str:
    """A directive over several lines as one; where it launches a kernel, perhaps through one of
    `macros`, with marks of the lines of the file, for what is decided there stands there and not
    where the macro is used."""
    whole = "\n".join(lines)
    if len(lines) < 2 or not (_LAUNCH.search(whole) or _through(whole, macros)):
        return whole.replace("\\\n", " ")
    marked = [
        line.removesuffix("\\") + (f" /*@{first + at + 1}*/" if at + 1 < len(lines) else "")
        for at, line in enumerate(lines)
    ]
    return "".join(marked)


def _through(text: str, macros: Mapping[str, Macro]) -> bool:
    """True when a macro is used that launches a kernel."""
    used = {m.group("name") for m in TOKEN.finditer(text)} & macros.keys()
    bodies = [macros[name].body for name in used]
    return any(MARK.search(body) or _LAUNCH.search(body) for body in bodies)


def elsewhere(macro: Macro, path: str) -> Macro:
    """A macro of a header as a file that includes it sees it: its lines are none of that file."""
    return replace(macro, body=MARK.sub(" ", macro.body), path=macro.path or path)


def closing(text: str, start: int, limit: int = 200_000) -> int:
    """Index after the bracket that closes the one at `start`; -1 when none does."""
    depth = 0
    for index in range(start, min(len(text), start + limit)):
        char = text[index]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0:
                return index + 1
    return -1


def arguments(text: str) -> list[str]:
    """The parts of an argument list between its brackets, split at outer commas."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]


@dataclass(slots=True)
class Expander:
    """Expands the macros of one text; `lines` are the offsets at which its lines start."""

    macros: Mapping[str, Macro]
    growth: int = 0

    def expand(self, text: str, first: int = 1) -> str:
        """The text with every known macro replaced, each line where it was; `first` is the number
        of its first line."""
        names = set(self.macros)
        if not names & set(re.findall(r"[A-Za-z_]\w*", text)):
            return text
        found: list[str] = []
        done, line, counted = 0, first, 0
        for match in TOKEN.finditer(text):
            if match.start() < done or match.group("name") not in names:
                continue
            line += text.count("\n", counted, match.start())
            counted = match.start()
            used = self._use(text, match, frozenset(), line)
            if used is None:
                continue
            replaced, end = used
            original = text[match.start() : end]
            found += [text[done : match.start()], replaced, "\n" * original.count("\n")]
            done = end
            self.growth += max(0, len(replaced) - len(original))
        return "".join([*found, text[done:]])

    def _use(
        self, text: str, match: re.Match[str], hidden: frozenset[str], line: int
    ) -> tuple[str, int] | None:
        """What a use of a macro stands for, in one line, and where the use ends."""
        macro = self.macros[match.group()]
        if macro.name in hidden or len(hidden) > MAX_DEPTH or self.growth > MAX_GROWTH:
            return None
        back = f"/*@{line}*/" if MARK.search(macro.body) else ""
        if macro.parameters is None:
            made = self._again(macro.body, hidden | {macro.name}, line)
            return made + back, match.end()
        opening = _OPENING.match(text, match.end())
        if opening is None:
            return None
        end = closing(text, opening.end() - 1)
        if end < 0:
            return None
        given = [self._flat(part, hidden, line, text, match.start()) for part in
                 arguments(text[opening.end() : end - 1])]  # fmt: skip
        body = _substitute(macro, given)
        if len(body) + self.growth > MAX_GROWTH:
            return None
        self.growth += len(body) // 4
        return self._again(body, hidden | {macro.name}, line) + back, end

    def _flat(self, part: str, hidden: frozenset[str], line: int, text: str, start: int) -> str:
        """An argument in one line, with marks where the lines of the file begin."""
        if "\n" not in part:
            return self._again(part.strip(), hidden, line)
        first = line + text.count("\n", start, text.index(part, start))
        pieces = part.split("\n")
        marked = [f"/*@{first + i}*/{piece}" for i, piece in enumerate(pieces) if piece.strip()]
        return self._again(" ".join(marked), hidden, line) + f"/*@{line}*/"

    def _again(self, text: str, hidden: frozenset[str], line: int) -> str:
        """A replacement is searched for macros once more."""
        found: list[str] = []
        done = 0
        for match in TOKEN.finditer(text):
            if match.start() < done or match.group("name") not in self.macros:
                continue
            marks = MARK.findall(text, 0, match.start()) if hidden else []
            used = self._use(text, match, hidden, int(marks[-1]) if marks else line)
            if used is not None:
                found += [text[done : match.start()], used[0]]
                done = used[1]
        return "".join([*found, text[done:]])


def _substitute(macro: Macro, given: list[str]) -> str:
    names = macro.parameters or ()
    values: dict[str, str] = {}
    for index, name in enumerate(names):
        if name.endswith("..."):
            rest = ", ".join(given[index:])
            values["__VA_ARGS__"] = rest
            values[name.removesuffix("...") or "__VA_ARGS__"] = rest
        else:
            values[name] = given[index] if index < len(given) else ""
    return _PASTE.sub("", "".join(_pieces(macro.body, values)))


def _pieces(body: str, values: Mapping[str, str]) -> Iterator[str]:
    done = 0
    for match in TOKEN.finditer(body):
        name = match.group("name")
        if name not in values:
            continue
        before = body[done : match.start()]
        stringed = before.rstrip().endswith("#") and not before.rstrip().endswith("##")
        if stringed:
            yield before.rstrip()[:-1] + '"' + MARK.sub("", values[name]).replace('"', "'") + '"'
        else:
            here = [m.group() for m in MARK.finditer(body, 0, match.start())]
            yield before + values[name] + (here[-1] if here and MARK.search(values[name]) else "")
        done = match.end()
    yield body[done:]
