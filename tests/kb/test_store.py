"""The local store: transactions, idempotence, repair, reading beside a writer."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyoxigraph import Quad, RdfFormat

from kb.errors import DoesNotConform, InputError, StoreError, SyntaxProblem, UnknownName
from kb.results import Rows
from kb.store import AddResult, DumpFormat, LocalStore, StoreLocked, default_location, open_store
from kb.store_files import Folder
from kb.store_quads import CATALOGUE, NS, ROOT, VOCABULARY, digest
from kb.store_records import CheckedGraph
from tests.kb.store_sample import kernel_graph

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "kb") as opened:
        yield opened


def state(folder: Path) -> dict[str, bytes]:
    """Every file that is the truth, with its bytes."""
    found = (*folder.glob("kernels/??/*"), *folder.glob("programs/*"))
    return {str(p.relative_to(folder)): p.read_bytes() for p in found}


def count(store: LocalStore, text: str = "?s ?p ?o") -> int:
    answer = store.query(f"SELECT (COUNT(*) AS ?n) {{ {text} }}")
    assert isinstance(answer, Rows)
    return int(answer.values("n")[0] or 0)


def test_add_is_idempotent_and_replaces(store: LocalStore) -> None:
    first, second = kernel_graph("fmha"), kernel_graph("fmha", version=2, decisions=3)
    assert store.add(*first) is AddResult.ADDED
    before = state(store.folder.root)
    shuffled = first[1].splitlines(keepends=True)
    random.Random(7).shuffle(shuffled)
    assert store.add(first[0], "".join(shuffled), first[2]) is AddResult.UNCHANGED
    assert state(store.folder.root) == before
    assert store.add(*second) is AddResult.REPLACED
    assert len(state(store.folder.root)) == 2  # one graph, one program: the old ones are gone
    assert store.stats().decisions == 3
    assert store.check() == ()
    assert store.remove(first[0])
    assert not store.remove(first[0])
    assert state(store.folder.root) == {}
    assert store.stats().kernels == 0


def refuse(_: Sequence[Quad]) -> None:
    raise DoesNotConform("A decision names no axis.", hint="Add tl:onAxis.")


GRAPH, TEXT, PROGRAMS = kernel_graph("fmha")
FOREIGN = f'<{ROOT}axis/softmax_scheme> <{NS}value> "x" <{GRAPH}> .\n'


@pytest.mark.parametrize(
    ("graph", "text", "programs", "said"),
    [
        pytest.param(GRAPH, TEXT + FOREIGN, PROGRAMS, "belongs to another graph", id="subject"),
        pytest.param(
            GRAPH,
            TEXT.replace(f"<{GRAPH}> .", f"<{GRAPH}x> .", 1),
            PROGRAMS,
            "names another graph",
            id="graph",
        ),
        pytest.param(
            GRAPH, TEXT + f'_:b <{NS}value> "x" <{GRAPH}> .\n', PROGRAMS, "blank", id="bnode"
        ),
        pytest.param(GRAPH, TEXT, {}, "not given", id="program missing"),
        pytest.param(GRAPH, TEXT, {next(iter(PROGRAMS)): "other"}, "digest", id="program digest"),
        pytest.param(GRAPH, "", PROGRAMS, "empty", id="empty"),
        pytest.param(VOCABULARY, TEXT, PROGRAMS, "not the name", id="reserved graph"),
    ],
)
def test_a_refused_graph_changes_nothing(
    store: LocalStore, graph: str, text: str, programs: dict[str, str], said: str
) -> None:
    store.add(*kernel_graph("other"))
    before, quads = state(store.folder.root), count(store)
    with pytest.raises(DoesNotConform, match=said):
        store.add(graph, text, programs)
    assert (state(store.folder.root), count(store)) == (before, quads)


def test_the_validator_refuses_before_anything_is_written(tmp_path: Path) -> None:
    with LocalStore(tmp_path / "kb", validate=refuse) as store:
        with pytest.raises(DoesNotConform, match="tl:onAxis"):
            store.add(GRAPH, TEXT, PROGRAMS)
        assert state(store.folder.root) == {}
        assert count(store) == 0


def test_text_that_is_not_quads_has_line_and_column(store: LocalStore) -> None:
    with pytest.raises(SyntaxProblem, match=r":2:\d+"):
        store.add(GRAPH, f'<{GRAPH}> <{NS}value> "x" .\n<oops\n', {})


def test_a_failing_commit_takes_the_files_back(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: str) -> None:
        raise StoreError("The disk is full.")

    store.add(*kernel_graph("other"))
    before = state(store.folder.root)
    monkeypatch.setattr(store, "_commit", full)
    with pytest.raises(StoreError, match="full"):
        store.add(GRAPH, TEXT, PROGRAMS)
    assert state(store.folder.root) == before
    assert store.folder.pending() is None


def test_what_cannot_be_published_is_published_by_the_next_writer(tmp_path: Path) -> None:
    where = tmp_path / "kb"
    store = LocalStore(where)
    store.add(GRAPH, TEXT, PROGRAMS)
    store.folder.snapshots.write_text("in the way")
    with pytest.raises(StoreError, match="cannot be published"):
        store.close()
    store.folder.snapshots.unlink()
    LocalStore(where).close()
    with LocalStore(where, read_only=True) as reader:
        assert len(reader.kernels()) == 1


def test_one_writer_many_readers(tmp_path: Path) -> None:
    where = str(tmp_path / "kb")
    with open_store(where, vocabulary=None) as writer:
        writer.add(GRAPH, TEXT, PROGRAMS)
        with pytest.raises(StoreLocked, match=f"process {os.getpid()}.*Wait"):
            open_store(where)
        assert len(writer.query("SELECT * { ?k a tl:Kernel }")) == 1  # type: ignore[arg-type]
        with open_store(where, read_only=True) as reader:
            writer.add(*kernel_graph("later"))
            assert len(writer.kernels()) == 2
            assert len(reader.kernels()) == 1
            assert reader.program(next(iter(PROGRAMS))).startswith("kernel fmha")
            with pytest.raises(StoreError, match="reading"):
                reader.add(*kernel_graph("x"))
            writer.query("ASK {}")  # publishes
            assert len(reader.kernels()) == 2
    with open_store(where, read_only=True) as reader:
        assert len(reader.kernels()) == 2


def test_reading_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no knowledge base.*tilelore extract"):
        open_store(str(tmp_path / "none"), read_only=True)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(StoreError, match="not a knowledge base"):
        open_store(str(tmp_path / "photos"))


def kill_while_adding(folder: Path, start: int, after: int) -> tuple[int, int]:
    """Run the endless writer, kill it after `after` lines; (last acknowledged, last begun)."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.kb.store_sample", str(folder), str(start)],
        cwd=REPO,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout
    lines = [child.stdout.readline() for _ in range(after)]
    child.kill()
    lines += child.stdout.readlines()
    child.wait()
    child.stdout.close()
    done = [int(row.split()[1]) for row in lines if row.startswith("done") and row.endswith("\n")]
    begun = [int(row.split()[1]) for row in lines if row.startswith("begin") and row.endswith("\n")]
    return max(done, default=start - 1), max(begun, default=start - 1)


