"""What a load of shared memory may find of the values that were put there."""

from __future__ import annotations

import pytest

from kb.analysis.graph import Graph
from kb.analysis.shared import SharedMemory
from kb.analysis.values import Values
from tests.extractors.cuda.samples import sound

_HEAD = "__global__ void k(const float* x, float* out, int n, bool asked) {\n"
_TWICE = "s[threadIdx.x] = x[0];\n__syncthreads();\nout[0] = s[0];\n"


def found(body: str) -> list[tuple[int, ...]]:
    """For every load of shared memory in a kernel, the lines of what it may find, in the order of
    the text."""
    graph = Graph(sound(f"{_HEAD}__shared__ float s[600];\n{body}}}\n").entry)
    shared, values = SharedMemory(graph), Values(graph)
    rows = []
    for load in graph.nodes:
        if load.op.kind == "load" and shared.holds(load.op):
            made = [graph.producer(value) for value in shared.reaching(load.op, values)]
            rows.append(tuple(node.op.span.line for node in made if node is not None))
    return rows


def test_what_was_put_there_last() -> None:
    again = "__syncthreads();\ns[threadIdx.x] = x[1];\n__syncthreads();\nout[1] = s[threadIdx.x];\n"
    assert found(_TWICE + again) == [(3,), (7,)]


@pytest.mark.parametrize("branch", ["if (asked) ", "for (int i = 0; i < n; i++) "])
def test_what_is_perhaps_put_there_replaces_nothing(branch: str) -> None:
    again = f"__syncthreads();\n{branch}s[threadIdx.x] = x[1];\nout[1] = s[threadIdx.x];\n"
    assert found(_TWICE + again)[1] == (3, 7)


def test_parts_that_lie_a_warp_apart() -> None:
    other = "float* t = s + 32;\nt[threadIdx.x / 32] = x[1];\nout[1] = t[threadIdx.x % 32];\n"
    assert found(f"s[threadIdx.x / 32] = x[0];\n{other}out[0] = s[threadIdx.x % 32];\n") == [
        (5,), (3,),
    ]  # fmt: skip


def test_neighbours_are_read_from_where_others_stored() -> None:
    body = (
        "s[threadIdx.x + 1] = x[threadIdx.x];\nif (threadIdx.x == 0) s[0] = x[n];\n"
        "out[threadIdx.x] = s[threadIdx.x] + s[threadIdx.x + 2];\n"
    )
    assert found(body) == [(3, 4), (3, 4)]


def test_what_a_loop_moves_on_finds_what_lies_further_away() -> None:
    body = (
        "s[threadIdx.x] = x[0];\ns[threadIdx.x + 256] = x[1];\n"
        "for (int i = 0; i < n; i++) out[i] = s[threadIdx.x + i];\n"
    )
    assert found(body) == [(3, 4)]


def test_a_round_does_not_load_what_it_stores_behind() -> None:
    rows = "for (int i = threadIdx.x; i < n; i += blockDim.x)"
    body = f"{rows} s[i] = x[i];\n{rows} s[i] = s[i] * 2.f;\n"
    assert found(body) == [(3,)]


def test_a_round_loads_what_an_earlier_one_left() -> None:
    body = "s[0] = x[0];\nfor (int i = 0; i < n; i++) s[0] = s[0] + x[i];\n"
    assert found(body) == [(3, 4)]
