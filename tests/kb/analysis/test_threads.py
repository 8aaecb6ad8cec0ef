"""Thread-level programs read as tiles: what each idiom of threads becomes."""

from __future__ import annotations

from functools import cache

import pytest

from extractors.cuda.read import read_cuda
from extractors.modules import ModuleText
from extractors.patterns.cases import ATTENTION_POINTER
from extractors.patterns.cases_rows_threads import COPY_THREADS, ROW_NORM_THREADS
from extractors.patterns.cases_threads import FLASH_THREADS, PRODUCT_THREADS
from extractors.read import read
from kb.analysis.facts import Facts
from kb.ops import READS, OpKind

STRIDED = """__global__ void sum(const float* x, float* out, int n) {
    float acc = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) acc += x[blockIdx.x * n + i];
    for (int o = 16; o > 0; o >>= 1) acc += __shfl_down_sync(0xffffffff, acc, o);
    if (threadIdx.x == 0) out[blockIdx.x] = acc;
}
"""

SPREAD = """__global__ void spread(const float* x, float* means, float* spreads, int n) {
    float m = x[blockIdx.x * 32 + threadIdx.x], s = 0.f;
    int c = 1;
    for (int o = 16; o > 0; o /= 2) {
        int d = __shfl_down_sync(0xffffffff, c, o);
        float w = __shfl_down_sync(0xffffffff, m, o);
        float t = __shfl_down_sync(0xffffffff, s, o);
        float r = 1.f / (c + d);
        s = s + t + (m - w) * (m - w) * c * d * r;
        m = (c * m + d * w) * r;
        c = c + d;
    }
    if (threadIdx.x == 0) { means[blockIdx.x] = m; spreads[blockIdx.x] = s; }
}
"""


@cache
def facts(text: str) -> Facts:
    return Facts(read_cuda(text, "case.cu").kernels[-1])


def test_a_tile_program_stays_as_it_is() -> None:
    own = Facts(read(ModuleText("", "case.py", ATTENTION_POINTER)).kernels[-1])
    assert own.program is own.source
    assert facts(COPY_THREADS).program is not facts(COPY_THREADS).source


def test_threads_are_lanes_and_values_of_threads_are_tiles() -> None:
    own = facts(COPY_THREADS)
    (load,) = own.loads
    assert len(own.types.shape(load.value)) == 1
    assert load.array == "x"


def test_a_branch_is_a_mask_and_its_else_a_padding() -> None:
    assert all(access.mask for access in facts(COPY_THREADS).accesses)
    padded = [a.padding for a in facts(ROW_NORM_THREADS).loads]
    assert padded == ["zero", "zero"]


def test_a_strided_loop_walks_chunks() -> None:
    own = facts(STRIDED)
    (loop,) = own.loops
    assert own.values.expr(loop.low).constant == 0
    assert len(own.reductions) == 1


@pytest.mark.parametrize("text", [ROW_NORM_THREADS, STRIDED])
def test_shuffles_and_partials_are_one_reduction(text: str) -> None:
    own = facts(text)
    assert [node.kind for node in own.reductions] == [OpKind.REDUCE_SUM]
    assert own.types.shape(own.reductions[0].result) == ()


def test_what_a_loop_weights_and_adds_across_lanes_is_reduced_too() -> None:
    own = facts(SPREAD)
    assert [node.kind for node in own.reductions] == [OpKind.REDUCE_SUM] * 3
    made = [{n.result for n in own.graph.roots(s.value, OpKind.REDUCE_SUM)} for s in own.stores]
    assert all(len(one) == 1 for one in made)
    assert made[0] != made[1]


def test_products_of_shared_tiles_are_contractions() -> None:
    (product,) = facts(PRODUCT_THREADS).contractions
    sides = [facts(PRODUCT_THREADS).held_loads(product.op.operand(r)) for r in ("lhs", "rhs")]
    assert [side[0].array for side in sides] == ["a", "b"]


def test_keys_enter_the_scores_turned() -> None:
    own = facts(FLASH_THREADS)
    (score,) = own.score_products
    assert own.turned(score.op.operand("rhs")) is not None
    assert own.turned(score.op.operand("lhs")) is None


def test_shared_memory_is_no_array_of_the_kernel() -> None:
    own = facts(PRODUCT_THREADS)
    assert {access.array for access in own.accesses} == {"a", "b", "out"}
    assert not [n for n in own.graph.of(*READS) if n.op.attribute("space") == "shared"]


@pytest.mark.parametrize(
    ("left", "kind"),
    [
        pytest.param("__shfl_down_sync()", OpKind.OPAQUE, id="by a function"),
        pytest.param(
            'given(); asm volatile("shfl.sync.down.b32 %0, %1, 1, 31, -1;" : "=f"(acc) :)',
            OpKind.INLINE_ASM,
            id="by an instruction",
        ),
    ],
)
def test_an_exchange_of_nothing_is_not_understood(left: str, kind: OpKind) -> None:
    text = STRIDED.replace("__shfl_down_sync(0xffffffff, acc, o)", left)
    (kernel,) = read_cuda(text, "k.cu").kernels
    facts = Facts(kernel)
    assert facts.program is not None
    assert not facts.threads.of(OpKind.SHUFFLE)
    assert facts.threads.of(kind)
