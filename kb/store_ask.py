"""The store's own questions: the kernels and the sizes. Every pattern names its graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyoxigraph as ox

from kb.results import Answer, GraphText, Result, Rows, Term
from kb.sparql_text import PREFIXES
from kb.store_quads import RESERVED, ROOT
from kb.store_records import KernelEntry, KernelName, Stats

KERNELS = """
PREFIX tl: <https://w3id.org/tilelore/ns#>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
SELECT ?kernel ?graph ?label ?dialect ?operation ?path ?start ?end ?program
WHERE {
  GRAPH ?graph {
    ?kernel a tl:Kernel ; rdfs:label ?label .
    OPTIONAL { ?kernel tl:dialect ?dialect }
    OPTIONAL { ?kernel tl:implements ?operation }
    OPTIONAL { ?kernel tl:hasSource/tl:path ?path }
    OPTIONAL { ?kernel tl:startLine ?start }
    OPTIONAL { ?kernel tl:endLine ?end }
    OPTIONAL { ?kernel tl:programDigest ?program }
  }
}
ORDER BY ?kernel
"""

COUNTED = """
PREFIX tl: <https://w3id.org/tilelore/ns#>
SELECT ?kernel (COUNT(?part) AS ?parts) WHERE { GRAPH ?graph { ?kernel LINK ?part } }
GROUP BY ?kernel
"""
"""How many parts a kernel has by one link; both links in one query would multiply."""

NAMED = """
PREFIX tl: <https://w3id.org/tilelore/ns#>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
SELECT ?kernel ?label WHERE { GRAPH ?graph { ?kernel a tl:Kernel ; rdfs:label ?label } VALUES }
"""

GRAPHS = "SELECT ?graph (COUNT(*) AS ?quads) WHERE { GRAPH ?graph { ?s ?p ?o } } GROUP BY ?graph"

Direct = Callable[[str], Result]


def direct_answer(index: ox.Store, sparql: str) -> Result:
    """Answer one of our own queries in this process; every pattern names its graph."""
    result: Any = index.query(sparql, prefixes=PREFIXES)
    if isinstance(result, ox.QueryTriples):
        text = ox.serialize(result, format=ox.RdfFormat.TURTLE, prefixes=PREFIXES)
        return GraphText((text or b"").decode())
    if isinstance(result, ox.QueryBoolean):
        return Answer(bool(result))
    names = tuple(variable.value for variable in result.variables)
    return Rows(names, tuple(tuple(map(_term, solution)) for solution in result))


def _term(term: Any) -> Term | None:
    """A term of the engine as ours."""
    if isinstance(term, ox.NamedNode):
        return Term("iri", term.value)
    if isinstance(term, ox.Literal):
        return Term("literal", term.value, term.datatype.value, term.language or "")
    return None if term is None else Term("bnode", term.value)


def rows(direct: Direct, sparql: str) -> Rows:
    """The answer of a SELECT."""
    answer = direct(sparql)
    assert isinstance(answer, Rows)
    return answer


def kernel_entries(direct: Direct) -> tuple[KernelEntry, ...]:
    """All kernels, by IRI; one entry each, the first operation when there are several."""
    found: dict[str, KernelEntry] = {}
    decisions, findings = _counted(direct, "tl:hasDecision"), _counted(direct, "tl:hasFinding")
    for row in rows(direct, KERNELS):
        operation = str(row["operation"] or "")
        entry = KernelEntry(
            iri=str(row["kernel"]),
            graph=str(row["graph"]),
            label=str(row["label"]),
            dialect=str(row["dialect"] or ""),
            operation=operation.rsplit("/operation/", 1)[-1],
            path=str(row["path"] or ""),
            start_line=int(row["start"] or 0),
            end_line=int(row["end"] or 0),
            program=str(row["program"] or ""),
            decisions=decisions.get(str(row["kernel"]), 0),
            findings=findings.get(str(row["kernel"]), 0),
        )
        found.setdefault(entry.iri, entry)
    return tuple(found.values())


def _counted(direct: Direct, link: str) -> dict[str, int]:
    answer = rows(direct, COUNTED.replace("LINK", link))
    return {str(row["kernel"]): int(row["parts"] or 0) for row in answer}


def kernel_names(direct: Direct, name: str) -> tuple[KernelName, ...]:
    """The kernels of this IRI, id or label; where there is none, all, for a name near it."""
    iri = name if name.startswith(ROOT) else f"{ROOT}kernel/{name}"
    for values in (_iri_values(iri), f"VALUES ?label {{ {ox.Literal(name)} }}", ""):
        found = rows(direct, NAMED.replace("VALUES", values)) if values is not None else ()
        if found:
            return tuple(KernelName(str(row["kernel"]), str(row["label"])) for row in found)
    return ()


def _iri_values(iri: str) -> str | None:
    try:
        return f"VALUES ?kernel {{ {ox.NamedNode(iri)} }}"
    except ValueError:
        return None


def read_stats(
    direct: Direct, location: str, vocabulary: str, programs: int, disk_bytes: int
) -> Stats:
    """Sizes, from the listing of kernels and one count per graph."""
    kernels = kernel_entries(direct)
    graphs = {str(row["graph"]): int(row["quads"] or 0) for row in rows(direct, GRAPHS)}
    dialects: dict[str, int] = {}
    for kernel in kernels:
        dialects[kernel.dialect] = dialects.get(kernel.dialect, 0) + 1
    return Stats(
        location=location,
        kernels=len(kernels),
        decisions=sum(k.decisions for k in kernels),
        findings=sum(k.findings for k in kernels),
        quads=sum(count for graph, count in graphs.items() if graph not in RESERVED),
        graphs=len(graphs.keys() - RESERVED),
        programs=programs,
        dialects=tuple(sorted(dialects.items())),
        vocabulary=vocabulary,
        disk_bytes=disk_bytes,
    )
