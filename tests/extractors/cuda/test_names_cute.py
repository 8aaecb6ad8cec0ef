"""Which files speak of CuTe, and what the names of its atoms say."""

from __future__ import annotations

import pytest

from extractors.cuda.library import gather, names_cute
from kb.dialects import cute


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("#include <cute/tensor.hpp>\n", True),
        ("using namespace cute;\n", True),
        ("__global__ void k(float* x) { cute::copy(x, x); }\n", True),
        ("// how to execute this, without cute\n__global__ void k() { execute(); }\n", False),
        ('__global__ void k() { printf("cute"); }\n', False),
    ],
)
def test_code_is_asked_and_no_comment(text: str, told: bool) -> None:
    assert names_cute(*gather(text, "k.cu", lambda path, name: None)) is told


@pytest.mark.parametrize(
    ("words", "turned"),
    [
        ({"SM75_U16x8_LDSM_T"}, True),
        ({"SM75_U32x4_LDSM_N"}, False),
        ({"SM75_U16x8_LDSM_T", "SM75_U32x4_LDSM_N"}, False),
    ],
)
def test_matrices_are_turned_where_every_name_says_so(words: set[str], turned: bool) -> None:
    found = cute.atom(frozenset(words))
    assert (found.engine, found.turned) == ("matrix", turned)
