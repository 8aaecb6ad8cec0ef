"""The DSL: the quoted notation, the two laws, comments, moves, and every refusal with its place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from kb.dsl.model import Document
from kb.dsl.reader import read
from kb.dsl.writer import write
from kb.errors import InputError, SyntaxProblem, TileloreError, UnknownName
from kb.evidence import AxisKind
from kb.space import DesignSpace, GuardedPoints, Origin, Tuning
from tests.kb.dsl.documents import documents
from tests.kb.dsl.vocabulary import VOCABULARY

QUOTED = """design_space {
    softmax_scheme: ["online", "naive"]
    math_approximation: ["exp2", "exp"]
    mask_fusion: ["fused_qk", "post_qk"]
    lse_storage: ["flat_1d", "tensor_3d"]
    accum_dtype: ["f32", "f16"]
    load_latency: int range [0,4]
}

tuning_space {
    tile_m: [32,64,128,256]
    tile_n: [32,64,128,256]
    tile_d: [32,64,128]
    query_group_size: [1,2,4,8]
    occupancy: [1,2,4]
}
"""

FULL = """# A kernel as the tool writes it.
kernel _fmha_kernel {
    operation: "fmha"
    dialect: "cutile"
    source: "sha256:00ff"
    parameters: ["Q", "TILE_M"]
}

design_space {
    softmax_scheme: ["online", "naive" proposed by "ada"]; observed; because "one pass"
}

tuning_space {
    TILE_M: [64, 128]; observed  # from the search
}

constraints {
    TILE_M >= 16; implied; lines 189-200; because "{TILE_M} rows are fewer than the MMA has"
    # the host asserts it
    H % K.shape[1] == 0; stated; checked; lines 854-854
}

mapping {
    softmax_scheme "online" -> "rewrite softmax_scheme"
    TILE_M -> "parameter TILE_M"
}

tuning {
    mechanism: "exhaustive_search"
    effective_axes: ["TILE_M"]
    dead_axes: ["num_ctas"]
    launched_with: {occupancy: 2}
    case "capability[0] < 9" {
        lines: 190-194
        # small first
        point: {TILE_M: 64, num_ctas: 1}
        point: {TILE_M: 128, num_ctas: 1}
    }
}

launch tile_fmha {
    lines: 802-826
    grid: ["cdiv(q_len, TILE_M)", "batch * H", "1"]
    hints: {occupancy: 2}
    Q -> "q"
    TILE_M -> "cfg.TILE_M"
}

program {
    kernel @fmha(%q) {
      for { }
    }
}

evidence {
    decision "softmax_scheme" "online"; pattern "online-softmax"; lines 136-136 142-146
    finding "dead-axis" "num_ctas is searched in vain"; severity "warning"; lines 182-200
}

refused {
    refuse "mask_application" "-1e6"; because "it changes rows that have no key"
}