@pytest.mark.parametrize("after", [1, 6, 13, 24, 41])
def test_sigkill_in_the_middle_of_an_ingest(tmp_path: Path, after: int) -> None:
    folder = tmp_path / "kb"
    done, begun = kill_while_adding(folder, 100, after)
    expected = {}
    for number in range(100, begun + 1):
        graph, text, programs = kernel_graph(f"k{number % 5}", version=number, decisions=40)
        if number <= done:
            expected[graph] = (set(text.splitlines()), programs)
    with LocalStore(folder) as store:
        assert store.check() == ()
        found = {entry.graph: store for entry in store.kernels()}
        # the last one may have been committed in the instant before the kill
        graph, text, programs = kernel_graph(f"k{begun % 5}", version=begun, decisions=40)
        if graph in found and set(store.graph_text(graph).splitlines()) == set(text.splitlines()):
            expected[graph] = (set(text.splitlines()), programs)
        assert found.keys() == expected.keys()
        for name, (lines, texts) in expected.items():
            assert set(store.graph_text(name).splitlines()) == lines
            for digest, program in texts.items():
                assert store.program(digest) == program
        assert len(state(folder)) == 2 * len(expected)
        assert store.folder.pending() is None


def test_a_killed_add_is_undone_and_a_lost_index_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "kb"
    with LocalStore(folder) as store:
        store.add(*kernel_graph("one"))
        store.add(*kernel_graph("two"))
        before = state(folder)
        _, text, programs = kernel_graph("three")
        store.folder.begin({"ab" * 32: text.encode()}, programs)  # and then killed
        assert state(folder) != before
    with LocalStore(folder) as store:
        assert state(folder) == before
        assert store.check() == ()
    for path in sorted((folder / "index").iterdir()):
        path.unlink()
    (folder / "index").rmdir()
    with LocalStore(folder) as store:
        assert len(store.kernels()) == 2
        assert store.check() == ()


