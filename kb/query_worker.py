"""The child that runs one person's SPARQL: no network, bounded memory, killed from outside.

Run as a script (`python -I query_worker.py MEMORY_BYTES`), never imported by the parent for its
effects. It reads frames from stdin and writes frames to stdout; a frame is 4 bytes of header
length, 8 bytes of body length, a JSON header and a body. The network is taken away before the
engine is loaded: a network namespace of its own, else a seccomp filter that refuses `socket`.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import queue
import resource
import struct
import sys
import threading
from collections.abc import Iterable
from typing import IO, Any

FRAME = struct.Struct(">IQ")
CLONE_NEWUSER_NEWNET = 0x10000000 | 0x40000000
PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
# AUDIT_ARCH value, number of the socket system call, numbers at or above this are another ABI
SECCOMP_ARCHES = {"x86_64": (0xC000003E, 41, 0x40000000), "aarch64": (0xC00000B7, 198, 1 << 31)}


class _Filter(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("program", ctypes.c_char_p)]


def leave_network() -> str:
    """Take the network from this process; says how: `namespace`, `seccomp` or `none`."""
    if not sys.platform.startswith("linux"):
        return "none"
    libc = ctypes.CDLL(None, use_errno=True)
    way = os.environ.get("TILELORE_SANDBOX", "namespace")
    if way == "namespace" and libc.unshare(CLONE_NEWUSER_NEWNET) == 0:
        return "namespace"
    if way != "none" and _refuse_sockets(libc):
        return "seccomp"
    return "none"


def _refuse_sockets(libc: ctypes.CDLL) -> bool:
    """Install a seccomp filter: `socket` fails with EACCES, foreign system call ABIs kill."""
    if platform.machine() not in SECCOMP_ARCHES:
        return False
    arch, socket_call, foreign = SECCOMP_ARCHES[platform.machine()]
    rows = (
        (0x20, 0, 0, 4),  # load the architecture
        (0x15, 1, 0, arch),  # equal: go on
        (0x06, 0, 0, 0),  # kill
        (0x20, 0, 0, 0),  # load the call number
        (0x35, 0, 1, foreign),  # at or above: next row, else skip it
        (0x06, 0, 0, 0),  # kill
        (0x15, 0, 1, socket_call),
        (0x06, 0, 0, 0x00050000 | 13),  # errno EACCES
        (0x06, 0, 0, 0x7FFF0000),  # allow
    )
    code = b"".join(struct.pack("HBBI", *row) for row in rows)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    table = _Filter(len(rows), code)
    return bool(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(table)) == 0)


class TooLarge(Exception):
    """The answer passed the row or byte limit."""


def read_frame(stream: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """The next frame, or None at the end of the stream."""
    head = stream.read(FRAME.size)
    if len(head) < FRAME.size:
        return None
    header_bytes, body_bytes = FRAME.unpack(head)
    header = json.loads(stream.read(header_bytes))
    return header, stream.read(body_bytes)


def write_frame(stream: IO[bytes], header: dict[str, Any], body: bytes = b"") -> None:
    """One frame, flushed."""
    text = json.dumps(header).encode()
    stream.write(FRAME.pack(len(text), len(body)) + text + body)
    stream.flush()


def json_term(term: Any) -> dict[str, Any]:
    """A term in the SPARQL 1.1 Query Results JSON Format."""
    kind = type(term).__name__
    if kind == "NamedNode":
        return {"type": "uri", "value": term.value}
    if kind == "BlankNode":
        return {"type": "bnode", "value": term.value}
    if kind != "Literal":
        raise TooLarge("triple terms cannot be returned; select their parts")
    row = {"type": "literal", "value": term.value}
    if term.language:
        row["xml:lang"] = term.language
    elif not term.datatype.value.endswith("#string"):
        row["datatype"] = term.datatype.value
    return row


def select_json(solutions: Any, max_rows: int, max_bytes: int) -> bytes:
    """All solutions as JSON; TooLarge as soon as a limit is passed, so that nothing is cut."""
    names = [variable.value for variable in solutions.variables]
    rows: list[str] = []
    size = 0
    for solution in solutions:
        bound = {
            name: json_term(term)
            for name, term in zip(names, solution, strict=True)
            if term is not None
        }
        rows.append(json.dumps(bound, ensure_ascii=False))
        size += len(rows[-1])
        if len(rows) > max_rows:
            raise TooLarge(f"the answer has more than {max_rows} rows")
        if size > max_bytes:
            raise TooLarge(f"the answer has more than {max_bytes} bytes")
    head = json.dumps({"vars": names}, ensure_ascii=False)
    return f'{{"head":{head},"results":{{"bindings":[{",".join(rows)}]}}}}'.encode()


def limited(triples: Iterable[Any], max_rows: int) -> list[Any]:
    """The distinct triples in order; TooLarge when there are more than `max_rows`."""
    seen: dict[Any, None] = {}
    for triple in triples:
        seen[triple] = None
        if len(seen) > max_rows:
            raise TooLarge(f"the answer has more than {max_rows} triples")
    return list(seen)


class Engine:
    """The snapshot that is open and how a request is answered from it."""

    def __init__(self) -> None:
        import pyoxigraph  # noqa: PLC0415 - after the network is gone

        self.ox = pyoxigraph
        self.path = ""
        self.store: Any = None

    def answer(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Header and body that answer one request."""
        if request["snapshot"] != self.path:
            self.store = None
            self.store = self.ox.Store.read_only(request["snapshot"])
            self.path = request["snapshot"]
        result = self.store.query(request["query"], **self.options(request))
        return self.serialise(result, request)

    def options(self, request: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments for the engine: prefixes, base and the dataset asked for."""
        node = self.ox.NamedNode
        options: dict[str, Any] = {"prefixes": request["prefixes"]}
        if request.get("base"):
            options["base_iri"] = request["base"]
        default, named = request["default_graphs"], request["named_graphs"]
        if default or named:
            options["default_graph"] = [node(iri) for iri in default]
            options["named_graphs"] = [node(iri) for iri in named]
        elif request["union"]:
            options["use_default_graph_as_union"] = True
        return options

    def serialise(self, result: Any, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """The result in the format its kind was asked for, within the limits."""
        ox, formats = self.ox, request["formats"]
        if isinstance(result, ox.QueryTriples):
            triples = limited(result, request["max_rows"])
            chosen = getattr(ox.RdfFormat, formats["graph"])
            prefixes = request["prefixes"] if formats["graph"] in ("TURTLE", "RDF_XML") else None
            body = ox.serialize(triples, format=chosen, prefixes=prefixes)
            if len(body) > request["max_bytes"]:
                raise TooLarge(f"the answer has more than {request['max_bytes']} bytes")
            return {"kind": "graph", "format": formats["graph"]}, body
        if isinstance(result, ox.QueryBoolean):
            chosen = getattr(ox.QueryResultsFormat, formats["boolean"])
            body = result.serialize(format=chosen)
            return {"kind": "boolean", "format": formats["boolean"]}, body
        body = select_json(result, request["max_rows"], request["max_bytes"])
        if formats["bindings"] != "JSON":
            parsed = ox.parse_query_results(body, format=ox.QueryResultsFormat.JSON)
            chosen = getattr(ox.QueryResultsFormat, formats["bindings"])
            body = parsed.serialize(format=chosen)
        return {"kind": "bindings", "format": formats["bindings"]}, body


def respond(engine: Engine, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The answer, or the refusal as a header that the parent turns into an error."""
    try:
        return engine.answer(request)
    except SyntaxError as error:
        return {"error": "syntax", "message": str(error)}, b""
    except TooLarge as error:
        return {"error": "too_large", "message": str(error)}, b""
    except MemoryError:
        return {"error": "memory", "message": "the query needs too much memory"}, b""
    except (OSError, ValueError, RuntimeError) as error:
        return {"error": "engine", "message": str(error)}, b""


def main(memory_bytes: int) -> None:
    """Serve requests until stdin ends; the end of stdin also ends a running query."""
    sandbox = leave_network()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    engine = Engine()
    write_frame(sys.stdout.buffer, {"sandbox": sandbox})
    requests: queue.Queue[dict[str, Any]] = queue.Queue()

    def listen() -> None:
        while (frame := read_frame(sys.stdin.buffer)) is not None:
            requests.put({**frame[0], "query": frame[1].decode()})
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        header, body = respond(engine, requests.get())
        write_frame(sys.stdout.buffer, header, body)


if __name__ == "__main__":
    main(int(sys.argv[1]))
