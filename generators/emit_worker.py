"""The emitting side of a round trip: program text in, source text out, in a process that never sees
the original.

`python -m generators.emit_worker` reads JSON lines `{"program": TEXT, "dialect": NAME}` and answers
`{"text": …}` or
`{"error": …}`.
"""

from __future__ import annotations

import json
import sys

from generators.emit import emit_program
from kb.errors import TileloreError
from kb.ir_text import parse


def main() -> int:
    """Serve until standard input ends."""
    for line in sys.stdin:
        data = json.loads(line)
        try:
            answer = {"text": emit_program(parse(data["program"]), data["dialect"])}
        except TileloreError as problem:
            answer = {"error": problem.text}
        print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
