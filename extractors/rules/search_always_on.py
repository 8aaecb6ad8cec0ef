"""A search that runs whenever its key is new: nothing turns it off."""

from __future__ import annotations

import builtins
from collections.abc import Iterable

from extractors.host.assume import Guard
from extractors.host.conditions import parts
from extractors.host.events import SearchRecord
from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.host.render import mentions_memo
from extractors.host.values import Expr, External
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import SEARCHED
from kb.evidence import Finding, Lines, Severity

_ASKED = "if key not in cache:"
_GIVEN = vary(
    SEARCHED,
    ("def run(x):", "def run(x, tune=True):"),
    (_ASKED, f"if not tune:\n        return fixed(x, out)\n    {_ASKED}"),
)
_FIXED = """
def fixed(x, out):
    ct.launch(None, (math.ceil(x.shape[1] / 64), x.shape[0], 1), move, (x, out, x.shape[1], 64))
    return out
"""


class SearchAlwaysOn(Rule):
    """A call that times configurations on the way to a launch, on conditions that ask neither the
    environment nor an argument that leads to the same kernel without a search."""

    name = "search-always-on"
    dialects = ("cutile",)
    matches = (
        Case(SEARCHED, "turns it off"),
        Case(_GIVEN + _FIXED.replace("move, (", "other, ("), "turns it off"),
        Case(
            vary(
                SEARCHED,
                ("    b, n = x.shape\n", "    assert len(x.shape) == 2\n    b, n = x.shape\n"),
            ),
            "turns it off",
        ),
        Case(
            vary(
                SEARCHED,
                (
                    "def run(x):\n",
                    "def run(x, sizes):\n    if len(sizes) == 0:\n        return x\n",
                ),
            ),
            "turns it off",
        ),
    )
    near_misses = (
        NearMiss(_GIVEN + _FIXED, why="an argument leads to the same kernel without a search"),
        NearMiss(
            vary(
                SEARCHED,
                ("import math\n", "import math\nimport os\n"),
                (_ASKED, 'if os.environ.get("TUNE") != "0" and key not in cache:'),
            ),
            why="the environment is asked",
        ),
        NearMiss(
            vary(
                SEARCHED,
                ("cache = {}\n", "cache = {}\n\n"),
                ("import torch\n", "import torch\nfrom switches import tuning\n"),
                (_ASKED, "if tuning() and key not in cache:"),
            ),
            why="a function of another module says whether to search",
        ),
    )
    seen = (Seen("tilegym", "tilegym/ops/cutile/matmul.py", "_matmul_kernel", 359),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for search in material.searches if material is not None else ():
            if material is None or search.kind != "exhaustive_search":
                continue
            if not any(_switch(material, guard) for guard in search.path.guards):
                yield self.finding(
                    subject,
                    "the search runs at the first call of each new key: the environment is not "
                    "asked, so that nothing outside the call turns it off",
                    "ask a switch before the search, and take one configuration where it is off",
                    [search.lines, *_asked(material, search)],
                    Severity.NOTE,
                )


def _switch(material: Material, guard: Guard) -> bool:
    """Whether a condition asks the environment or something that is not known, or is an argument
    without which the same kernel is launched, too."""
    for part in parts(guard.cond):
        asked = part.args[0] if part.args else None
        if part.op == "call" and (_elsewhere(asked) or _environment(asked)):
            return True
        if part.op == "sym" and "@" in str(asked):
            return True
    plain = guard.cond.op == "sym" or (guard.cond.op == "not" and guard.shown)
    return plain and any(
        other.cond == guard.cond and other.holds != guard.holds
        for launch in material.launches
        for other in launch.path.guards
    )


def _elsewhere(asked: object) -> bool:
    """Whether a function of another module is asked: none of Python's own, which only look at what
    they are given."""
    return isinstance(asked, str) and not hasattr(builtins, asked)


def _environment(value: object) -> bool:
    """Whether a value is made of what the system hands over."""
    found = [value]
    for item in found:
        if isinstance(item, External) and item.path.partition(".")[0] in ("os", "sys"):
            return True
        if isinstance(item, Expr):
            found.extend(item.args)
    return False


def _asked(material: Material, search: SearchRecord) -> Iterable[Lines]:
    """Where the memo of the search is asked."""
    for guard in search.path.guards[-1:]:
        places = material.machine.asked.get(guard.cond, ())
        if mentions_memo(guard.cond) and len(places) == 1:
            yield lines_of(places[0])
