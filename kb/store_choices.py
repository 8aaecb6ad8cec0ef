"""What kernels chose, counted: for each value its axis, its words and how many kernels have it.

The counts are a graph of the index, kept in step by every update that adds or drops a kernel's
graph, so that a question about a value need not go through the decisions of all kernels. Of several
spellings of one value the graph has one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from pyoxigraph import Literal, NamedNode, Store

from kb.sparql_text import PREFIXES

NS = PREFIXES["tl"]
CHOICES = PREFIXES["tlr"] + "graph/choices"
CHOSE = NamedNode(NS + "chose")
CHOSEN_BY = NamedNode(NS + "chosenBy")
COUNTED = f"ASK {{ GRAPH <{CHOICES}> {{ ?value {CHOSEN_BY} ?kernels }} }}"
"""Whether there are counts."""

_CHANGE = """
DELETE { GRAPH CHOICES { ?value tl:chosenBy ?before } }
INSERT { GRAPH CHOICES { ?value tl:chosenBy ?after } }
WHERE {
  { SELECT ?value (COUNT(*) AS ?kernels) WHERE { GRAPHS GRAPH ?g { ?kernel tl:chose ?value } }
    GROUP BY ?value }
  GRAPH CHOICES { ?value tl:chosenBy ?before }
  BIND(?before SIGN ?kernels AS ?after)
}"""

_FIRST = """
INSERT { GRAPH CHOICES {
  ?value tl:chosenOn ?axis ; tl:chosenAs ?words ; tl:chosenBy ?kernels
} }
WHERE {
  SELECT ?value ?axis (MIN(?text) AS ?words) (COUNT(DISTINCT ?kernel) AS ?kernels) WHERE {
    GRAPHS
    GRAPH ?g {
      ?kernel tl:hasDecision ?decision .
      ?decision tl:chosenValue ?value ; tl:onAxis ?axis ; tl:value ?text
    }
    OPTIONAL { GRAPH CHOICES { ?value tl:chosenBy ?known } }
    FILTER(!BOUND(?known))
  }
  GROUP BY ?value ?axis
}"""

_NOBODY = """
DELETE { GRAPH CHOICES { ?value ?what ?told } }
WHERE { GRAPH CHOICES { ?value tl:chosenBy 0 ; ?what ?told } }"""


def counted_in(graphs: Sequence[str]) -> str:
    """An update after these graphs were added."""
    return ";".join((_about(graphs, _CHANGE, "+"), _about(graphs, _FIRST)))


def counted_out(graphs: Sequence[str]) -> str:
    """An update before these graphs are dropped."""
    return ";".join((_about(graphs, _CHANGE, "-"), _about((), _NOBODY)))


def counted_anew() -> str:
    """An update that counts all graphs, whatever was counted before."""
    return f"DROP SILENT GRAPH <{CHOICES}>;{_about((), _FIRST)}"


def counted(index: Store) -> bool:
    """Whether there are counts, where there is anything to count."""
    held = index.quads_for_pattern(None, CHOSEN_BY, None, NamedNode(CHOICES))
    chosen = index.quads_for_pattern(None, CHOSE, None, None)
    return next(held, None) is not None or next(chosen, None) is None


def miscounted(index: Store) -> bool:
    """Whether the counts are not those of the graphs."""
    graph = NamedNode(CHOICES)
    held = {q.subject: q.object for q in index.quads_for_pattern(None, CHOSEN_BY, None, graph)}
    found = Counter(q.object for q in index.quads_for_pattern(None, CHOSE, None, None))
    return held != {value: Literal(count) for value, count in found.items()}


def _about(graphs: Sequence[str], text: str, sign: str = "") -> str:
    """The text about these graphs, about all where none is named."""
    named = " ".join(str(NamedNode(graph)) for graph in graphs)
    text = text.replace("GRAPHS", f"VALUES ?g {{ {named} }}" if graphs else "")
    text = text.replace("CHOICES", f"<{CHOICES}>").replace("SIGN", sign)
    return re.sub(r"\btl:(\w+)", rf"<{NS}\1>", text)