def test_check_finds_damage_and_rebuild_follows_the_files(store: LocalStore) -> None:
    store.add(GRAPH, TEXT, PROGRAMS)
    store.add(*kernel_graph("two"))
    slipped = f'<{GRAPH}> <{NS}value> "slipped in"'
    store.index.update(f"INSERT DATA {{ GRAPH <{GRAPH}> {{ {slipped} }} }}")
    assert [p.what for p in store.check()] == ["The index differs from the file."]
    assert store.rebuild() == 2
    assert store.check() == ()
    store.folder.program_path(next(iter(PROGRAMS))).write_text("changed")
    path = next(iter(store.folder.kernel_digests().values()))
    path.write_bytes(path.read_bytes() + b"\n")
    said = sorted(p.what for p in store.check())
    assert said == [
        "The file was changed after it was written.",
        "The program was changed after it was written.",
    ]
    with pytest.raises(StoreError, match="changed"):
        store.program(next(iter(PROGRAMS)))
    with pytest.raises(StoreError, match="changed"):
        store.rebuild()


@pytest.mark.parametrize("form", list(DumpFormat), ids=lambda f: f.value)
def test_export_and_load_lose_nothing(store: LocalStore, tmp_path: Path, form: DumpFormat) -> None:
    store.add(GRAPH, TEXT, PROGRAMS)
    store.add(*kernel_graph("two"))
    out = io.BytesIO()
    assert store.export(out, form) == len(TEXT.splitlines()) * 2 + 2
    path = tmp_path / f"all.{'nq' if form is DumpFormat.NQUADS else 'trig'}"
    path.write_bytes(out.getvalue())
    with LocalStore(tmp_path / "copy") as copy:
        assert [row.result for row in copy.load(path)] == [AddResult.ADDED] * 2
        assert [row.result for row in copy.load(path)] == [AddResult.UNCHANGED] * 2
        assert state(copy.folder.root) == state(store.folder.root)


def test_sizes_are_told_while_the_index_replaces_its_files(tmp_path: Path) -> None:
    """Compaction removes files between their being listed and their being measured."""
    index = tmp_path / "index"
    index.mkdir()
    (tmp_path / "FORMAT").write_bytes(b"twelve bytes")
    done = threading.Event()

    def compact() -> None:
        while not done.is_set():
            for number in range(50):
                (index / f"{number:06}.sst").touch()
            for number in range(50):
                (index / f"{number:06}.sst").unlink()

    compaction = threading.Thread(target=compact)
    compaction.start()
    try:
        sizes = {Folder(tmp_path).disk_bytes() for _ in range(300)}
    finally:
        done.set()
        compaction.join()
    assert sizes == {12}


def test_two_files_for_one_graph_are_not_guessed_about(store: LocalStore) -> None:
    store.add(GRAPH, TEXT, PROGRAMS)
    _, other, programs = kernel_graph("fmha", version=2)
    store.folder.begin({digest(canonical_bytes(other)): canonical_bytes(other)}, programs)
    with pytest.raises(StoreError, match="Two files hold"):
        store.rebuild()
    assert len(store.kernels()) == 1


def canonical_bytes(text: str) -> bytes:
    return "".join(sorted(text.splitlines(keepends=True))).encode()


def test_load_is_all_or_nothing_and_takes_turtle(store: LocalStore, tmp_path: Path) -> None:
    good = TEXT.replace(f" <{GRAPH}> .", " .")
    turtle = tmp_path / "one.ttl"
    turtle.write_text("\n".join(r for r in good.splitlines() if "rogram" not in r))
    assert [row.graph for row in store.load(turtle)] == [GRAPH]
    before = state(store.folder.root)
    mixed = tmp_path / "mixed.nq"
    mixed.write_text("".join(kernel_graph("ok")[1]) + FOREIGN)
    for path in (mixed, tmp_path / "absent.nq", tmp_path / "x.txt"):
        with pytest.raises((DoesNotConform, InputError)):
            store.load(path)
    assert state(store.folder.root) == before


