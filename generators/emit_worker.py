"""The emitting side of a round trip: a DSL file in, source text out, in a process that never sees
the original.

`python -m generators.emit_worker` reads JSON lines `{"file": PATH, "dialect": NAME}` and answers
`{"text": …}` or `{"error": …}`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from generators.emit import emit_program
from kb.dsl.program import document_program
from kb.dsl.reader import read
from kb.errors import TileloreError
from kb.graph.terms import vocabulary


def main() -> int:
    """Serve until standard input ends."""
    for line in sys.stdin:
        data = json.loads(line)
        try:
            text = Path(data["file"]).read_text(encoding="utf-8")
            program = document_program(read(text, vocabulary()).document)
            answer = {"text": emit_program(program, data["dialect"])}
        except TileloreError as problem:
            answer = {"error": problem.text}
        print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
