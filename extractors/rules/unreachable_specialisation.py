"""A compile-time branch of the kernel that no launch and no configuration takes."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable

from extractors.host.callers import MAX_STEPS
from extractors.host.facts import Material
from extractors.host.origins import Origins
from extractors.host.spaces import passed
from extractors.host.tuning import axis_names
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject, Where
from extractors.rules.cases import AUTOTUNED
from kb.analysis.specialise import Branch, branches, has_work, outcome
from kb.evidence import Finding, Severity
from kb.ir import Literal

MAX_POINTS = 256
"""Combinations of parameters that one branch is tried with."""

_FLAGGED = vary(
    AUTOTUNED,
    ("T: tl.constexpr, D", "FAR: tl.constexpr, T: tl.constexpr, D"),
    ("    tl.store(out", "    if FAR:\n        v = v * 2.0\n    tl.store(out"),
    ("(x, out, n)", "(x, out, n, False)"),
)
_HANDED = vary(
    _FLAGGED,
    ("def run(x)", "def launch(x, far)"),
    ("n, False)", "n, far)"),
    ("    return out\n", "    return out\n\ndef run(x):\n    return launch(x, False)\n"),
)
_TILED = """
import math
import cuda.tile as ct
import torch
Int = ct.Constant[int]

@ct.kernel
def move(x, out, T: Int):
    v = ct.load(x, index=(ct.bid(0),), shape=(T,), padding_mode=ct.PaddingMode.ZERO)
    if T > 512:
        v = v + 1.0
    ct.store(out, index=(ct.bid(0),), tile=v)

def run(x):
    out = torch.empty_like(x)
    ct.launch(None, (math.ceil(x.shape[0] / 256), 1, 1), move, (x, out, 256))
    return out
"""


class UnreachableSpecialisation(Rule):
    """A branch on compile-time parameters with work inside, whose condition has the same value for
    everything that the launches pass and the searches try."""

    name = "unreachable-specialisation"
    matches = (
        Case(_TILED, "T=256"),
        Case(_FLAGGED, "FAR=False"),
        Case(_HANDED, "FAR=False"),
    )
    near_misses = (
        NearMiss(
            vary(_FLAGGED, ("def run(x)", "def run(x, far)"), ("n, False)", "n, far)")),
            why="whoever calls the host function chooses",
        ),
        NearMiss(
            vary(_HANDED, ("launch(x, False)", "launch(x, torch.cuda.device_count() > 1)")),
            why="the caller asks the installation",
        ),
        NearMiss(vary(_TILED, ("out, 256)", "out, 1024)"), ("    v = ", "    v = ")),
                 why="the branch is taken, and the other side is empty"),
        NearMiss(vary(_FLAGGED, ("if FAR", "if T > 64")), why="one configuration takes it"),
    )  # fmt: skip

    seen = (Seen("flag-gems", "flag_gems/ops/cumsum.py", "block_update_kernel", 511),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        if material is None or not material.launches:
            return
        first, last = subject.facts.kernel.entry.span.lines
        for branch in branches(subject.facts):
            if not first <= branch.node.op.span.line <= last:
                continue  # in a helper, which other calls may take the other way
            if not all(spelled(material, name) for name in branch.parameters):
                continue
            taken, shown = _taken(subject, material, branch)
            if taken is None or not has_work(branch.node, 1 if taken else 0):
                continue
            if not material.launched_here_only():
                return
            lines: list[Where] = [branch.node]
            lines += [launch.lines for launch in material.launches[:4]]
            side = "the else side of this branch" if taken else "this branch"
            yield self.finding(
                subject,
                f"{side} is never compiled: every launch has {shown}",
                "launch the kernel with the other value where it is meant, or remove the side",
                lines,
                Severity.NOTE,
            )


def spelled(material: Material, name: str) -> bool:
    """Whether every launch gives a parameter a literal, perhaps through names, or leaves it to a
    default, a rule or a search: a name may also stand for a fact of the installation that is
    another one elsewhere."""
    names = [param for param, _ in material.signature.params]
    axes = {axis for search in material.searches for axis in axis_names(search)}
    for launch in material.launches:
        call = material.origins.call_at(launch.lines) if material.origins is not None else None
        if call is None or material.origins is None:
            return False
        given = material.origins.argument(call, name, names.index(name), material.row(launch))
        if isinstance(given, ast.Attribute) and given.attr in axes:
            continue
        if given is not None and not _literal(material.origins, given, MAX_STEPS):
            return False
    return True


def _literal(origins: Origins, given: ast.expr, steps: int) -> bool:
    """Whether an expression is a literal, or a name that is given literals only."""
    if isinstance(given, ast.Constant) or steps == 0:
        return isinstance(given, ast.Constant)
    made = origins.values(given) if isinstance(given, ast.Name) else []
    return bool(made) and all(_literal(origins, one, steps - 1) for one in made)


def _taken(subject: Subject, material: Material, branch: Branch) -> tuple[bool | None, str]:
    """The one outcome of a condition over all launches, with the values it was tried with; None
    when it has several or is not known."""
    defaults = {p.name: p.default for p in subject.facts.kernel.entry.parameters if p.has_default}
    outcomes: set[bool] = set()
    tried: dict[str, dict[Literal, None]] = {name: {} for name in branch.parameters}
    for launch in material.launches:
        rows: list[list[tuple[str, Literal]]] = []
        for name in branch.parameters:
            values = passed(material, launch, name)
            if values == () and name in defaults:
                values = (defaults[name],)
            if values:
                rows.append([(name, value) for value in values])
                tried[name].update(dict.fromkeys(values))
            else:
                tried[name]["?"] = None
        points = list(itertools.islice(itertools.product(*rows), MAX_POINTS + 1))
        if len(points) > MAX_POINTS:
            return None, ""
        for point in points:
            result = outcome(subject.facts, branch.condition, dict(point))
            if result is None:
                return None, ""
            outcomes.add(bool(result))
        if len(outcomes) > 1:
            return None, ""
    shown = ", ".join(
        f"{name}={'|'.join(map(str, values))}"
        for name, values in tried.items()
        if "?" not in values
    )
    return (next(iter(outcomes)), shown) if outcomes else (None, "")
