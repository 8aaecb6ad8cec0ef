"""Named questions: the `.rq` files of `kb/queries`, their header, and how values are bound.

A question is valid SPARQL as it stands. Its header comments say what it is:

    # title: Axes shared by two operations
    # description: one or more lines; a line that begins with two spaces goes on
    # parameter: NAME KIND [= DEFAULT | needed] - what it is
    # column: NAME - what it is

KIND is `text`, `integer`, `kernel`, or the name of a family of IRIs (`operation`, `axis`,
`target`, `rule`, ...), whose values may be given by their last part. A line `#@bind NAME ...` in
the body takes a VALUES line for each of these parameters that has a value; a parameter with
neither a value nor a default stays free, unless it is needed. What has a value is the same in all
rows and is left out of their order: the engine looks up the text of an IRI at every comparison.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Protocol

from kb.errors import InputError, UnknownName

FOLDER = Path(__file__).with_name("queries")
ROOT = "https://w3id.org/tilelore/"
IRI = re.compile(r"https?://[^<>\"{}|^`\\\x00-\x20]+\Z")
NAME = re.compile(r"[\w./-]+\Z")
_KEY = re.compile(r"\w*\([^)]*\)|\?\w+")
_PARAMETER = re.compile(r"(\w+) (\w+)(?: = (\S+)| (needed))? - (.+)\Z")


class Named(Protocol):
    """What a kernel can be called by."""

    @property
    def iri(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def label(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Parameter:
    """One thing a question can be asked about."""

    name: str
    kind: str
    default: str
    description: str
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A named question: what it asks, of what, and its SPARQL."""

    name: str
    title: str
    description: str
    parameters: tuple[Parameter, ...]
    columns: tuple[tuple[str, str], ...]
    text: str


def read_question(path: Path) -> Question:
    """A question file; InputError when its header does not follow the form above."""
    text = path.read_text()
    fields: dict[str, list[str]] = {"title": [], "description": [], "parameter": [], "column": []}
    last = ""
    for line in text.splitlines():
        if not line.startswith("#") or line.startswith("#@"):
            break
        key, colon, value = line[1:].strip().partition(": ")
        if line.startswith("#   ") and last:
            fields[last][-1] += " " + line[1:].strip()
        elif colon and key in fields:
            fields[key].append(value.strip())
            last = key
        else:
            raise InputError(f"Not a header line: {line!r}.", where=str(path))
    if not fields["title"] or not fields["description"] or not fields["column"]:
        raise InputError("title, description or column is missing.", where=str(path))
    return Question(
        name=path.stem,
        title=fields["title"][0],
        description=" ".join(fields["description"]),
        parameters=tuple(_parameter(row, path) for row in fields["parameter"]),
        columns=tuple(_column(row) for row in fields["column"]),
        text=text,
    )


def _parameter(row: str, path: Path) -> Parameter:
    found = _PARAMETER.match(row)
    if not found:
        raise InputError(
            f"Not a parameter: {row!r}.",
            where=str(path),
            hint="Write: NAME KIND [= DEFAULT | needed] - description",
        )
    return Parameter(found[1], found[2], found[3] or "", found[5], bool(found[4]))


def _column(row: str) -> tuple[str, str]:
    name, _, description = row.partition(" - ")
    return name, description


def load_questions(folder: Path = FOLDER) -> dict[str, Question]:
    """All questions by name."""
    return {path.stem: read_question(path) for path in sorted(folder.glob("*.rq"))}


QUESTIONS: Mapping[str, Question] = load_questions()


def question(questions: Mapping[str, Question], name: str) -> Question:
    """The question of that name; UnknownName with the nearest one."""
    if name not in questions:
        near = get_close_matches(name, questions, n=1)
        hint = f"Did you mean `{near[0]}`?" if near else f"Known: {', '.join(questions)}."
        raise UnknownName(f"No question is named `{name}`.", where="query", hint=hint)
    return questions[name]


def prepare(
    questions: Mapping[str, Question],
    name: str,
    bindings: Mapping[str, str | int | float],
    kernels: Callable[[str], Sequence[Named]],
) -> str:
    """The SPARQL of a question with its values bound; `kernels` gives those a name may mean.

    UnknownName, InputError.
    """
    asked = question(questions, name)
    known = {p.name: p for p in asked.parameters}
    for given in bindings:
        if given not in known:
            listed = ", ".join(known) or "none"
            raise InputError(
                f"`{name}` has no parameter `{given}`.", where="query", hint=f"It has: {listed}."
            )
    for parameter in asked.parameters:
        if parameter.needed and parameter.name not in bindings:
            raise InputError(
                f"`{name}` needs `{parameter.name}`: {parameter.description}.", where="query"
            )
    values = {p.name: p.default for p in asked.parameters if p.default}
    values |= {key: str(value) for key, value in bindings.items()}
    lines = {
        key: f"VALUES ?{key} {{ {_term(known[key], value, kernels)} }}"
        for key, value in values.items()
    }

    def bind(match: re.Match[str]) -> str:
        return match[1] + " ".join(lines[n] for n in match[2].split() if n in lines)

    def order(match: re.Match[str]) -> str:
        keys = [key for key in _KEY.findall(match[1]) if key[1:] not in lines]
        return f"ORDER BY {' '.join(keys)}" if keys else ""

    text = re.sub(r"^( *)#@bind (.*)$", bind, asked.text, flags=re.MULTILINE)
    return re.sub(r"^ORDER BY (.*)$", order, text, flags=re.MULTILINE)


def _term(parameter: Parameter, value: str, kernels: Callable[[str], Sequence[Named]]) -> str:
    """The value as a SPARQL term of the parameter's kind; InputError when it cannot be one."""
    if parameter.kind == "integer":
        if not re.fullmatch(r"-?\d{1,18}", value):
            raise InputError(f"`{parameter.name}` is a whole number, not {value!r}.", where="query")
        return value
    if parameter.kind == "text":
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'
    if parameter.kind == "kernel":
        return f"<{resolve_kernel(value, kernels(value))}>"
    if IRI.match(value):
        return f"<{value}>"
    if NAME.match(value):
        return f"<{ROOT}{parameter.kind}/{value}>"
    raise InputError(
        f"`{parameter.name}` is the name or IRI of a {parameter.kind}, not {value!r}.",
        where="query",
        hint=f"For example `{ROOT}{parameter.kind}/...` or its last part.",
    )


def resolve_kernel(name: str, kernels: Sequence[Named]) -> str:
    """The IRI of the kernel with this IRI, id, label, or unique end of its id before the digest.

    UnknownName when none or several answer to it; the message lists them.
    """
    exact = [k.iri for k in kernels if name in (k.iri, k.id)]
    if exact:
        return exact[0]
    near = [k for k in kernels if k.label == name or k.id.rsplit("/", 1)[0].endswith("/" + name)]
    if len(near) == 1:
        return near[0].iri
    if near:
        listed = ", ".join(k.id for k in near[:5])
        raise UnknownName(
            f"{len(near)} kernels answer to `{name}`.", where="query", hint=f"Name one: {listed}."
        )
    close = get_close_matches(name, [k.label for k in kernels], n=1)
    hint = f"Did you mean `{close[0]}`?" if close else "`tilelore kb stats` and /kernels list them."
    raise UnknownName(f"No kernel answers to `{name}`.", where="query", hint=hint)
