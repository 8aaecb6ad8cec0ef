"""CUB's loads and stores of a block, as what every thread moves."""

from __future__ import annotations

import pytest

from kb.ops import OpKind
from tests.extractors.cuda.samples import ops, sound

_MOVED = """#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>
__global__ void twice(const int* x, int* out, int n) {
    using Loader = cub::BlockLoad<int, 128, 4, cub::BLOCK_LOAD_VECTORIZE>;
    using Keeper = cub::BlockStore<int, 128, 4, cub::BLOCK_STORE_DIRECT>;
    __shared__ typename Loader::TempStorage room;
    __shared__ typename Keeper::TempStorage other;
    int own[4];
    Loader(room).Load(x + blockIdx.x * 512, own);
    for (int i = 0; i < 4; ++i) own[i] *= 2;
    Keeper(other).Store(out + blockIdx.x * 512, own);
}
"""


def test_a_run_is_one_vector_where_all_of_it_is_there() -> None:
    kernel = sound(_MOVED)
    assert not ops(kernel, OpKind.OPAQUE)
    (load,) = ops(kernel, OpKind.LOAD)
    assert load.results[0].type is not None
    assert load.results[0].type.shape == ("4",)
    assert len(ops(kernel, OpKind.STORE)) == 4, "a direct store moves one element after the other"


@pytest.mark.parametrize("rest", [", n", ", n, 0"])
def test_under_a_count_every_element_is_asked_for(rest: str) -> None:
    kernel = sound(_MOVED.replace("512, own);\n    for", f"512, own{rest});\n    for"))
    assert not ops(kernel, OpKind.OPAQUE)
    assert len(ops(kernel, OpKind.LOAD)) == len(ops(kernel, OpKind.IF_EXPRESSION)) == 4


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("512, own);\n}", "512, own, n);\n}"),
        ("<int, 128, 4, cub::BLOCK_LOAD", "<int, 128, 400, cub::BLOCK_LOAD"),
    ],
)
def test_what_is_not_known_stays_unread(one: str, other: str) -> None:
    text = _MOVED.replace(one, other)
    assert text != _MOVED
    assert ops(sound(text), OpKind.OPAQUE)
