"""A host function around the launch accepts an argument and never reads it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from extractors.dead_stores import dead_stores
from extractors.host.callers import MAX_CALLERS, called, calls, leading, member
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material, functions_of, read_names
from extractors.host.origins import lines_of
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED, SEARCHED
from extractors.syntax.nodes import each, walk
from kb.evidence import Finding, Lines, Severity

_ACCEPTED = vary(AUTOTUNED, ("def run(x):", "def run(x, wide=False):"))
_TILED = vary(SEARCHED, ("def run(x):", "def run(x, **options):"))
_METHOD = (
    AUTOTUNED
    + """
class Move(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, wide=False):
        return run(x)
"""
)
_KEYWORDS = vary(
    AUTOTUNED,
    ("def run(x):\n", "def run(x, **options):\n"),
    ("n = x.numel()", "n = int(x.numel() * options.get('scale', 1.0))"),
)
_HELPER = (
    vary(AUTOTUNED, ("n = x.numel()", "n = rows(x, True)"))
    + """
def rows(x, wide):
    return x.numel()
"""
)


class IgnoredArgument(Rule):
    """A parameter of a host function that leads to the launch, or of a helper that such a function
    calls, which its body never reads, or gives another value first: whoever passes it changes
    nothing."""

    name = "ignored-argument"
    matches = (
        Case(_ACCEPTED, "`wide`"),
        Case(
            vary(
                _ACCEPTED,
                ("    out = torch", "    wide = n > 4\n    out = torch"),
                ("(x, out, n)", "(x, out, n + wide)"),
            ),
            "overwritten before",
        ),
        Case(_TILED, "`options`"),
        Case(_METHOD, "`forward` accepts `wide`"),
        Case(_HELPER, "`rows` accepts `wide`"),
        Case(_KEYWORDS, "`scale` alone"),
    )
    near_misses = (
        NearMiss(AUTOTUNED, why="every argument is read"),
        NearMiss(
            vary(_ACCEPTED, ("    n = x.numel()", "    n = x.numel() if wide else x.shape[0]")),
            why="a value depends on it",
        ),
        NearMiss(
            vary(
                _ACCEPTED,
                ("    out = torch", "    if x.ndim > 1:\n        wide = n > 4\n    out = torch"),
                ("(x, out, n)", "(x, out, n + wide)"),
            ),
            why="it is kept on one of two ways",
        ),
        NearMiss(vary(_ACCEPTED, ("wide", "_wide")), why="its name says that it is not used"),
        NearMiss(
            vary(_ACCEPTED, ("    n = x.numel()", "    n = [x.numel() for _ in [wide]][0]")),
            why="a comprehension reads it",
        ),
        NearMiss(
            vary(_METHOD, ("return run(x)", "return x.run(x)")), why="a method of the same name"
        ),
        NearMiss(vary(_METHOD, ("return run(x)", "return x.clone()")), why="it launches nothing"),
        NearMiss(
            vary(_KEYWORDS, ("    out = torch", "    print(options)\n    out = torch")),
            why="all keywords are handed on",
        ),
        NearMiss(
            vary(
                _KEYWORDS,
                ("    out = torch", "    assert not options.keys() - {'scale'}\n    out = torch"),
            ),
            why="other keywords are refused",
        ),
        NearMiss(
            _HELPER + "TABLE = {'rows': rows}\n",
            why="a table hands the helper on, which may ask for such parameters",
        ),
    )
    seen = (Seen("tilegym", "tilegym/ops/cutile/attention.py", "_fmha_kernel", 847),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        told: set[ast.arg] = set()
        for launch in material.sites() if material is not None else ():
            for function in _around(material, launch) if material is not None else ():
                ignored = [arg for arg in _ignored(function) if arg not in told]
                told.update(ignored)
                if ignored:
                    names = ", ".join(f"`{arg.arg}`" for arg in ignored)
                    yield self.finding(
                        subject,
                        f"`{function.name}` accepts {names} and never reads "
                        f"{'them' if len(ignored) > 1 else 'it'}: passing another value changes "
                        "nothing",
                        "use it, refuse values that would need it, or drop it",
                        [(arg.lineno, arg.end_lineno or arg.lineno) for arg in ignored],
                        Severity.NOTE,
                    )
                yield from self._overwritten(subject, function, told)
                keywords = function.args.kwarg
                taken = _members(function) if keywords is not None else {}
                if keywords is not None and taken and keywords not in told:
                    told.add(keywords)
                    yield self.finding(
                        subject,
                        f"`{function.name}` accepts any keyword in `{keywords.arg}` and reads "
                        f"{', '.join(f'`{key}`' for key in taken)} alone: another one, or one that "
                        "is misspelt, changes nothing",
                        "name the keywords that are meant, or refuse the others",
                        [(keywords.lineno, keywords.end_lineno or 0), *taken.values()],
                        Severity.NOTE,
                    )

    def _overwritten(
        self, subject: Subject, function: ast.FunctionDef, told: set[ast.arg]
    ) -> Iterator[Finding]:
        """Parameters that get another value before anything reads them."""
        given = function.args
        names = dead_stores(function).overwritten
        rows = [
            arg
            for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs)
            if arg.arg in names and not arg.arg.startswith("_") and arg not in told
        ]
        told.update(rows)
        if rows:
            text = ", ".join(f"`{arg.arg}`" for arg in rows)
            yield self.finding(
                subject,
                f"`{function.name}` accepts {text}, which is overwritten before it is read: "
                "passing another value changes nothing",
                "use what is passed, refuse it, or drop it",
                [
                    *((arg.lineno, arg.end_lineno or arg.lineno) for arg in rows),
                    *(line for arg in rows for line in _set_anew(function, arg.arg)),
                ],
                Severity.NOTE,
            )


def _set_anew(function: ast.FunctionDef, name: str) -> list[Lines]:
    """Where a function first gives another value to a name."""
    rows = [one for one in each(function, ast.Assign) if name in _set_by(one)]
    return [lines_of(min(rows, key=lambda one: one.lineno))] if rows else []


def _set_by(statement: ast.Assign) -> set[str]:
    names = (name for target in statement.targets for name in each(target, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def _members(function: ast.FunctionDef) -> dict[str, Lines]:
    """The keywords that a function takes by name from all that it accepts, with where; none where
    it does anything else with them."""
    given = function.args.kwarg
    found: dict[str, Lines] = {}
    members = uses = 0
    for statement in function.body:
        for node in walk(statement):
            uses += isinstance(node, ast.Name) and given is not None and node.id == given.arg
            key = member(node, given.arg) if given is not None else None
            if key is not None:
                found.setdefault(key, lines_of(node))
                members += 1
    return found if members == uses else {}


def _around(material: Material, launch: LaunchRecord) -> list[ast.FunctionDef]:
    """The functions on the way to a launch, those of the module that call them, and helpers of the
    module that they call and that nothing hands on."""
    found = leading(material, launch)
    own = {node.name: node for node in material.tree.body if isinstance(node, ast.FunctionDef)}
    functions = [f for f in functions_of(material.tree) if f.name not in material.kernels]
    for _ in range(MAX_CALLERS):
        names = {node.name for node in found} & own.keys()
        more = [node for node in functions if node not in found and calls(node) & names]
        if not more:
            break
        found += more
    helped = dict.fromkeys(name for node in found for name in sorted(calls(node) & own.keys()))
    helpers = [own[name] for name in helped if not own[name].decorator_list]
    unread = [node for node in helpers if node not in found and any(_ignored(node))]
    return [*found, *(node for node in unread if _only_called(material, node))]


def _only_called(material: Material, function: ast.FunctionDef) -> bool:
    """Whether the module names a function in calls of it alone, so that its parameters are its
    author's."""
    names = sum(name.id == function.name for name in each(material.tree, ast.Name))
    functions = (call.func for call in each(material.tree, ast.Call))
    called_ = sum(isinstance(f, ast.Name) and f.id == function.name for f in functions)
    return names == called_


def _ignored(function: ast.FunctionDef) -> Iterator[ast.arg]:
    """Parameters that nothing reads. The signature of a backward pass is not its author's."""
    if function.name == "backward" or {"locals", "vars", "eval"} & called(function):
        return
    read = read_names(function)
    given = function.args
    rows = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    for position, arg in enumerate(rows):
        if arg is None or arg.arg in read or arg.arg.startswith("_"):
            continue
        if position == 0 and arg.arg in ("self", "cls", "ctx"):
            continue
        yield arg
