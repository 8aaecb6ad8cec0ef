"""Source text as the parser takes it: one branch of every `#if`, macros expanded, attributes that
the grammar does not know noted and blanked. Every line keeps its number."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from extractors.cuda.checks import CHECKS
from extractors.cuda.conditions import HOPPER, OTHERS, Profile, holds, known
from extractors.cuda.macros import LABEL, MARK, Expander, Macro, closing, definition, with_lines
from extractors.cuda.public_headers import PUBLIC
from kb.evidence import Lines

MAX_MACRO = 20_000
"""Characters of a macro body; a longer one is not expanded."""

MAX_GAP = 2_000
"""Characters between a call and the bracket that closes its block."""

_COMMENT = re.compile(
    r'R"(?P<mark>[^()\\\s]{0,16})\((?:.|\n)*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
    r"|(?P<comment>//(?:\\\n|[^\n])*|/\*(?:.|\n)*?\*/)"
)
_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(\w+)(.*)", re.DOTALL)
_INCLUDE = re.compile(r'\s*([<"])([^>"]+)[>"]')
_ATTRIBUTE = re.compile(
    r"\b(__launch_bounds__|__other_launch_bounds__|__cluster_dims__|__maxnreg__|__block_size__|__align__|__CUDA_ALIGN__|alignas"
    r"|__attribute__|__declspec)\s*(?=\()"
)
_BOUNDS = "__launch_bounds__"
_OTHER_BOUNDS = "__other_launch_bounds__"
"""What launch bounds are read as that another target alone is compiled with."""

_SHARED = re.compile(r"\b__attribute__[ \t]*\([ \t]*\([ \t]*shared[ \t]*\)[ \t]*\)")
"""What `__shared__` stands for. Source: CUDA headers, crt/host_defines.h."""

_WORD = re.compile(
    r"\b(__grid_constant__|__noinline__|__forceinline__|__inline_hint__|__tile_global__"
    r"|__nv_pure__|_Pragma\s*\([^)]*\)|noexcept(?!\s*\())\b"
)
_LAMBDA = re.compile(r"(?<=\])(?:\s*\b__(?:device|host)__\b)+(?=\s*[({])")
"""Where a lambda may run. Source: CUDA C++ Programming Guide, extended lambdas."""

_BRACKETS = re.compile(r"\[\[[\w:,\s()]*\]\]")
_MEMBER_TEMPLATE = re.compile(r"(?<=[.>:])(\s*)template(?=\s+[A-Za-z_])")
_TYPENAME = re.compile(r"(?<=[;{}])(\s*)typename(?=\s+[A-Za-z_][\w:]*\s*\()")
"""Before a call that is a statement: nothing is declared."""

_UNENDED = re.compile(r"(?:;|\bdefault\s*:)(?:\s|/\*@\d+\*/)*[A-Za-z_]\w*\s*\(")
"""A call that is a statement, up to its bracket."""

_LITERAL = re.compile(r"\bU?INT(?:8|16|32|64)_C(?=\s*\()")
"""What gives a number its type. Source: ISO C, stdint.h."""

_LONE = re.compile(r"^[ \t]*[A-Z_][A-Z0-9_]{3,}[ \t]*$", re.MULTILINE)
"""A word alone on its line between statements: a macro of a header that is not there."""

_TARGET = re.compile(
    r"__CUDA_ARCH__\s*\)?\s*[<>=!]|[<>=]\s*\(?\s*__CUDA_ARCH__|__CUDA_ARCH_(?:FEAT|SPECIFIC|FAMILY)"
)
"""A condition on which device the code is compiled for; not on whether it is for one at all."""

_NAME = re.compile(r"[A-Za-z_]\w*")

_SAME_TARGET = re.compile(
    r"\bstatic_assert\s*\(\s*(?:__CUDA_ARCH__\s*==\s*([A-Za-z_]\w*)"
    r"|([A-Za-z_]\w*)\s*==\s*__CUDA_ARCH__)\s*,"
)
"""A name that the command line of the compiler gives the target's number, and that is checked."""


