"""A kernel computes a value and reads it nowhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from extractors.dead_stores import computes, dead_stores
from extractors.host.callers import behind
from extractors.host.facts import Material, function_at
from extractors.host.file_facts import Declared, Unread
from extractors.host.origins import lines_of
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED
from extractors.syntax.nodes import each
from kb.evidence import Finding, Lines, Severity
from kb.ir import Op, Region
from kb.ops import PROMISES, READS, Effect, OpKind, effect_of

_SETTLED = frozenset({OpKind.CONST, OpKind.FULL, OpKind.ZEROS, OpKind.CALL}) | PROMISES
"""What may stand there for the compiler: a name that a branch or a loop sets anew wants a first
value, and a call may do more than give one."""

_BOUNDS = (
    POINTER
    + """
@triton.jit
def rows(x, out, ends, n, T: tl.constexpr, RAGGED: tl.constexpr):
    row = tl.program_id(0)
    if RAGGED:
        first, last = tl.load(ends + row), tl.load(ends + row + 1)
        n = last - first
    else:
        first, last = row * n, row * n + n
    at = tl.arange(0, T)
    v = tl.load(x + first + at, mask=at < n, other=0.0)
    tl.store(out + first + at, v, mask=at < n)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def rows(x, out, n: int, T: Int):
    i = ct.bid(0)
    v = ct.load(x, index=(i,), shape=(T,))
    half = n // 2
    ct.store(out, index=(i,), tile=v)
