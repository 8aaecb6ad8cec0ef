"""What can be said of SPARQL text without running it: its tokens, its form, its mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise

from kb.errors import InputError, SyntaxProblem

PREFIXES: dict[str, str] = {
    "tl": "https://w3id.org/tilelore/ns#",
    "tlr": "https://w3id.org/tilelore/",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "dcterms": "http://purl.org/dc/terms/",
    "prov": "http://www.w3.org/ns/prov#",
    "schema": "https://schema.org/",
    "qudt": "http://qudt.org/schema/qudt/",
    "unit": "http://qudt.org/vocab/unit/",
    "sosa": "http://www.w3.org/ns/sosa/",
}
"""Prefixes every query may use without declaring them."""

MAX_DEPTH = 100
"""Brackets inside brackets that a query may have."""

UPDATE_WORDS = frozenset(
    ("INSERT", "DELETE", "LOAD", "CLEAR", "CREATE", "DROP", "COPY", "MOVE", "ADD", "WITH")
)
QUERY_WORDS = frozenset(("SELECT", "ASK", "CONSTRUCT", "DESCRIBE"))

_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n\r]*)
      | (?P<string>\"{3}(?:\"{0,2}(?:[^"\\]|\\.))*\"{3} | '{3}(?:'{0,2}(?:[^'\\]|\\.))*'{3}
          | "(?:[^"\\\n\r]|\\.)*" | '(?:[^'\\\n\r]|\\.)*')
      | (?P<iri><[^<>"{}|^`\\\x00-\x20]*>)
      | (?P<variable>[?$]\w+)
      | (?P<pname>[^\W\d_][\w.-]*:(?:[\w:%\\][\w:%\\.~-]*[\w:%\\-]|[\w:%\\])?
          | :(?:[\w:%\\][\w:%\\.~-]*[\w:%\\-]|[\w:%\\])?)
      | (?P<word>@?[^\W\d_]\w*)
      | (?P<space>\s+)
      | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `start` is its offset in the text, `depth` the braces open before it."""

    kind: str
    text: str
    start: int
    depth: int

    @property
    def upper(self) -> str:
        """The text as a keyword is compared: case does not matter in SPARQL."""
        return self.text.upper()


def tokens(text: str) -> Iterator[Token]:
    """The tokens that mean something: no space, no comment."""
    depth = 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "mark"
        if kind in ("space", "comment"):
            continue
        if match.group() == "}":
            depth = max(0, depth - 1)
        yield Token(kind, match.group(), match.start(), depth)
        if match.group() == "{":
            depth += 1


def is_absolute_iri(text: str) -> bool:
    """Whether the text can stand between < and > as it is."""
    return bool(re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[^<>\"{}|^`\\\x00-\x20]*", text))


def form(text: str) -> str:
    """The keyword that says what the text asks: SELECT, ASK, INSERT, ... or '' when there is none.

    Words of the prologue (PREFIX, BASE) are passed over with what they declare.
    """
    for token in tokens(text):
        if token.kind == "word" and token.upper in UPDATE_WORDS | QUERY_WORDS:
            return token.upper
        if token.text == "{":
            return ""
    return ""


def is_update(text: str) -> bool:
    """Whether the text would change a store."""
    return form(text) in UPDATE_WORDS


def calls_service(text: str) -> bool:
    """Whether the text has the keyword SERVICE. For a friendly answer, not for safety:
    queries run without a network whatever this says (`kb.query_worker`)."""
    return any(token.kind == "word" and token.upper == "SERVICE" for token in tokens(text))


def has_dataset(text: str) -> bool:
    """Whether the query names its own dataset with FROM."""
    return any(t.kind == "word" and t.depth == 0 and t.upper == "FROM" for t in tokens(text))


def check_depth(text: str) -> None:
    """SyntaxProblem when brackets nest deeper than `MAX_DEPTH`: the engine's parser recurses."""
    depth = 0
    for token in tokens(text):
        if token.text in ("{", "(", "["):
            depth += 1
        elif token.text in ("}", ")", "]"):
            depth -= 1
        if depth > MAX_DEPTH:
            line = text.count("\n", 0, token.start) + 1
            column = token.start - (text.rfind("\n", 0, token.start) + 1) + 1
            raise SyntaxProblem(
                f"Brackets nest deeper than {MAX_DEPTH}.",
                where=f"query:{line}:{column}",
                hint="Write it flatter.",
            )


