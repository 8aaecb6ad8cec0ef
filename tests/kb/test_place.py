"""Lines of a call that know where the helper stands: they behave as bare lines everywhere else."""

from __future__ import annotations

import copy
import pickle
from dataclasses import asdict

from kb.evidence import Decision
from kb.ir import Place, Span
from kb.space import implied

PLACE = Place((3, 4), ("near.cuh", (7, 8)))


def test_a_place_is_like_its_lines() -> None:
    assert PLACE == (3, 4)
    assert PLACE in {(3, 4)}
    assert Place((3, 4), ("near.cuh", (9, 9))) != PLACE
    assert sorted([PLACE, (1, 2)]) == [(1, 2), (3, 4)]


def test_copies_are_bare_lines() -> None:
    constraint = implied("n > 0", "why", "hint", PLACE)
    copies = [pickle.loads(pickle.dumps(PLACE)), copy.deepcopy(PLACE), asdict(constraint)["lines"]]
    assert copies == [(3, 4)] * 3
    assert {type(one) for one in copies} == {tuple}


def test_a_span_leads_to_its_origin() -> None:
    span = Span(3, 0, 4, "k.cu", origin=("near.cuh", (7, 8)))
    assert span == Span(3, 0, 4, "k.cu")
    assert isinstance(span.lines, Place)
    assert isinstance(span.head, Place)
    assert (span.lines.origin, span.head.origin) == (("near.cuh", (7, 8)), ("near.cuh", (7, 7)))
    assert not isinstance(Span(3, 0, 4, "k.cu").lines, Place)


def test_two_ways_to_one_helper_are_two_places() -> None:
    ways = [Place((3, 4), ("near.cuh", (7, 8)), (("far.h", (n, n)),)) for n in (5, 6)]
    assert ways[0] != ways[1]
    assert ways[0] == (3, 4) == ways[1]
    told = Decision(axis="io_cast", value="upcast on load", pattern="p", lines=tuple(ways))
    assert told.lines == ((3, 4),)
    assert told.elsewhere == (("far.h", (5, 5)), ("far.h", (6, 6)), ("near.cuh", (7, 8)))