def test_the_vocabulary_is_held_once_and_follows_its_text(tmp_path: Path) -> None:
    modules = tmp_path / "ontology"
    modules.mkdir()
    (modules / "core.ttl").write_text(
        f"@prefix tl: <{NS}> . tl:Kernel tl:note [ tl:value 1 ] , ( 1 2 ) ."
    )
    with LocalStore(tmp_path / "kb", vocabulary=modules) as store:
        first = count(store, f"GRAPH <{VOCABULARY}> {{ ?s ?p ?o }}")
        assert first == 7
        assert not store.set_vocabulary(modules)
        assert count(store, "?s ?p ?o FILTER(isBlank(?s) || isBlank(?o))") == 0
        (modules / "core.ttl").write_text(f"@prefix tl: <{NS}> . tl:Kernel tl:value 1 .")
        assert store.set_vocabulary(modules)
        assert count(store, f"GRAPH <{VOCABULARY}> {{ ?s ?p ?o }}") == 1
        store.add(GRAPH, TEXT, PROGRAMS)
        assert store.rebuild() == 1
        assert count(store, f"GRAPH <{VOCABULARY}> {{ ?s ?p ?o }}") == 1
        assert store.check() == ()


def test_no_triple_is_in_two_graphs(store: LocalStore) -> None:
    """Oxigraph 0.5.13 counts a triple once per graph in the union; ours are disjoint."""
    store.add(GRAPH, TEXT, PROGRAMS)
    store.add(*kernel_graph("two"))
    twice = "SELECT ?s ?p ?o { GRAPH ?g { ?s ?p ?o } GRAPH ?h { ?s ?p ?o } FILTER(?g != ?h) }"
    assert len(store.query(twice)) == 0  # type: ignore[arg-type]
    assert count(store) == count(store, "GRAPH ?g { ?s ?p ?o }")
    assert count(store, f"GRAPH <{CATALOGUE}> {{ ?s ?p ?o }}") == 2


def test_unknown_names(store: LocalStore) -> None:
    with pytest.raises(UnknownName):
        store.program("../../etc/passwd")
    with pytest.raises(UnknownName):
        store.graph_text(GRAPH)


def test_default_location(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_location({"TILELORE_KB": "http://host/query"}) == "http://host/query"
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_DATA_HOME", "/d")
        assert default_location({}) == "/d/tilelore/kb"


def packed(graph: str, text: str, programs: dict[str, str]) -> CheckedGraph:
    return CheckedGraph(
        name=graph,
        content=digest(canonical_bytes(text)),
        origin=(graph, ""),
        packed=zlib.compress(canonical_bytes(text)),
        packed_programs={name: zlib.compress(body.encode()) for name, body in programs.items()},
    )


def test_many_at_once_are_what_one_by_one_gives(tmp_path: Path) -> None:
    many = [kernel_graph(f"k{number}") for number in range(70)]
    with LocalStore(tmp_path / "bulk") as bulk, LocalStore(tmp_path / "single") as single:
        for row in many:
            single.add(*row)
        assert bulk.add_checked([packed(*row) for row in many]) == (AddResult.ADDED,) * 70
        assert state(bulk.folder.root) == state(single.folder.root)
        assert bulk.check() == ()
        newer = kernel_graph("k3", version=2)
        again = [packed(*many[0]), packed(*newer), packed(*kernel_graph("new"))]
        done = bulk.add_checked(again)
        assert done == (AddResult.UNCHANGED, AddResult.REPLACED, AddResult.ADDED)
        single.add(*newer)
        single.add(*kernel_graph("new"))
        assert state(bulk.folder.root) == state(single.folder.root)
        assert bulk.check() == ()


def test_a_killed_bulk_load_is_undone(tmp_path: Path) -> None:
    folder = tmp_path / "kb"
    graph, text, programs = kernel_graph("three")
    with LocalStore(folder) as store:
        store.add(*kernel_graph("one"))
        before = state(folder)
        half = "".join(text.splitlines(keepends=True)[:3])
        store.folder.begin({digest(text.encode()): text.encode()}, programs, graphs=[graph])
        store.index.bulk_load(half.encode(), format=RdfFormat.N_QUADS)  # and then killed
    with LocalStore(folder) as store:
        assert state(folder) == before
        assert store.check() == ()
        assert len(store.kernels()) == 1