def undeclared_prefixes(text: str) -> tuple[str, ...]:
    """Prefixes used, neither declared in the text nor among `PREFIXES`; sorted."""
    seen = list(tokens(text))
    declared = {
        after.text.split(":")[0]
        for before, after in pairwise(seen)
        if before.upper == "PREFIX" and after.kind == "pname"
    }
    used = {token.text.split(":")[0] for token in seen if token.kind == "pname"}
    return tuple(sorted(used - declared - PREFIXES.keys()))


def with_prefixes(text: str) -> str:
    """The text with the well-known prefixes it uses declared, on its first line.

    For engines that take no prefixes beside the text; line numbers stay as they are.
    """
    seen = list(tokens(text))
    used = {token.text.split(":")[0] for token in seen if token.kind == "pname"}
    declared = {
        after.text.split(":")[0] for before, after in pairwise(seen) if before.upper == "PREFIX"
    }
    wanted = sorted((used - declared) & PREFIXES.keys())
    return "".join(f"PREFIX {name}: <{PREFIXES[name]}> " for name in wanted) + text


def syntax_problem(message: str, text: str, *, where: str = "query") -> SyntaxProblem:
    """The engine's complaint (`error at LINE:COLUMN: expected ...`) as an error with a hint."""
    found = re.search(r"(\d+):(\d+)(?:-\d+:\d+)?:?\s*(.*)", message, re.DOTALL)
    line, column = (int(found[1]), int(found[2])) if found else (1, 1)
    said = found[3] if found and found[3] else message
    return SyntaxProblem(
        f"SPARQL syntax error: {said}.".replace("..", "."),
        where=f"{where}:{line}:{column}",
        hint=_hint(text, line, column),
    )


def _hint(text: str, line: int, column: int) -> str:
    unknown = undeclared_prefixes(text)
    if unknown:
        near = get_close_matches(unknown[0], PREFIXES, n=1)
        known = f"; did you mean `{near[0]}:`?" if near else "."
        return f"Declare it first: `PREFIX {unknown[0]}: <...>`{known}"
    if not form(text):
        return "A query begins with SELECT, ASK, CONSTRUCT or DESCRIBE."
    if text.count("{") > text.count("}"):
        return "A `{` is not closed: add `}`."
    if text.count("{") < text.count("}"):
        return "There is a `}` too many."
    lines = text.splitlines() or [""]
    shown = lines[min(line, len(lines)) - 1][:120]
    return f"Look at: {shown.strip()!r}" if shown.strip() else f"Look before column {column}."


def with_using(update: str, default: Sequence[str], named: Sequence[str]) -> str:
    """The update with the protocol's dataset (using-graph-uri, using-named-graph-uri) in its text.

    InputError when the update names its own (USING, USING NAMED or WITH): the protocol
    forbids both (SPARQL 1.1 Protocol, 2.2.3).
    """
    seen = list(tokens(update))
    if any(t.kind == "word" and t.upper in ("USING", "WITH") and t.depth == 0 for t in seen):
        raise InputError(
            "The update names its dataset twice: in its text and in the request.",
            hint="Drop USING and WITH, or the using-graph-uri parameters.",
        )
    clauses = "".join(f"USING <{g}> " for g in default)
    clauses += "".join(f"USING NAMED <{g}> " for g in named)
    edits: list[tuple[int, str]] = []
    for index, token in enumerate(seen):
        if token.depth or token.kind != "word" or token.upper != "WHERE":
            continue
        edits.append((token.start, _using_before(update, seen, index) + clauses))
    for start, inserted in reversed(edits):
        update = update[:start] + inserted + update[start:]
    return update


def _using_before(update: str, seen: Sequence[Token], where: int) -> str:
    """`DELETE WHERE {p}` takes no USING: its pattern is repeated as the template."""
    if where == 0 or seen[where - 1].upper != "DELETE":
        return ""
    opened = seen[where + 1 :]
    end = next((t.start for t in opened if t.text == "}" and t.depth == 0), len(update) - 1)
    return update[opened[0].start : end + 1] + " " if opened else ""
