"""A parameter of the kernel is never read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.file_facts import Declared, Unread
from extractors.host.values import Expr
from extractors.patterns.cases import POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED
from kb.analysis.parameters import parameters_of
from kb.evidence import Finding, Severity
from kb.ir import UNNAMED, Op, Region
from kb.knowledge import ParameterFact, ParameterRole
from kb.ops import OpKind

_HELPED = (
    POINTER
    + """
@triton.jit
def near(at, size):
    return tl.load(at + size)

@triton.jit
def copy(x, out, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64)
    tl.store(out + at, near(x + at, T))
"""
)

_LANES = """
#include <cuda_runtime.h>
__global__ void scale(const float* x, float* out, int n, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i] = by * x[i]; }
}
"""
_BY_LAMBDA = vary(
    _LANES,
    ("if (i < n) { out[i] = by * x[i]; }",
     "auto put = [&]<bool Whole>() { out[i] = by * x[i]; };\n"
     "  auto some = [&]() { if (i < n) { put.template operator()<true>(); } };\n"
     "  cg::invoke_one(cg::coalesced_threads(), some);"),
)  # fmt: skip


_KEYED = vary(
    AUTOTUNED, ("n, T: tl", "n, bucket, T: tl"), ('key=["n"]', 'key=["bucket"]'),
    ("(x, out, n)", "(x, out, n, n // 1024)"),
)  # fmt: skip


class UnusedParameter(Rule):
    """A parameter that nothing reads. A compile-time one still costs one compilation per value; one
    of a helper costs those who read its calls."""

    name = "unused-parameter"
    dialects = ("cutile", "triton", "cuda")
    matches = (
        Case(vary(ROW_NORM, ("T: Int):", "T: Int, B: Int):")), "compiled anew"),
        Case(vary(ADD_POINTER, ("T: tl.constexpr", "T: tl.constexpr, B: tl.constexpr")), "B"),
        Case(vary(ADD_POINTER, ("n, T:", "n, far, T:")), "far"),
        Case(vary(_KEYED, ("bucket, T:", "bucket: tl.constexpr, T:")), "only serves the key"),
        Case(vary(_HELPED, ("at + size", "at")), "`size` of `near`"),
        Case(vary(_LANES, ("float by)", "float by, int far)")), "far"),
        Case(
            vary(
                _LANES,
                ("__global__", "template <int Far, typename T>\n__global__"),
                ("const float* x", "const T* x"),
            ),
            "template parameter `Far`",
        ),
        Case(
            vary(
                _LANES,
                ("__global__", "__device__ float far(float v, int n) { return v; }\n__global__"),
                ("by * x[i]", "far(by * x[i], n)"),
            ),
            "parameter `n` of `far`",
        ),
        Case(vary(_BY_LAMBDA, ("float by)", "float by, int far)")), "far"),
        Case(
            vary(
                _LANES, ("int n, float by)", "int n, float by, CUTE_GRID_CONSTANT Far const far)")
            ),
            "`far`",
        ),
    )
    near_misses = (
        NearMiss(_KEYED, why="the search is keyed on it: that is what it is for"),
        NearMiss(ROW_NORM, why="every parameter is read"),
        NearMiss(_HELPED, why="every parameter of the helper is read"),
        NearMiss(_LANES, why="every parameter is read"),
        NearMiss(_BY_LAMBDA, why="lambdas read them that a function of a library is handed"),
        NearMiss(vary(_LANES, ("float by)", "float by, int /* far */)")),
                 why="it has no name: its author says that nothing reads it"),
        NearMiss(
            _LANES.partition("{")[0] + "{}\n", why="a kernel without a body stands in for another"
        ),
        NearMiss(
            vary(_LANES, ("__global__", "template <int Wide>\n__global__"),
                 ("if (i < n)", "#ifdef WIDE\n  i *= Wide;\n#endif\n  if (i < n)")),
            why="another branch of the preprocessor reads it",
        ),
        NearMiss(
            vary(_LANES, ("__global__", "#define WIDTH Wide * 2\ntemplate <int Wide>\n__global__"),
                 ("i < n", "i < n + WIDTH")),
            why="a macro of the file names it",
        ),
        NearMiss(
            vary(_LANES, ("__global__", "template <int Wide>\n__global__"),
                 ("void scale", "void __launch_bounds__(Wide) scale")),
            why="the launch bounds read it",
        ),
        NearMiss(
            vary(_LANES, ("__global__", "template <typename... Parts>\n__global__"),
                 ("float by)", "Parts... parts)"), ("by * x", "Scale{parts...}.by * x")),
            why="a pack of parameters is read where it is opened",
        ),
        NearMiss(
            vary(_LANES, ("__global__", "template <typename Tile>\n__global__"),
                 ("int n, float by)", "Tile tile)"),
                 ("int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                  "  if (i < n) { out[i] = by * x[i]; }", "tile.scale(x, out);")),
            why="a type of a template is read by the type of a parameter",
        ),
        NearMiss(
            vary(_LANES, ("__global__", "template <typename Tile>\n__global__"),
                 ("float by)", "CUTE_GRID_CONSTANT typename Tile::Params const by)"),
                 ("by * x", "by.scale * x")),
            why="a macro of a library stands before the type of a parameter that is read",
        ),
    )  # fmt: skip

    seen = (Seen("liger-kernel", "liger_kernel/ops/rms_norm.py", "_rms_norm_backward_kernel", 163),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        if facts.kernel.dialect == "cuda":
            yield from self._written(subject)
            return
        kept = [str(op.op.attribute("what")) for op in facts.graph.of(OpKind.OPAQUE)]
        keyed = _keyed(subject)
        serving: list[str] = []
        for fact in parameters_of(facts):
            used = fact.role is not ParameterRole.UNUSED or facts.graph.uses.get(fact.name)
            if used or any(fact.name in what for what in kept):
                continue
            if fact.name in keyed and fact.kind != "constexpr":
                continue  # a search tells problems apart by it, which costs no compilation
            if fact.name.rstrip("_") == UNNAMED or not fact.name.isidentifier():
                continue  # left without a name on purpose, or a pack, or not understood
            if fact.name in keyed:
                serving.append(fact.name)
            else:
                yield self._told(subject, fact)
        if serving:
            yield self._serving(subject, serving)
        yield from self._helpers(subject)

    def _written(self, subject: Subject) -> Iterator[Finding]:
        """Parameters of a CUDA kernel, of templates, helpers and launchers that the text of their
        function has once."""
        found: dict[tuple[str, bool], list[Unread]] = {}
        for one in subject.host.unread:
            if one.declared in (Declared.TEMPLATE, Declared.PARAMETER):
                template = one.declared is Declared.TEMPLATE
                found.setdefault((one.function, template), []).append(one)
        for (function, template), rows in found.items():
            names = ", ".join(f"`{one.name}`" for one in rows)
            kind = "template " if template else ""
            kind += "parameter" if len(rows) == 1 else "parameters"
            of = f" of `{function}`" if function else ""
            yield self.finding(
                subject,
                f"{kind} {names}{of} {'is' if len(rows) == 1 else 'are'} never read",
                f"remove {names} from the {kind} and from what hands over values",
                [one.lines for one in rows],
                Severity.NOTE,
            )

    def _helpers(self, subject: Subject) -> Iterator[Finding]:
        for helper in subject.facts.kernel.helpers:
            ops = list(_ops(helper.body))
            if any(op.kind == OpKind.OPAQUE for op in ops):
                continue
            read = {value for op in ops for value in op.inputs}
            unread = [p for p in helper.parameters if p.name not in read]
            if unread and ops:
                names = ", ".join(f"`{p.name}`" for p in unread)
                yield self.finding(
                    subject,
                    f"{names} of `{helper.name}` {'is' if len(unread) == 1 else 'are'} never read",
                    f"remove {names} from the helper and from its calls",
                    [p.span.lines for p in unread],
                    Severity.NOTE,
                )

    def _serving(self, subject: Subject, names: list[str]) -> Finding:
        text = ", ".join(f"`{name}`" for name in names)
        one = len(names) == 1
        return self.finding(
            subject,
            f"{text} {'is' if one else 'are'} never read by the kernel and only "
            f"serve{'s' if one else ''} the key of the search, yet every value is compiled anew",
            f"make {text} run-time parameters, of which a key may be made, too",
            subject.facts.declared(*names),
            Severity.NOTE,
        )

    def _told(self, subject: Subject, fact: ParameterFact) -> Finding:
        constexpr = fact.kind == "constexpr"
        return self.finding(
            subject,
            f"`{fact.name}` is never read"
            + (", yet every value of it is compiled anew" if constexpr else ""),
            f"remove `{fact.name}` from the parameters and from the launch",
            subject.facts.declared(fact.name),
            Severity.WARNING if constexpr else Severity.NOTE,
        )


def _ops(region: Region) -> Iterator[Op]:
    """Every operation of a region and of those inside it."""
    for op in region.ops:
        yield op
        for inner in op.regions:
            yield from _ops(inner)


def _keyed(subject: Subject) -> frozenset[str]:
    """Parameters that a search remembers its winner under, or that a rule of another parameter may
    read."""
    material = subject.host.material
    found: set[str] = set()
    for search in material.searches if material is not None else ():
        row = search.key if isinstance(search.key, tuple) else ()
        found |= {str(part) for part in row if not isinstance(part, Expr)}
        found |= {str(name) for name, _ in getattr(search.kernel, "heuristics", ())}
    return frozenset(found)