def labelled(rest: str) -> str:
    """A pragma that unrolls as a label of the loop after it."""
    return f"{LABEL}{re.sub(r'[^A-Za-z0-9_]', '', rest)}:"


_INLINE = re.compile(r"\b__inline__\b")


@dataclass(frozen=True, slots=True)
class Attribute:
    """A blanked attribute: where it stood, its name and the text between its brackets."""

    offset: int
    name: str
    text: str


@dataclass(slots=True)
class Prepared:
    """Text for the parser, ASCII only, with what was taken out of it."""

    text: str
    macros: dict[str, Macro]
    includes: list[str]
    attributes: list[Attribute]
    guessed: list[int]
    targets: list[Lines]
    platforms: list[Lines]
    beyond: int = 0
    """Lines of other files that count before its first."""
    _marks: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if "/*@" not in self.text:
            return
        for row, line in enumerate(self.text.split("\n")):
            if "/*@" in line:
                self._marks[row] = [(m.end(), int(m.group(1))) for m in MARK.finditer(line)]

    def line(self, row: int, column: int) -> int:
        """Line of the file (1-based) of a place in the text (0-based)."""
        marks = self._marks.get(row)
        if not marks:
            return self.beyond + row + 1
        index = bisect_right(marks, (column, 1 << 60)) - 1
        return self.beyond + (marks[index][1] if index >= 0 else row + 1)


def uncommented(text: str) -> str:
    """ASCII of equal length, unix line ends, no comments."""
    text = text.replace("\r\n", " \n").replace("\r", "\n").replace("\f", " ")
    text = text.encode("ascii", "replace").decode("ascii")
    return _COMMENT.sub(_blank_comment, text)


def _blank_comment(match: re.Match[str]) -> str:
    if match.group("comment") is None:
        return match.group()
    return blank(match.group())


def blank(text: str) -> str:
    """Spaces and line ends in place of a text."""
    return re.sub(r"[^\n]", " ", text)


@dataclass(slots=True)
class _Level:
    """An open `#if`: whether this branch is read, whether one was, the line where it began, and
    whether a condition of it asks for the target, or for whose devices the code is compiled."""

    active: bool
    taken: bool
    outer: bool
    line: int
    asks: bool
    of_platform: bool

    @property
    def of_target(self) -> bool:
        """Whether another target would read the branch that this one does not."""
        return self.asks and self.outer


def prepare(
    text: str, given: Mapping[str, Macro] | None = None, profile: Profile = HOPPER
) -> Prepared:
    """The text for the parser; `given` are macros of included headers."""
    macros = dict(given or {})
    reader = _Directives(macros, profile)
    plain = uncommented(text)
    target = str(profile.defined["__CUDA_ARCH__"])
    for match in _SAME_TARGET.finditer(plain):
        name = match.group(1) or match.group(2)
        macros.setdefault(name, Macro(name, None, target, of_target=True))
    body = reader.read(plain.split("\n"))
    attributes: list[Attribute] = []
    final = _blanked(_ended(body), attributes)
    return Prepared(final, macros, reader.includes, attributes, reader.guessed, reader.targets,
                    reader.platforms)  # fmt: skip


_SWITCH = re.compile(r"\b(?:AT|THO)_DISPATCH_SWITCH\b")
"""Takes cases one behind the other, with nothing between them: no text that a parser takes where
what makes a switch of them is not there. Source: PyTorch, ATen/Dispatch.h,
torch/headeronly/core/Dispatch.h."""


def _switching(macro: Macro) -> Macro:
    """A macro that hands code to such a switch as a call that is given the code once."""
    found = _SWITCH.search(macro.body) if macro.parameters else None
    if found is None or found.group() == macro.name:
        return macro
    given = [one.replace("...", "") or "__VA_ARGS__" for one in macro.parameters or ()]
    return replace(macro, body=f"{found.group()}({', '.join(given)})")


