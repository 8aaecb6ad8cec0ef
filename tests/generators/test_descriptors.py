"""Which tile accesses become tensor descriptors, why others do not, and what the host does."""

from __future__ import annotations

import pytest

from api.generate import generate
from generators.emit import emit_program
from generators.lower import roads
from generators.lower.roads import Manner, Road
from generators.lower.triton import to_triton
from kb.ir import Kernel
from tests.api.design_documents import attention
from tests.generators.reference.sources import cutile

ROADS = [Road.HOST, Road.DEVICE]


def tile(
    load: str, *, store: str = "ct.store(Out, index=(i, 0), tile=x)", more: str = ""
) -> Kernel:
    """A kernel with one load of X and one store to Out, of tiles of N elements."""
    return cutile(f"""
@ct.kernel
def k(X, Y, Out, n: int, N: ct.Constant[int]):
    i = ct.bid(0)
    {more or "pass"}
    x = {load}
    {store}
""")


SERVED = "ct.load(X, index=(i, 0), shape=(N, 64))"


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        pytest.param(tile(SERVED), "", id="a tile of rows"),
        pytest.param(
            tile("ct.load(X, index=(i, 0), shape=(N, 64), padding_mode=ct.PaddingMode.ZERO)"),
            "", id="zero outside",
        ),
        pytest.param(
            tile("ct.load(X, index=(0, i), shape=(64, N), order=(1, 0))"), "", id="turned",
        ),
        pytest.param(
            tile("ct.load(X, index=(i, 0), shape=(N, 64), padding_mode=ct.PaddingMode.NEG_INF)"),
            "padding neg_inf", id="minus infinity outside",
        ),
        pytest.param(
            tile("ct.load(X, index=(i, 0), shape=(N, 8))"), "perhaps less than 16", id="narrow",
        ),
        pytest.param(
            tile("ct.load(X, index=(i, 0), shape=(64, N))", more="ct.atomic_add(X, (0, 0), 1.0)"),
            "reads and writes", id="read after write",
        ),
        pytest.param(
            tile("ct.load(X, index=(i, 0), shape=(N, 64), allow_tma=False)"),
            "forbids the copy engine", id="forbidden",
        ),
        pytest.param(
            tile("ct.gather(X, (ct.arange(64, dtype=ct.int32), 0))",
                 store="ct.scatter(Out, (ct.arange(64, dtype=ct.int32), 0), x)"),
            "indices of their own", id="elements",
        ),
        pytest.param(
            tile("ct.load(P, index=(i, 0), shape=(N, 64))", more="P = X.slice(0, n, n + 64)"),
            "a part of an array", id="a slice",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("road", ROADS)
def test_what_a_descriptor_serves(kernel: Kernel, reason: str, road: Road) -> None:
    lowered = to_triton(kernel, Manner(road=road))
    found = [a for a in lowered.accesses if a.array == "X" and "atomic" not in a.kind]
    assert len(found) == 1
    assert found[0].described is (not reason)
    assert reason in found[0].reason
    noted = [note for note in lowered.residuals if "of X at" in note and "pointers for" in note]
    assert bool(noted) is bool(reason)


def test_known_sizes_decide() -> None:
    kernel = tile("ct.load(X, index=(i, 0), shape=(64, N))")
    sizes = {"X": 4, "Out": 4}

    def served(columns: int) -> list[bool]:
        manner = Manner(road=Road.HOST, known={"N": columns}, element_bytes=sizes)
        return [access.described for access in to_triton(kernel, manner).accesses]

    assert (served(4), served(2)) == ([True, True], [False, False])


def test_one_descriptor_per_block_made_before_the_loop() -> None:
    kernel = cutile("""
@ct.kernel
def k(X, Out, n: int, N: ct.Constant[int]):
    for j in range(n):
        x = ct.load(X, index=(j, 0), shape=(N, 64))
        y = ct.load(X, index=(j + 1, 0), shape=(N, 64))
        ct.store(Out, index=(j, 0), tile=x + y)
""")
    text = emit_program(to_triton(kernel, Manner(road=Road.DEVICE)).kernel, "triton")
    before, _, inside = text.partition("for j in")
    assert before.count("tl.make_tensor_descriptor(") == 2
    assert inside.count(".load([") == 2
    assert "make_tensor_descriptor" not in inside
    assert "tl.load" not in text


def test_pointers_that_only_descriptors_replace_are_no_parameters() -> None:
    lowered = to_triton(tile(SERVED), Manner(road=Road.HOST))
    sources = {p.name: p.source for p in lowered.parameters}
    assert sources == {
        "Y": "scalar", "n": "scalar", "X_tiles": "descriptor", "Out_tiles": "descriptor",
        "N": "constexpr",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "present", "absent"),
    [
        pytest.param({"access_mode": "tile"}, "TensorDescriptor(q, q.shape", "_scratch", id="host"),
        pytest.param(
            {"descriptor_site": "device"}, "triton.set_allocator(_scratch)", "TensorDescriptor",
            id="device",
        ),
        pytest.param({"access_mode": "pointer"}, "tl.load(", "escriptor(", id="pointers"),
    ],
)  # fmt: skip
def test_the_road_is_a_setting(settings: dict[str, str], present: str, absent: str) -> None:
    text = generate(attention(), "triton", settings)
    assert present in text
    assert absent not in text
    assert ('= _aligned("k", k)' in text) is ("pointer" not in settings.values())


@pytest.mark.parametrize("road", list(Road))
def test_the_default_holds_where_there_is_a_copy_engine(
    road: Road, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roads, "DEFAULT_ROAD", road)
    assert [roads.default_road(target) for target in ((8, 9), (9, 0), (12, 0))] == [
        Road.POINTERS, road, road,
    ]  # fmt: skip
    text = generate(attention(), "triton", {}, "sm_90")
    assert ("_aligned(" in text) is (road is not Road.POINTERS)
    assert "_aligned(" not in generate(attention(), "triton", {}, "sm_80")