"""
)


_THREADS = """
__global__ void copy(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int half = n / 2;  // half of the elements
  if (i < n) { out[i] = x[i]; }
}
"""


_HOST = vary(AUTOTUNED, ("    out = torch", "    half = n // 2\n    out = torch"))


class ValueNeverRead(Rule):
    """A value with a name of its own is computed or loaded, in the kernel or by the host on the way
    to the launch, and nothing reads it before the name means something else; or a constant or a
    name of a type is declared that the text does not have again. First values are none:
    a name that a branch or a loop sets wants one."""

    name = "value-never-read"
    dialects = ("cuda", "cutile", "triton")
    matches = (
        Case(_THREADS, "`half`"),
        Case(vary(_THREADS, ("int half", "constexpr int half"), ("n / 2", "64")), "`half`"),
        Case(vary(_THREADS, ("int half = n / 2;", "enum { HALF = 64 };")), "`HALF`: declared here"),
        Case(
            vary(
                _THREADS,
                ("__global__", "#define LAUNCH(half) copy<<<1, 64>>>(0, 0, half)\n__global__"),
            ),
            "`half`",
        ),
        Case(_BOUNDS, "`last`"),
        Case(_TILES, "`half`"),
        Case(_HOST, "`half`: computed in `run`"),
        Case(
            vary(
                _HOST,
                (
                    "half = n // 2",
                    "half = n // 2\n    if n > 8:\n        half = 1\n    else:\n        half = 2",
                ),
                ("(x, out, n)", "(x, out, n + half)"),
            ),
            "`half`",
        ),
        Case(vary(_TILES, ("half = n // 2", "w = ct.load(x, index=(i + 1,), shape=(T,))")), "`w`"),
    )
    near_misses = (
        NearMiss(
            vary(
                _THREADS,
                ("if (i < n)", "#if __CUDA_ARCH__ < 800\n  i += half;\n#endif\n  if (i < n)"),
            ),
            why="code for another target reads it",
        ),
        NearMiss(
            vary(_THREADS, ("int half", "[[maybe_unused]] int half")),
            why="it is marked as one that may stay unread",
        ),
        NearMiss(
            vary(_THREADS, ("int half", "int _half")), why="the name says that it is not used"
        ),
        NearMiss(vary(_THREADS, ("= x[i]", "= x[half + i]")), why="it is read"),
        NearMiss(
            vary(
                _THREADS,
                ("__global__", "#define AT(x) x[half]\n__global__"),
                ("= x[i]", "= AT(x)"),
            ),
            why="a macro reads it",
        ),
        NearMiss(
            vary(_BOUNDS, ("mask=at < n, other", "mask=first + at < last, other")),
            why="it is read after the branch",
        ),
        NearMiss(vary(_HOST, ("(x, out, n)", "(x, out, n + half)")), why="it is read"),
        NearMiss(
            vary(
                _HOST,
                ("half = n // 2", "half = n // 2\n    if n > 8:\n        half = 1"),
                ("(x, out, n)", "(x, out, n + half)"),
            ),
            why="one of two ways keeps it",
        ),
        NearMiss(
            vary(
                _HOST,
                (
                    "    half = n // 2\n",
                    "    half = [0]\n    more = lambda: half\n    half = n // 2\n",
                ),
                ("(x, out, n)", "(x, out, n, more())"),
            ),
            why="another function reads it",
        ),
        NearMiss(
            vary(_HOST, ("half = n // 2", "half, n = n // 2, n + 1")),
            why="another name of the row is read",
        ),
        NearMiss(vary(_TILES, ("half = n // 2", "half = 0")), why="a number, which costs nothing"),
        NearMiss(
            vary(_TILES, ("half = n // 2", "_ = n // 2")), why="the name says that it is not used"
        ),
        NearMiss(
            vary(_TILES, ("half = n // 2", "half = n // 2\n    if half > 4:\n        v = v * 2.0")),
            why="a branch asks for it",
        ),
    )
    seen = (
        Seen("fla-core", "fla/ops/common/chunk_o.py", "chunk_fwd_kernel_o", 91),
        Seen("liger-kernel", "liger_kernel/ops/kl_div.py", "_kldiv_kernel_backward", 114),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        if subject.facts.kernel.dialect == "cuda":
            yield from self._written(subject)
            return
        material = subject.host.material
        found = _in_kernel(subject, material)
        if found:
            names = ", ".join(f"`{name}`" for name in found)
            yield self.finding(
                subject,
                f"{names}: computed here and never read",
                "drop it, or move it to the branch that reads it",
                [one for places in found.values() for one in places],
                Severity.NOTE,
            )
        for function in behind(material) if material is not None else ():
            rows = _dead(function)
            if rows:
                yield self.finding(
                    subject,
                    f"{', '.join(f'`{name}`' for name in rows)}: computed in `{function.name}` "
                    "and never read",
                    "drop it, or read it where it was meant to be read",
                    [one for places in rows.values() for one in places],
                    Severity.NOTE,
                )

    def _written(self, subject: Subject) -> Iterator[Finding]:
        """Variables, constants and names of types of the kernel, its helpers and its launchers that
        the text has once."""
        found: dict[tuple[str, str], list[Unread]] = {}
        made = {Declared.LOCAL: "computed", Declared.NAME: "declared"}
        for one in subject.host.unread:
            if one.declared in made and not one.name.startswith("_"):
                found.setdefault((one.function, made[one.declared]), []).append(one)
        for (function, how), rows in found.items():
            names = ", ".join(f"`{one.name}`" for one in rows)
            yield self.finding(
                subject,
                f"{names}: {how} {f'in `{function}`' if function else 'here'} and never read",
                "drop it, or read it where it was meant to be read",
                [one.lines for one in rows],
                Severity.NOTE,
            )


def _in_kernel(subject: Subject, material: Material | None) -> dict[str, list[Lines]]:
    """Names of a kernel and its helpers that nothing reads, with their lines."""
    found: dict[str, list[Lines]] = {}
    for function in subject.facts.kernel.functions:
        rows = list(_ops(function.body))
        kept = " ".join(str(op.attribute("what")) for op in rows if op.kind == OpKind.OPAQUE)
        for name, lines in _unread(rows):
            if not re.search(rf"\b{re.escape(name)}\b", kept):
                found.setdefault(name, []).append(lines)
    written = material and function_at(
        material.tree, material.signature.name, material.signature.lines
    )
    for name, places in _dead(written).items() if written else ():
        found.setdefault(name, places)
    return found


def _dead(function: ast.FunctionDef) -> dict[str, list[Lines]]:
    """Names that a function sets to what it computes and that nothing reads, with their lines: no
    first values, nor what a call may be made for."""
    found: dict[str, list[Lines]] = {}
    for one in dead_stores(function).assignments:
        names = [name.id for t in one.targets for name in each(t, ast.Name)]
        if any(name.startswith("_") for name in names) or not computes(one.value):
            continue
        if not _acts(one.value):
            found.setdefault("`, `".join(dict.fromkeys(names)), []).append(lines_of(one))
    return found


def _acts(value: ast.expr) -> bool:
    """Whether a value may be asked for because of what happens on the way: a launch, or a member
    that is taken out."""
    functions = (call.func for call in each(value, ast.Call))
    return any(
        isinstance(func, ast.Subscript) or (isinstance(func, ast.Attribute) and func.attr in _ACTS)
        for func in functions
    )


_ACTS = ("pop", "import_module", "all_reduce", "synchronize", "setdefault")


def _unread(rows: list[Op]) -> list[tuple[str, Lines]]:
    """Names of values that nothing reads, with their lines."""
    read = {value for op in rows for value in op.inputs}
    found = []
    for op in rows:
        if op.regions or not op.results or op.kind in _SETTLED:
            continue
        if op.kind not in READS and effect_of(op.kind) is not Effect.PURE:
            continue
        name = op.results[0].name.partition(".")[0]
        if name.strip("_") and not name.startswith("_"):
            if not any(result.name in read for result in op.results):
                found.append((name, op.span.lines))
    return found


def _ops(region: Region) -> Iterator[Op]:
    """Every operation of a region and of those inside it."""
    for op in region.ops:
        yield op
        for inner in op.regions:
            yield from _ops(inner)
