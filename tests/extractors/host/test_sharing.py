"""Evaluations of sibling modules that a process keeps: taken again only where they hold."""

from __future__ import annotations

import ast
from dataclasses import fields

import pytest

from extractors.host import interpreter
from extractors.host.core import Core
from extractors.host.events import KernelSignature
from extractors.host.machine import Machine
from extractors.host.modules import TextLoader
from extractors.host.read import read_host
from kb.space import Point
from tests.extractors.host.conftest import Read

MAIN = """import triton
import triton.language as tl
{imports}

@triton.autotune(configs=configs.made(), key=["n"])
@triton.jit
def kern(x, n, T: tl.constexpr):
    tl.store(x + tl.arange(0, T), n)

def host(x):
    kern[(1,)](x, 4)
"""
CONFIGS = """import triton
TILES = [32, 64]

def made():
    return [triton.Config({"T": tile}, num_warps=4) for tile in TILES]
"""
PLAIN = "from pkg import configs"
ADDING = "from pkg import more, configs\nmore.ADDED"
COPIED = "from pkg import copied as configs"
ADDING_COPIED = "from pkg import more, copied as configs\nmore.ADDED"
MORE = "from pkg import configs\nconfigs.TILES.append(128)\nADDED = True\n"

COPY = CONFIGS.replace("[32, 64]", "list(configs.TILES)").replace(
    "import triton", "import triton\nfrom pkg import configs"
)


@pytest.fixture(autouse=True)
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sibling modules that were evaluated, in order; nothing is kept from other tests."""
    found: list[str] = []
    evaluate = interpreter.Interpreter._evaluate

    def noting(self: interpreter.Interpreter, module: interpreter.Module) -> interpreter.Frame:
        if module.name != self.main:
            found.append(module.name)
        return evaluate(self, module)

    monkeypatch.setattr(interpreter.Interpreter, "_evaluate", noting)
    monkeypatch.setattr("extractors.host.sharing._kept", {})
    return found


def tiles(name: str, imports: str, **texts: str) -> list[object]:
    """Tile extents that a module searches whose siblings are these texts."""
    siblings = {"pkg": "", "pkg.configs": CONFIGS, "pkg.more": MORE, "pkg.copied": COPY}
    given = {f"pkg.{key}": text for key, text in texts.items()}
    signature = KernelSignature(
        name="kern", params=(("x", False), ("n", False), ("T", True)), lines=(6, 8)
    )
    facts = read_host(
        ast.parse(MAIN.format(imports=imports)),
        path=f"pkg/{name}.py",
        kernels={"kern": signature},
        loader=TextLoader({**siblings, **given}),
    )
    points: list[Point] = [point for space in facts["kern"].tuning.spaces for point in space.points]
    return [dict(point)["T"] for point in points]


def test_a_second_file_takes_the_evaluation_again(evaluated: list[str]) -> None:
    first, second = tiles("one", PLAIN), tiles("two", PLAIN)
    assert first == second == [32, 64]
    assert evaluated.count("pkg.configs") == 1


def test_another_text_is_evaluated(evaluated: list[str]) -> None:
    tiles("one", PLAIN)
    assert tiles("two", PLAIN, configs=CONFIGS.replace("64", "256")) == [32, 256]
    assert evaluated.count("pkg.configs") == 2


@pytest.mark.parametrize(
    "order",
    [
        (PLAIN, ADDING, PLAIN),
        (ADDING, PLAIN, ADDING),
        (COPIED, ADDING_COPIED, COPIED),
        (ADDING_COPIED, COPIED, ADDING_COPIED),
    ],
)
def test_what_one_module_writes_to_another_stays_with_its_reader(order: tuple[str, ...]) -> None:
    wanted = [[32, 64, 128] if "more" in imports else [32, 64] for imports in order]
    assert [tiles(f"file{place}", imports) for place, imports in enumerate(order)] == wanted


def test_a_module_that_imports_the_one_under_analysis_is_evaluated(evaluated: list[str]) -> None:
    text = "from pkg import one\nLEAD = one.SIZE\n" + CONFIGS
    tiles("one", PLAIN + "\nSIZE = 2", configs=text)
    tiles("one", PLAIN + "\nSIZE = 3", configs=text)
    assert evaluated.count("pkg.configs") == 2


def test_a_module_with_a_search_of_its_own_is_evaluated(evaluated: list[str]) -> None:
    search = "@triton.autotune(configs=made(), key=[])\n@triton.jit\ndef other(x):\n    pass\n"
    tiles("one", PLAIN, configs=CONFIGS + search)
    tiles("two", PLAIN, configs=CONFIGS + search)
    assert evaluated.count("pkg.configs") == 2


LATE = """import triton
import triton.language as tl
from pkg import configs
{change}

@triton.jit
def kern(x, n, T: tl.constexpr):
    tl.store(x + tl.arange(0, T), n)

def host(x):
    from pkg import copied
    kern[(1,)](x, len(copied.TILES), T=32)
"""


def test_what_the_main_module_wrote_is_seen_by_what_is_imported_later(read: Read) -> None:
    """The names of the sibling are the same; only the contents of its list are not."""
    siblings = {"pkg__configs": CONFIGS, "pkg__copied": COPY}
    found = []
    for change in ("len(configs.TILES)", "configs.TILES.append(128)", "len(configs.TILES)"):
        facts = read(LATE.format(change=change), **siblings)
        rows = {one.parameter: one.expression for one in facts.launches[0].bindings}
        found.append(rows["n"])
    assert found == ["2", "3", "2"]


def test_a_test_of_the_device_is_told_again(read: Read) -> None:
    """`few` asks the device when the sibling is evaluated; whoever asks `few` asks the device."""
    sibling = "import torch\ndef few():\n    return torch.cuda.get_device_capability()[0] < 9\n"
    main = LATE.replace("{change}", "from pkg import asks").replace("len(copied.TILES)", "asks.OLD")
    texts = {"pkg__configs": CONFIGS, "pkg__copied": COPY, "pkg__asks": sibling + "OLD = few()\n"}
    machines = [read(main, **texts).material for _ in range(2)]
    asked = [
        (one.machine.device_functions, one.machine.device_questions) for one in machines if one
    ]
    assert asked[0] == asked[1]
    assert asked[0][0] == {"few"}


SHARED = frozenset(
    ("modules", "made", "base", "tensors", "aliases", "device_functions", "device_questions")
)
"""State that an evaluation reads and writes, kept with it."""

REFUSED = frozenset(("searches", "kernels", "widened", "profile"))
"""State that keeps an evaluation from being kept when it is met."""

OWN = frozenset(
    ("heap", "path", "steps", "depth", "calls", "sites", "next_id", "imports", "loader")
)
"""State that every evaluation begins anew, that it is kept by, or that is noted by its texts."""

UNTOUCHED = frozenset(
    (
        "machine", "limits", "events", "stack", "budgets", "options", "asked", "kept", "muted",
        "foreign", "site", "called", "nested", "roots", "leading", "trial", "tried", "recognised",
        "notes", "unread", "refusals", "registered", "main", "analysed", "contiguous", "marked",
        "ranks", "entered", "late", "operators", "by_function",
    )
)  # fmt: skip
"""State that a sibling module does not change, or whose change no reader of another file sees."""


def test_every_part_of_the_state_is_accounted_for() -> None:
    """Whoever adds to the state of a reader says above what becomes of it."""
    state = {one.name for kind in (Core, Machine) for one in fields(kind)}
    groups = (SHARED, REFUSED, OWN, UNTOUCHED)
    assert state == frozenset().union(*groups)
    assert len(state) == sum(len(group) for group in groups)