holes {
    "eps and where it is added"
}
"""


def test_quoted_notation_is_read_and_the_misplaced_axis_moved() -> None:
    reading = read(QUOTED, VOCABULARY, where="x.dsl")
    document = reading.document
    assert [axis.name for axis in document.space.axes if axis.kind is AxisKind.DESIGN] == [
        "softmax_scheme",
        "math_approximation",
        "mask_fusion",
        "lse_storage",
        "accum_dtype",
    ]
    latency = document.axis("prefetch_depth")
    assert (latency.name, latency.kind, latency.values) == (
        "load_latency",
        AxisKind.TUNING,
        (0, 1, 2, 3, 4),
    )
    assert document.space.axes[-1] == latency
    assert document.axis("mask_placement").values == ("fused_qk", "post_qk")
    assert document.axis("tile_m").values == (32, 64, 128, 256)
    assert document.axis("tile_m").origin is Origin.PROPOSED
    assert [note.message for note in reading.notes] == [
        "`load_latency` is a tuning axis: moved from design_space to tuning_space."
    ]
    assert reading.notes[0].lines == (7, 7)


def test_every_section_is_kept_to_the_letter() -> None:
    document = read(FULL, VOCABULARY).document
    assert write(document) == FULL
    assert document.space.operation == "fmha"
    assert document.tuning is not None
    assert document.tuning.spaces[0].points[1] == (("TILE_M", 128), ("num_ctas", 1))
    assert document.launches[0].bindings[1].expression == "cfg.TILE_M"
    assert document.program == "kernel @fmha(%q) {\n  for { }\n}"
    assert document.decisions[0].lines == ((136, 136), (142, 146))
    axis = document.axis("softmax_scheme")
    assert document.origin_of(axis, "online") == (Origin.OBSERVED, None)
    assert document.origin_of(axis, "naive") == (Origin.PROPOSED, "ada")


@given(documents())
@settings(max_examples=150, deadline=None)
def test_text_loses_nothing(document: Document) -> None:
    text = write(document)
    again = read(text, VOCABULARY).document
    assert again == document
    assert write(again) == text


@pytest.mark.parametrize(
    ("edited", "kept"),
    [
        pytest.param(
            QUOTED.replace("    load", "    # deep\n    load"),
            "    # deep\n    load_latency: int range [0, 4]\n",
            id="a comment moves with its axis",
        ),
        pytest.param(
            QUOTED.replace('"exp"]', '"exp"] # MUFU'),
            '    math_approximation: ["exp2", "exp"]  # MUFU\n',
            id="a comment after its axis",
        ),
        pytest.param("# a licence\n\n" + QUOTED, "# a licence\ndesign_space {\n", id="a head"),
        pytest.param(QUOTED + "\n# the end", "}\n\n# the end\n", id="a tail"),
        pytest.param(
            QUOTED.replace("[1,2,4]\n", "[1,2,4]\n    # more?\n"),
            "    # more?\n}\n",
            id="last in a block",
        ),
        pytest.param(
            QUOTED.replace("[1,2,4]\n", "[1,\n    # two\n  2,4]\n"),
            "    # two\n    occupancy: [1, 2, 4]\n",
            id="inside a list",
        ),
        pytest.param("# only this\n", "# only this\n", id="nothing but a comment"),
        pytest.param(
            QUOTED + "design_space { # more\n  # why\n  tail_handling: [1]\n}\n",
            "    # why\n    tail_handling: [1]\n",
            id="a second block of a kind",
        ),
    ],
)
def test_comments_survive(edited: str, kept: str) -> None:
    document = read(edited, VOCABULARY).document
    text = write(document)
    assert kept in text
    assert text.count("#") == edited.count("#")
    assert read(text, VOCABULARY).document == document


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        pytest.param("design_space {\n", "2:1", "ends inside a block", id="open block"),
        pytest.param("design_space {\n  a [1]\n}", "2:5", "Expected `:`", id="no colon"),
        pytest.param("space {\n}\nkernel {\n}", "3:1", "second `kernel`", id="two headers"),
        pytest.param("desing_space {\n}", "1:1", "`design_space`", id="misspelt section"),
        pytest.param('kernel x {\n  dialetc: "a"\n}', "2:3", "`dialect`", id="misspelt field"),
        pytest.param("kernel x {\n  dialect: 1\n}", "2:3", "needs a string", id="wrong type"),
        pytest.param("constraints {\n  a <= cdvi(1, 2)\n}", "2:8", "`cdiv`", id="function"),
        pytest.param(
            "constraints {\n  a <=\n}", "2:7", "a value is missing", id="half a constraint"
        ),
        pytest.param("constraints {\n  a <= b; sated\n}", "2:3", "`stated`", id="misspelt mark"),
        pytest.param(
            "tuning_space {\n  tile_m: [1]; observed; proposed\n}", "2:3", "exclude", id="two marks"
        ),
        pytest.param("tuning_space {\n  tile_m: int range [4,0]\n}", "2:3", "range", id="range"),
        pytest.param(
            "tuning_space {\n  tile_m: int range [0,99999]\n}", "2:3", "too long", id="long range"
        ),
        pytest.param("tuning_space {\n  tile_m: {a: 1}\n}", "2:3", "list of values", id="record"),
        pytest.param(
            "tuning_space {\n  tile_m: [1]\n  tile_m: [2]\n}", "3:3", "given twice", id="twice"
        ),
        pytest.param(
            "design_space {\n  mask_fusion: [1]\n  mask_placement: [2]\n}",
            "3:3",
            "are the same axis",
            id="twice, by an alias",
        ),
        pytest.param(
            "tuning {\n  case x {\n  p: 1\n}\n}", "3:3", "`p` is not known", id="case field"
        ),
        pytest.param("launch f {\n}", "1:1", "needs `lines", id="launch without lines"),
        pytest.param("holes {\n  a: 1\n}", "2:3", "does not belong in `holes`", id="hole"),
        pytest.param("program { x }", "1:13", "line after `program {`", id="program in a line"),
        pytest.param('evidence {\n  decison "a" "b"\n}', "2:3", "`decision`", id="evidence"),
        pytest.param("@", "1:1", "does not belong here", id="character"),
        pytest.param("tuning_space {\n  tile_m: [1e999]\n}", "2:12", "not finite", id="infinite"),
        pytest.param(
            "tuning_space {\n  tile_m: [" + "9" * 99 + "]\n}", "2:12", "too long", id="digits"
        ),
        pytest.param("a {\n" * 5000, "3:3", "does not belong here", id="nesting"),
    ],
)
def test_refuses_with_place_and_hint(text: str, where: str, said: str) -> None:
    with pytest.raises(SyntaxProblem) as caught:
        read(text, VOCABULARY, where="x.dsl")
    assert said in caught.value.text
    assert caught.value.where == f"x.dsl:{where}"


def test_unknown_axis_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownName) as caught:
        read("design_space {\n    softmax_sheme: [1]\n}", VOCABULARY, where="x.dsl")
    assert caught.value.text.startswith("x.dsl:2:5: there is no axis `softmax_sheme`.")
    assert "Did you mean `softmax_scheme`?" in caught.value.text


@pytest.mark.parametrize(
    "known_by",
    [
        pytest.param('kernel k {\n    parameters: ["BLOCK_X"]\n}\n', id="a parameter"),
        pytest.param('tuning {\n case "always" {\n point: {BLOCK_X: 1}\n}\n}\n', id="a point"),
        pytest.param('launch {\n lines: 1-2\n BLOCK_X -> "64"\n}\n', id="a binding"),
    ],
)
def test_the_kernel_names_its_own_tuning_axes(known_by: str) -> None:
    text = known_by + "tuning_space {\n    BLOCK_X: [64]\n}\n"
    assert read(text, VOCABULARY).document.axis("BLOCK_X").kind is AxisKind.TUNING


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(" " * 4_000_001, id="characters"),
        pytest.param("design_space {\n    a: [" + "1," * 101_000 + "]\n}", id="words"),
    ],
)
def test_too_large_a_file_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text, VOCABULARY)
    assert "too large" in caught.value.text


def test_an_axis_that_is_missing_is_named() -> None:
    with pytest.raises(UnknownName, match="has no axis `tile_k`"):
        read(QUOTED, VOCABULARY).document.axis("tile_k")


@pytest.mark.parametrize("cut", range(0, len(FULL), 37))
def test_half_a_file_is_refused_not_misread(cut: int) -> None:
    try:
        document = read(FULL[:cut], VOCABULARY).document
    except TileloreError:
        return
    assert read(write(document), VOCABULARY).document == document


@pytest.mark.parametrize("word", ["True", "none", "False.x", "int", "program", "constraints"])
def test_names_that_look_like_other_words_are_read_back(word: str) -> None:
    case = GuardedPoints(when=word, points=(((word, 1),),))
    space = DesignSpace(name=word, operation="", axes=())
    document = Document(space=space, tuning=Tuning(spaces=(case,), launched_with=((word, None),)))
    assert read(write(document), VOCABULARY).document == document


def test_a_mark_stays_with_its_value_and_its_axis() -> None:
    text = (
        'design_space {\n    load_latency: [1, 2 stated]\n    accum_dtype: ["a", "a" stated]\n}\n'
    )
    document = read(text, VOCABULARY).document
    assert [mark.axis for mark in document.marks] == ["accum_dtype", "load_latency"]
    assert read(write(document), VOCABULARY).document == document


def test_infinite_numbers_have_no_text() -> None:
    document = read(QUOTED, VOCABULARY).document
    axis = replace(document.space.axes[-1], values=(float("inf"),))
    endless = replace(document, space=DesignSpace(name="", operation="", axes=(axis,)))
    with pytest.raises(InputError, match="cannot be written"):
        write(endless)
