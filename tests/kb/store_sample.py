"""Small kernel graphs for store tests, and the child that is killed while it adds them."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from kb.store_local import LocalStore

ROOT = "https://w3id.org/tilelore/"
NS = ROOT + "ns#"
RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


def kernel_graph(
    name: str, *, version: int = 1, decisions: int = 2
) -> tuple[str, str, dict[str, str]]:
    """Graph name, N-Quads and programs of a kernel with that many decisions."""
    tail = f"sample/{name}/{'0' * 16}"
    graph, kernel = f"{ROOT}graph/{tail}", f"{ROOT}kernel/{tail}"
    program = f"kernel {name} version {version}\n"
    digest = hashlib.sha256(program.encode()).hexdigest()
    rows = [
        (kernel, RDF_TYPE, f"<{NS}Kernel>"),
        (kernel, RDFS_LABEL, f'"{name}"'),
        (kernel, NS + "dialect", '"cutile"'),
        (kernel, NS + "programDigest", f'"{digest}"'),
        (kernel, NS + "hasProgram", f"<{ROOT}program/{digest}>"),
    ]
    for index in range(decisions):
        decision = f"{kernel}/decision/{index}"
        rows += [
            (kernel, NS + "hasDecision", f"<{decision}>"),
            (decision, RDF_TYPE, f"<{NS}Decision>"),
            (decision, NS + "onAxis", f"<{ROOT}axis/softmax_scheme>"),
            (decision, NS + "value", '"online"'),
            (decision, NS + "chosenValue", f"<{ROOT}value/softmax_scheme/{index}>"),
            (kernel, NS + "chose", f"<{ROOT}value/softmax_scheme/{index}>"),
        ]
    text = "".join(f"<{s}> <{p}> {o} <{graph}> .\n" for s, p, o in rows)
    return graph, text, {digest: program}


def add_for_ever(folder: Path, start: int) -> None:
    """Add and replace kernels until killed; a line on stdout acknowledges each."""
    store = LocalStore(folder)
    for count in range(start, 1_000_000):
        graph, text, programs = kernel_graph(f"k{count % 5}", version=count, decisions=40)
        print(f"begin {count}", flush=True)
        store.add(graph, text, programs)
        print(f"done {count}", flush=True)


if __name__ == "__main__":
    add_for_ever(Path(sys.argv[1]), int(sys.argv[2]))
