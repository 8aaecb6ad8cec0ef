"""A search is remembered under a key that leaves out a flag by which whole loops are compiled."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.host.events import SearchRecord
from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.tuning import axis_names, key_values
from extractors.host.values import Expr, Value
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cache_key_incomplete import opaque, uncovered
from extractors.rules.cases import AUTOTUNED_PRODUCT, SEARCHED
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Node
from kb.analysis.specialise import branches
from kb.evidence import Finding, Lines
from kb.ops import CONTRACTIONS, OpKind

_HALF = vary(
    AUTOTUNED_PRODUCT,
    ("so, W: tl", "so, HALF: tl.constexpr, W: tl"),
    ("    for t in range(0, tl.cdiv(K, TK)):", "    rounds = tl.cdiv(K, TK)\n    if HALF:\n"
     "        rounds = rounds // 2\n    for t in range(0, rounds):"),
    ("def run(a, b):", "def run(a, b, half):"),
    ("out.stride(0), W)", "out.stride(0), half, W)"),
)  # fmt: skip
_TWICE = vary(
    SEARCHED,
    ("n: int, T: Int):", "n: int, T: Int, TWICE: ct.Constant[bool]):"),
    ("    ct.store(out", "    if TWICE:\n        for j in range(n):\n            ct.store(out, "
     "index=(i, j), tile=ct.load(x, index=(i, j), shape=(1, T)))\n    ct.store(out"),
    ("def run(x):", "def run(x, twice):"),
    ("cfg.T)", "cfg.T, twice)"),
    ("(x, out, n, best.T)", "(x, out, n, best.T, twice)"),
)  # fmt: skip


class FlagNotInKey(Rule):
    """A compile-time flag decides how far a loop runs, or whether a loop or a matrix product is
    there at all, callers give it both ways, and the key of the search does not hold it."""

    name = "flag-not-in-key"
    matches = (Case(_HALF, "`HALF`"), Case(_TWICE, "`TWICE`"))
    near_misses = (
        NearMiss(vary(_HALF, ('"K"],', '"K", "HALF"],')), why="the flag is in the key"),
        NearMiss(vary(_TWICE, ("(b, n, x.dtype)", "(b, n, x.dtype, twice)")), why="the flag is"),
        NearMiss(
            vary(_HALF, ("out.stride(0), half, W)", "out.stride(0), True, W)")),
            why="every launch gives the same",
        ),
        NearMiss(
            vary(_HALF, ("out.stride(0), half, W)", "out.stride(0), a.shape[0] == K, W)")),
            why="sizes of the key tell it",
        ),
        NearMiss(
            vary(_HALF, ("        rounds = rounds // 2", "        acc = acc + 1.0")),
            why="the branch does little",
        ),
    )
    seen = (
        Seen(
            "fla-core",
            "fla/ops/kda/chunk_intra.py",
            "chunk_kda_bwd_kernel_intra",
            393,
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        material, facts = subject.host.material, subject.facts
        if material is None or not material.searches:
            return
        flags = _flags(facts)
        for search in material.searches if flags else ():
            key = key_values(search)
            points = sum(len(case.points) for case in search.cases)
            if key is None or points < 2 or any(map(opaque, key)):
                continue
            missing = [name for name in flags if _left_out(material, search, name, key)]
            if missing:
                names = ", ".join(f"`{name}`" for name in missing)
                yield self.finding(
                    subject,
                    f"{names} {'decide' if len(missing) > 1 else 'decides'} which loops the kernel "
                    "has or how far they run, and the cache key leaves it out: a winner found for "
                    "one value is used for the other",
                    f"add {names} to the cache key",
                    [search.lines, *(flags[name].head for name in missing)],
                )


def _flags(facts: Facts) -> dict[str, Node]:
    """Compile-time parameters by which a branch with a loop or a product inside is compiled, or one
    that decides where a loop ends."""
    found: dict[str, Node] = {}
    ends = [value for loop in facts.loops for value in (loop.low, loop.high) if value is not None]
    loading = {around for access in facts.loads for around in access.node.around()}
    working = {around for n in facts.graph.of(*LOOPS, *CONTRACTIONS) for around in n.around()}
    for branch in branches(facts):
        heavy = branch.node in working
        if branch.node not in loading:
            heavy = heavy or any(facts.graph.rests_on(value, branch.node) for value in ends)
        asked = facts.graph.producer(branch.condition)
        plain = asked is None or asked.op.kind == OpKind.NOT
        if heavy and plain and len(branch.parameters) == 1:
            found.setdefault(branch.parameters[0], branch.node)
    return found


def _left_out(material: Material, search: SearchRecord, name: str, key: tuple[Value, ...]) -> bool:
    """Whether the key of a search neither holds a parameter nor what it follows from, and launches
    give it more than one value."""
    if name in axis_names(search):
        return False
    launches = material.tied(search)
    kernels = [search.kernel, *(launch.kernel for launch in launches)]
    rules = {rule for kernel in kernels for rule, _ in getattr(kernel, "heuristics", ())}
    if name in {str(part) for part in key} | rules:
        return False
    given: dict[Lines, list[Value]] = {}
    held = list(key)
    for launch in launches:
        row = dict(launch.args)
        given.setdefault(launch.lines, []).extend(leaves(row[name]) if name in row else [])
        held += [row[str(part)] for part in key if str(part) in row]
    every = [value for values in given.values() for value in values]
    if not _numbers(every):
        return any(_asked(one, held) for one in every)
    return len(set(every)) > 1 and all(len(set(values)) == 1 for values in given.values())


def _numbers(given: list[Value]) -> bool:
    return all(isinstance(one, (bool, int)) for one in given)


def _asked(value: Value, held: list[Value]) -> bool:
    """Whether a flag is one that the caller gives, or compares numbers of the caller or sizes, and
    the key does not tell it."""
    if not isinstance(value, Expr) or value in held:
        return False
    pending = [value]
    for item in pending:
        if item.op in _PLAIN and len(pending) < MAX_PARTS:
            pending += [arg for arg in item.args if isinstance(arg, Expr)]
        elif item.op not in ("sym", "dim"):
            return False
    return bool(uncovered(value, tuple(held)))


_PLAIN = ("int", "not", "and", "or", "==", "!=", "<", "<=", ">", ">=", "%", "//")
MAX_PARTS = 64
"""Parts of a flag that are looked at."""
