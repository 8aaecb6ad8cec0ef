# ruff: noqa: E501
"""Every launch gives a run-time parameter the same number, flag or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.facts import Material
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject, Where
from extractors.rules.unreachable_specialisation import spelled
from kb.analysis.facts import Facts
from kb.evidence import Finding, Severity
from kb.ir import ParameterKind
from kb.ops import OpKind

_NOTHING = {"none": "no array", "None": "nothing", "nullptr": "no array"}
_VOID = {"0", "1", "0.0", "1.0", "0.0f", "1.0f", "0.f", "1.f", "True", "False", *_NOTHING}
"""What leaves a part of the computation without effect."""


_THREADS = """
__global__ void scale(const float* x, const bool* done, float* out, int n, float by) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (done != nullptr && done[blockIdx.x]) return;
  if (at < n) out[at] = x[at] * by;
}
void run(const float* x, float* out, int n, float by) {
  scale<<<(n + 127) / 128, 128>>>(x, nullptr, out, n, by);
}
"""
_SCALED = vary(
    _THREADS,
    ("x, nullptr, out, n, by);", "x, done, out, n, 1.0f);"),
    ("float* out, int n, float by) {\n  s", "bool* done, float* out, int n) {\n  s"),
)
_TILES = (
    TILE
    + """
@ct.kernel
def scale(x, out, by: int, T: Int):
    tile = ct.load(x, index=(ct.bid(0),), shape=(T,))
    ct.store(out, index=(ct.bid(0),), tile=tile * by)

def run(x, out):
    ct.launch(None, (x.shape[0] // 256, 1, 1), scale, (x, out, 1, 256))
"""
)
_POINTERS = (
    POINTER
    + """
import torch
@triton.jit
def scale(x, out, n, by, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at, mask=at < n) * by, mask=at < n)

def run(x):
    out = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), 1.0, 1024)
    return out
"""
)


class ArgumentNeverVaries(Rule):
    """A parameter that is no compile-time one is written as the same literal in every launch, one
    that leaves what is computed with it without effect: no array for a branch that asks for it,
    zero, one, or a flag."""

    name = "argument-never-varies"
    dialects = ("cuda", "cutile", "triton")
    matches = (
        Case(_THREADS, "`done` is no array"),
        Case(_SCALED, "`by` is 1"),
        Case(_POINTERS, "`by` is 1.0"),
        Case(_TILES, "`by` is 1"),
    )  # fmt: skip
    near_misses = (
        NearMiss(
            vary(_THREADS, ("float* out, int n, float by) {\n  scale", "const bool* done, float* out, int n, float by) {\n  scale"), ("(x, nullptr", "(x, done")),
            why="whoever calls the host function chooses",
        ),
        NearMiss(
            vary(_THREADS, ("  scale<<<", "  scale<<<1, 128>>>(x, (const bool*)out, out, n, by);\n  scale<<<")),
            why="another launch gives an array",
        ),
        NearMiss(vary(_THREADS, ("done != nullptr && done[blockIdx.x]", "at > n")), why="nothing reads it"),
        NearMiss(vary(_POINTERS, ("n, by, T", "n, by: tl.constexpr, T")), why="it is compiled in"),
        NearMiss(vary(_POINTERS, ("1.0, 1024)", "0.5, 1024)")), why="a number that has an effect"),
        NearMiss(
            vary(_POINTERS, ("def run(x)", "def run(x, by)"), ("1.0, 1024)", "by, 1024)")),
            why="whoever calls the host function chooses",
        ),
    )  # fmt: skip
    seen = (
        Seen("vllm", "csrc/moe/topk_softmax_kernels.cu", "moeSoftmax", 81),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        told = list(_fixed(subject))
        facts, host = subject.facts, subject.host
        if told:
            text = ", ".join(f"`{name}` is {_NOTHING.get(value, value)}" for name, value in told)
            lines: list[Where] = [*facts.declared(*(name for name, _ in told))]
            lines += [facts.threads.users(name)[0] for name, _ in told]
            lines += [one.lines for one in host.launches[:4] if one.file is None]
            yield self.finding(
                subject,
                f"{text} at every launch: what the kernel does for another value is never used",
                "leave the parameter out, or give it where another value is meant",
                lines,
                Severity.NOTE,
            )


def _fixed(subject: Subject) -> Iterator[tuple[str, str]]:
    """Run-time parameters that are read, each with the one literal that every launch gives."""
    facts, host = subject.facts, subject.host
    rows = [{one.parameter: one.expression for one in launch.bindings} for launch in host.launches]
    if not rows or not _all_known(host.material):
        return
    for parameter in facts.kernel.entry.parameters:
        name = parameter.name
        given = {row.get(name, "?") for row in rows}
        value = next(iter(given))
        if parameter.kind is ParameterKind.CONSTEXPR or len(given) > 1 or value not in _VOID:
            continue
        if value in _NOTHING and not _asked_for(facts, name):
            continue
        if facts.threads.uses.get(name) and (host.material is None or spelled(host.material, name)):
            yield name, value


def _all_known(material: Material | None) -> bool:
    """Whether no other module launches the kernel, or calls a function on the way to a launch."""
    if material is None or material.loader is None:
        return True
    inner = {name for launch in material.sites() for name in launch.stack[1:]}
    return material.launched_here_only() and not any(map(material.loader.imported, inner))


def _asked_for(facts: Facts, name: str) -> bool:
    """Whether a branch asks for an array."""
    return any(
        node.op.kind in (OpKind.EQ, OpKind.NE, OpKind.IF, OpKind.IF_EXPRESSION, OpKind.AND)
        for node in facts.threads.users(name)
    )
