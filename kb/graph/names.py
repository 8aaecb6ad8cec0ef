"""Mints every IRI. Pure functions: the same record always gives the same name."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote, unquote

from kb.sparql_text import PREFIXES

ROOT = PREFIXES["tlr"]
NS = PREFIXES["tl"]
UNIT = PREFIXES["unit"]
AGENT = NS + "tilelore"
UNITS = {
    "µs": "MicroSEC", "us": "MicroSEC", "ns": "NanoSEC", "ms": "MilliSEC", "s": "SEC", "B": "BYTE",
    "KiB": "KibiBYTE", "GB": "GigaBYTE", "B/s": "BYTE-PER-SEC", "GB/s": "GigaBYTE-PER-SEC",
    "FLOPS": "FLOPS", "TFLOPS": "TeraFLOPS", "#": "NUM", "": "UNITLESS", "%": "PERCENT",
    "MHz": "MegaHZ",
}  # fmt: skip
"""Unit symbols with their QUDT names; a QUDT name stands for itself."""

DIGEST_DIGITS = 16
LONGEST_SLUG = 80


def term(short: str) -> str:
    """The IRI of a prefixed name: `tl:Kernel`, `prov:used`."""
    prefix, _, local = short.partition(":")
    return PREFIXES[prefix] + local


def segment(text: str) -> str:
    """Any text as one path segment, another for each text; `text_of` undoes it."""
    kept = quote(text, safe="=+", errors="surrogatepass").replace("~", "%7E")
    if kept.strip(".") == "":
        return kept.replace(".", "%2E") or "~"
    return kept


def text_of(segment_: str) -> str:
    """The text that `segment` was made from."""
    return "" if segment_ == "~" else unquote(segment_, errors="surrogatepass")


def last_text(iri: str) -> str:
    """The text of the last segment of an IRI."""
    return text_of(iri.rpartition("/")[2])


def slug(text: str) -> str:
    """Lower-case words joined by hyphens, as the ontology names its values.

    Spelling that differs in case and punctuation only is one slug; letters beyond ASCII, and texts
    longer than LONGEST_SLUG, are told apart by digits of the digest.
    """
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    letters = any(char.isalnum() and not char.isascii() for char in text)
    if words and len(words) <= LONGEST_SLUG and not letters:
        return words
    mark = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{words[:LONGEST_SLUG].strip('-')}-{mark}".lstrip("-")


def distinct(names: list[str]) -> list[str]:
    """One segment per name in order; a repeated name gets `~2`, `~3`."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(segment(name) if seen[name] == 1 else f"{segment(name)}~{seen[name]}")
    return found


# -- the vocabulary


def axis(name: str) -> str:
    """An axis."""
    return f"{ROOT}axis/{segment(name)}"


def value(axis_name: str, text: str) -> str:
    """A value on an axis; a remark on what holds elsewhere is no part of its name."""
    return f"{ROOT}value/{segment(axis_name)}/{slug(text.partition(' (elsewhere ')[0])}"


def pattern(name: str) -> str:
    """A pattern."""
    return f"{ROOT}pattern/{segment(name)}"


def operation(name: str) -> str:
    """An operation."""
    return f"{ROOT}operation/{segment(name)}"


def target(name: str) -> str:
    """A GPU."""
    return f"{ROOT}target/{segment(name)}"


def rule(name: str) -> str:
    """A rule that yields findings."""
    return f"{ROOT}rule/{segment(name)}"


def metric(name: str) -> str:
    """Something that is measured."""
    return f"{ROOT}metric/{segment(name)}"


def unit(symbol: str) -> str:
    """A QUDT unit by symbol or by its QUDT name."""
    return UNIT + segment(UNITS.get(symbol, symbol))


def reference(text: str) -> str:
    """What something was derived from: an IRI of ours as it stands, else a reference."""
    return text if re.fullmatch(re.escape(ROOT) + r"[\w/.%=+~#-]+", text) else (
        f"{ROOT}reference/{segment(text)}"
    )  # fmt: skip


# -- records


def kernel_tail(package: str | None, path: str, symbol: str, digest: str) -> str:
    """`package/path/symbol/16 hex digits`: what follows `kernel/` and `graph/`."""
    parts = [*([package] if package else []), *path.split("/"), symbol]
    return "/".join([*map(segment, parts), digest[:DIGEST_DIGITS]])


def space_tail(name: str, digest: str) -> str:
    """What follows ROOT for a design space, and `graph/` for its graph."""
    return f"space/{segment(name)}/{digest[:DIGEST_DIGITS]}"


def measurement_tail(digest: str) -> str:
    """What follows ROOT for a measurement, and `graph/` for its graph."""
    return f"measurement/{digest[:DIGEST_DIGITS]}"


def kernel(tail: str) -> str:
    """A kernel."""
    return f"{ROOT}kernel/{tail}"


def graph(tail: str) -> str:
    """The named graph of a kernel, design space or measurement."""
    return f"{ROOT}graph/{tail}"


def program(digest: str) -> str:
    """A tile program by the sha256 of its text."""
    return f"{ROOT}program/{segment(digest)}"