def _expands(macro: Macro) -> bool:
    whole = macro.name in CHECKS or macro.name in macro.body.split()
    return len(macro.body) <= MAX_MACRO and not whole


@dataclass(slots=True)
class _Directives:
    macros: dict[str, Macro]
    profile: Profile
    includes: list[str] = field(default_factory=list)
    guessed: list[int] = field(default_factory=list)
    targets: list[Lines] = field(default_factory=list)
    platforms: list[Lines] = field(default_factory=list)
    levels: list[_Level] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    grown: int = 0
    left_out: dict[str, Macro] = field(default_factory=dict)
    """Macros with launch bounds from branches that are not read, as those of another target."""

    @property
    def active(self) -> bool:
        return not self.levels or self.levels[-1].active

    def read(self, lines: list[str]) -> str:
        """The lines that are compiled; others, and directives, become empty."""
        found = self.waiting
        index = 0
        while index < len(lines):
            line = lines[index]
            if "#" not in line or not line.lstrip().startswith("#"):
                found.append(line if self.active else "")
                index += 1
                continue
            start = index
            while lines[index].endswith("\\") and index + 1 < len(lines):
                index += 1
            whole = with_lines(lines[start : index + 1], start + 1, self.macros)
            kept = self._directive(whole, start + 1)
            found += [kept, *[""] * (index - start)]
            index += 1
        self._expand()
        return "\n".join(self.done)

    def _expand(self) -> None:
        """Expand what was read so far by the macros as they stand here."""
        if not self.waiting:
            return
        given = {key: Macro(key, None, str(one)) for key, one in self.profile.defined.items()}
        all_of = given | PUBLIC | self.macros
        known_ = {name: _switching(macro) for name, macro in all_of.items() if _expands(macro)}
        expander = Expander(known_, self.grown)
        text = expander.expand("\n".join(self.waiting), len(self.done) + 1)
        self.grown = expander.growth
        self.done += text.split("\n")
        self.waiting.clear()

    def _directive(self, text: str, line: int) -> str:
        """What a directive leaves in the text: only a pragma that unrolls."""
        match = _DIRECTIVE.match(text)
        if match is None:
            return ""
        word, rest = match.group(1), match.group(2)
        if word in ("if", "ifdef", "ifndef", "elif", "else", "endif"):
            self._branch(word, rest, line)
        elif self.active and word == "define":
            found = definition(rest)
            if found is not None:
                kept = found if found.body else self.left_out.get(found.name, found)
                asks = any(one.asks for one in self.levels) or self._asks(kept.body)
                self._define(replace(kept, of_target=asks, line=line))
        elif word == "define" and _BOUNDS in rest and self.levels[-1].of_target:
            self._leave_out(rest)
        elif self.active and word == "undef":
            self._expand()
            self.macros.pop(rest.strip(), None)
        elif self.active and word == "include":
            named = _INCLUDE.match(rest)
            if named is not None:
                self.includes.append(named.group(2))
        elif self.active and word == "error" and self.levels:
            # What nothing decides and would not compile is not what is compiled.
            self.levels[-1].active = self.levels[-1].taken = False
        elif self.active and word == "pragma" and re.match(r"\s*(no)?unroll", rest):
            # Where the body of a statement is due, a directive would be taken for it.
            return labelled(rest) if self._inside_head() else text
        return ""

    def _define(self, macro: Macro) -> None:
        if self.macros.get(macro.name, macro) != macro:
            self._expand()
        self.macros[macro.name] = macro

    def _leave_out(self, rest: str) -> None:
        """Keep launch bounds of a branch that is not read, where this target has none."""
        found = definition(rest)
        if found is None:
            return
        other = replace(found, body=found.body.replace(_BOUNDS, _OTHER_BOUNDS))
        self.left_out[other.name] = other
        mine = self.macros.get(other.name)
        if mine is not None and not mine.body:
            self._define(other)

    def _inside_head(self) -> bool:
        """Whether the last line that is compiled ends in the bracket that closes a head."""
        lines = (one.rstrip() for one in reversed([*self.done[-8:], *self.waiting[-8:]]))
        return next((one for one in lines if one), "").endswith(")")

    def _branch(self, word: str, rest: str, line: int) -> None:
        if word == "endif":
            if self.levels:
                level = self.levels.pop()
                if level.asks and level.outer:
                    self.targets.append((level.line, line))
                if level.of_platform and level.outer:
                    self.platforms.append((level.line, line))
            return
        if word in ("elif", "else"):
            if self.levels:
                level = self.levels[-1]
                found = True if word == "else" else self._truth(rest, line, not level.taken)
                level.active = level.outer and not level.taken and found
                level.taken = level.taken or found
                level.asks = level.asks or self._asks(rest)
                level.of_platform = level.of_platform or OTHERS.search(rest) is not None
            return
        outer = self.active
        if word == "if":
            found = self._truth(rest, line, outer)
        else:
            names = rest.split()
            defined = known(names[0], self.macros, self.profile) if names else None
            found = defined is None or defined is (word == "ifdef")
        of_platform = OTHERS.search(rest) is not None
        self.levels.append(
            _Level(outer and found, found, outer, line, self._asks(rest), of_platform)
        )

    def _asks(self, text: str) -> bool:
        """Whether a condition, or the body of a macro, asks for the target."""
        if _TARGET.search(text) is not None:
            return True
        found = (self.macros.get(name) for name in _NAME.findall(text))
        return any(one is not None and one.of_target for one in found)

    def _truth(self, condition: str, line: int, told: bool) -> bool:
        """A condition that nothing decides counts as true, and the line is noted."""
        found = holds(condition, self.macros, self.profile)
        if found is None and told:
            self.guessed.append(line)
        return found is not False


