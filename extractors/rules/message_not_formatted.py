"""A message shows the names in braces instead of their values."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from extractors.host.callers import leading
from extractors.host.facts import Material
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED, SEARCHED
from extractors.syntax.nodes import each, walk
from kb.evidence import Finding, Severity

_CHECKED = vary(
    AUTOTUNED,
    (
        "    x = x.contiguous()",
        '    assert x.is_cuda, "x is on {x.device}"\n    x = x.contiguous()',
    ),
)
_RAISED = vary(
    SEARCHED,
    ("    b, n = x.shape", '    if x.ndim != 2:\n        raise ValueError("{x.ndim} axes")\n'
     "    b, n = x.shape"),
)  # fmt: skip
_PLACE = re.compile(r"(?<!\{)\{([A-Za-z_]\w*)[^{}]*\}(?!\})")
"""A place in braces that begins with a name."""


class MessageNotFormatted(Rule):
    """The message of a check has names of its function in braces, and no `f` before the quote."""

    name = "message-not-formatted"
    matches = (Case(_CHECKED, "`{x.device}`"), Case(_RAISED, "`{x.ndim}`"))
    near_misses = (
        NearMiss(vary(_CHECKED, ('"x is', 'f"x is')), why="the values are put in"),
        NearMiss(
            vary(_CHECKED, ('{x.device}"', '{x.device}".format(x=x)')), why="formatted afterwards"
        ),
        NearMiss(
            vary(_CHECKED, ("{x.device}", "{device}")), why="no name of the function: other text"
        ),
    )
    seen = (Seen("flag-gems", "flag_gems/ops/conv2d.py", "conv2d_forward_kernel", 343),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        found = dict(_messages(material)) if material is not None else {}
        if found:
            places = ", ".join(dict.fromkeys(f"`{place}`" for place in found.values()))
            yield self.finding(
                subject,
                f"messages of checks show {places} as it stands here and not the values: the "
                "strings have no `f` before the quote",
                "put an `f` before the quote",
                [(node.lineno, node.end_lineno or node.lineno) for node in found],
                Severity.NOTE,
            )


def _messages(material: Material) -> Iterator[tuple[ast.stmt, str]]:
    """Checks of the functions that lead to a launch, with a place that is not filled."""
    functions = {id(f): f for launch in material.sites() for f in leading(material, launch)}
    for function in functions.values():
        places = [
            (node, match)
            for node in walk(function)
            if isinstance(node, ast.Assert | ast.Raise)
            for text in _texts(node)
            for match in _PLACE.finditer(text)
        ]
        if places:
            known = {name.id for name in each(function, ast.Name)}
            known |= {arg.arg for arg in each(function.args, ast.arg)}
            yield from ((node, match[0]) for node, match in places if match[1] in known)


def _texts(node: ast.Assert | ast.Raise) -> Iterator[str]:
    """Plain strings that are the message of an assertion or of an exception."""
    given: list[ast.expr] = []
    if isinstance(node, ast.Assert) and node.msg is not None:
        given = [node.msg]
    elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        given = list(node.exc.args)
    for one in given:
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one.value
