"""How the loops of a convolution become rows, columns and the reduced axis of a product."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, TILE
from extractors.patterns.cases_convolutions import (
    DEPTHWISE_THREADS,
    DEPTHWISE_TILE,
    DIRECT,
    POOLED,
    WINDOW,
)
from extractors.patterns.cases_gluon import CONVOLUTION_GLUON, PRODUCT_GLUON
from extractors.patterns.cases_rows import CONVOLUTION
from extractors.patterns.cases_rows_pointer import CONVOLUTION_TILE
from extractors.patterns.cases_rows_threads import CONVOLUTION_THREADS
from extractors.patterns.cases_taps import (
    HELD,
    HELD_THREADS,
    NOT_PICKED,
    PICKED,
    REGISTERS,
    ROWS,
    TAPS_TILE,
    UNWEIGHTED,
)
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.convolution import convolution, decoding
from kb.analysis.facts import Facts
from kb.analysis.single_steps import convolved
from kb.evidence import Decision

_WRAPPED = (
    TILE
    + """
@ct.kernel
def weights(x, dy, order, out, first: int, size: int, TM: Int, TN: Int, TK: Int):
    cols = ct.bid(0) * TK + ct.arange(TK, dtype=ct.int32)
    acc = ct.full((TN, TK), 0.0, dtype=ct.float32)
    for k in range(ct.cdiv(size, TM)):
        own = first + (k * TM + ct.arange(TM, dtype=ct.int32)) % size
        rows = ct.gather(order, (own,), check_bounds=True, padding_value=0)
        a = ct.load(dy, index=(ct.bid(1), k), shape=(TN, TM))
        acc = ct.mma(a, ct.gather(x, (rows[:, None], cols[None, :])), acc)
    ct.store(out, index=(ct.bid(1), ct.bid(0)), tile=acc)
"""
)


class ConvGemmMapping(Pattern):
    """Row lanes, or the first row of a block, are divided into image, output row and output
    column; or inputs and weights meet tap by tap."""

    name = "implicit-gemm-row-decoding"
    axis = "conv_gemm_mapping"
    source = "Chetlur et al., cuDNN: Efficient Primitives for Deep Learning (2014), implicit GEMM"
    matches = (
        Case(CONVOLUTION_GLUON, "implicit GEMM, M=N*P*Q, N=K, K=C*R*S"),
        Case(CONVOLUTION, "implicit GEMM, M=N*P*Q, N=K, K=C*R*S"),
        Case(CONVOLUTION_TILE, "implicit GEMM, M=N*P*Q, N=K, K=C*R*S"),
        Case(CONVOLUTION_THREADS, "implicit GEMM, M=N*P*Q, N=K, K=C*R*S"),
        Case(DIRECT, "direct"),
        Case(DEPTHWISE_TILE, "direct"),
        Case(DEPTHWISE_THREADS, "direct"),
        Case(TAPS_TILE, "direct"),
        Case(PICKED, "direct"),
        Case(HELD, "direct"),
        Case(REGISTERS, "direct"),
        Case(HELD_THREADS, "direct"),
    )
    near_misses = (
        NearMiss(POOLED, why="inputs are summed without weights"),
        NearMiss(WINDOW, why="one factor for all taps"),
        NearMiss(NOT_PICKED, why="a sum of the weights for all taps"),
        NearMiss(UNWEIGHTED, why="inputs are summed without weights"),
        NearMiss(ROWS, why="rows side by side are multiplied, nothing slides"),
        NearMiss(_WRAPPED, why="rows of one segment, which begin anew, are no taps"),
        NearMiss(PRODUCT_GLUON, why="rows are rows, nothing is taken apart"),
        NearMiss(PRODUCT, why="rows are rows, nothing is taken apart"),
        NearMiss(PRODUCT_POINTER, why="rows are rows, nothing is taken apart"),
        NearMiss(PRODUCT_THREADS, why="rows are rows, nothing is taken apart"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = convolution(facts)
        if found is None:
            if products := convolved(facts):
                yield self.decide(facts, "direct", products)
            return
        if found.product is not None and found.weights is not None:
            yield self.decide(facts, "direct", [found.product, found.load, found.weights])
            return
        rows = decoding(facts, found.rows)
        if rows and facts.contractions:
            yield self.decide(facts, "implicit GEMM, M=N*P*Q, N=K, K=C*R*S", rows)