def _ended(text: str) -> str:
    """The text with a semicolon behind calls that end a block without one: macros of headers that
    are not there, which bring their own."""
    found: list[str] = []
    done = 0
    for match in _UNENDED.finditer(text):
        end = closing(text, match.end() - 1) if match.end() > done else -1
        if end > 0 and re.match(r"\s*\}", text[end : end + MAX_GAP]):
            found += [text[done:end], ";"]
            done = end
    return "".join([*found, text[done:]])


def _blanked(text: str, attributes: list[Attribute]) -> str:
    """Attributes and words that the grammar trips over, replaced by spaces."""
    text = _SHARED.sub(lambda m: "__shared__".ljust(len(m.group())), text)
    pieces: list[str] = []
    done = 0
    for match in _ATTRIBUTE.finditer(text):
        if match.start() < done:
            continue
        opening = text.index("(", match.end())
        end = closing(text, opening, 2_000)
        if end < 0:
            continue
        inner = MARK.sub("", text[opening + 1 : end - 1]).strip()
        attributes.append(Attribute(match.start(), match.group(1), inner))
        pieces += [text[done : match.start()], blank(text[match.start() : end])]
        done = end
    text = "".join([*pieces, text[done:]])
    for pattern in (_WORD, _LAMBDA, _BRACKETS):
        text = pattern.sub(lambda m: blank(m.group()), text)
    text = _LONE.sub(_lone, text)
    text = _INLINE.sub("inline    ", text)
    text = _LITERAL.sub(lambda m: blank(m.group()), text)
    text = _TYPENAME.sub(lambda m: m.group(1) + " " * 8, text)
    return _MEMBER_TEMPLATE.sub(lambda m: m.group(1) + " " * 8, text)


def _lone(match: re.Match[str]) -> str:
    """Blank a lone word unless an expression or a list may go on around it."""
    before = match.string[max(0, match.start() - 400) : match.start()].rstrip()[-1:]
    after = match.string[match.end() : match.end() + 200].lstrip()[:1]
    between = before in ("", ";", "{", "}") and (after.isalpha() or after in ("", "_", "}", "#"))
    return blank(match.group()) if between and before + after != "{}" else match.group()
