"""The winner of a search is kept for one number of rows, and found anew for each other."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from extractors.host.conditions import parts
from extractors.host.events import LaunchRecord, SearchRecord
from extractors.host.facts import Material, function_at
from extractors.host.render import leaves
from extractors.host.spaces import complete
from extractors.host.tuning import key_values
from extractors.host.values import Expr, Value
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED, SEARCHED
from extractors.rules.compiled_per_size import counted, innermost
from extractors.rules.grid_axis_limit import of_elements
from kb.evidence import Finding, Severity


class SearchedPerSize(Rule):
    """The key of a search has a size as it stands that the grid has blocks for: rows, or elements,
    of which each call may bring another number. Every new one runs the whole search again."""

    name = "searched-per-size"
    matches = (
        Case(AUTOTUNED, "`n`"),
        Case(SEARCHED, "x.shape[0]"),
        Case(vary(SEARCHED, ("(b, n, x.dtype)", "(x.shape, x.dtype)")), "x.shape"),
    )
    near_misses = (
        NearMiss(
            vary(AUTOTUNED, ('key=["n"]', 'key=["D"]')), why="the key has nothing of the problem"
        ),
        NearMiss(
            vary(SEARCHED, ("(b, n, x.dtype)", "(n, x.dtype)")),
            why="the length of rows, of which a model has few",
        ),
        NearMiss(
            vary(AUTOTUNED, ('key=["n"],', 'key=["n"], strategy=["align32"],')),
            why="a tuner of its own, which may put the number in buckets",
        ),
        NearMiss(
            vary(AUTOTUNED, ("in (64, 128) for d in (0, 1) for w in (4, 8)",
                             "in (64,) for d in (0,) for w in (4,)")),
            why="there is one configuration: nothing is timed",
        ),
        NearMiss(
            vary(SEARCHED, ("(b, n, x.dtype)", "(b.bit_length(), n, x.dtype)")),
            why="the number is put in buckets",
        ),
    )  # fmt: skip
    seen = (Seen("flag-gems", "flag_gems/ops/layernorm.py", "layer_norm_persistent_kernel", 23),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        if subject.facts.contractions:
            return  # tiles of products are found for each shape on purpose
        for search in material.searches if material is not None else ():
            if material is None or _buckets(material) or _settled(search):
                continue
            found = list(_sizes(material, search))
            if found:
                shown = ", ".join(dict.fromkeys(found))
                yield self.finding(
                    subject,
                    f"the key of the search has {shown} as it stands, a number of rows or elements "
                    "that the grid follows: every new one runs the search again",
                    "leave it out of the key, or put it in buckets, such as powers of two",
                    [search.lines],
                    Severity.NOTE,
                )


def _settled(search: SearchRecord) -> bool:
    """Whether there is one configuration at most: nothing is timed."""
    return complete(search) and all(len(case.points) < 2 for case in search.cases)


def _buckets(material: Material) -> bool:
    """Whether a decorator of the kernel is given what Triton's tuner does not know: it may put the
    sizes of the key in buckets."""
    kernel = function_at(material.tree, material.signature.name, material.signature.lines)
    calls = [one for one in kernel.decorator_list if isinstance(one, ast.Call)] if kernel else []
    keyed = [one for one in calls if any(word.arg == "key" for word in one.keywords)]
    return any(
        word.arg is not None and word.arg not in _TRITON for call in keyed for word in call.keywords
    )


_TRITON = frozenset({"configs", "key", "prune_configs_by", "reset_to_zero", "restore_value",
                     "pre_hook", "post_hook", "warmup", "rep", "use_cuda_graph", "do_bench",
                     "cache_results"})  # fmt: skip
"""What `triton.autotune` takes."""


def _sizes(material: Material, search: SearchRecord) -> Iterator[str]:
    """Parts of the key of a search that every launch of its winner has blocks for."""
    launches = material.tied(search)
    key = key_values(search) or ()
    for part in key if launches else ():
        if isinstance(part, str):
            given = [dict(launch.args).get(part) for launch in launches]
            rows = zip(launches, given, strict=True)
            if all(value is not None and _rows(material, one, value) for one, value in rows):
                yield f"`{part}` ({material.names(None).text(given[0])[:60]})"
        elif all(_rows(material, launch, part) for launch in launches):
            yield f"`{material.names(launches[0]).text(part)[:60]}`"


def _rows(material: Material, launch: LaunchRecord, value: Value) -> bool:
    """Whether a value is a number of rows or elements that a grid follows, the extent of the first
    axis or what one divides all elements by; or the shape of an array whose first axis is such."""
    if isinstance(value, Expr) and value.op == "shape":
        value = Expr("dim", (value.args[0], 0))
    followed, mentioned = set(counted(launch.grid)), set(parts(launch.grid))
    batches = {part for part in mentioned if _first(part)}
    found = leaves(value)
    if any(_first(one) for one in found) and len({part.args[0] for part in batches}) > 1:
        return False  # the first axis of one array is the batch, that of the other is none
    return bool(found) and all(
        (one in followed and _first(one) and not innermost(material, one))
        or (_elements(material, one) and one in mentioned)
        for one in found
    )


def _elements(material: Material, value: Value) -> bool:
    """The elements of an array, or their number over the length of its rows: by an outer extent
    they are the length of rows themselves."""
    if isinstance(value, Expr) and value.op == "//":
        by = value.args[1]
        outer = isinstance(by, Expr) and by.op == "dim" and not innermost(material, by)
        return of_elements(value.args[0]) and not outer
    return of_elements(value)


def _first(value: Value) -> bool:
    return isinstance(value, Expr) and value.op == "dim" and value.args[1] == 0
