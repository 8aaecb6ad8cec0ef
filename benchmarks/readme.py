"""Write the tables of README.md from the files that the benchmarks left.

    .venv/bin/python -m benchmarks.readme [--demo LOG]

Between `<!-- begin:NAME -->` and `<!-- end:NAME -->` stands what benchmarks/NAME/table.md (or
results.md) says;
`demo` takes the log of
a `tilelore demo` run, which is kept as benchmarks/demo/table.md.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = "```"
TABLES = ("table.md", "results.md", "report.md", "report_sm_100.md")


def demo_excerpt(log: str) -> str:
    """Headings and the last table of a demo run, as a code block."""
    lines = [line.rstrip() for line in log.splitlines()]
    heads = [line for line in lines if line.startswith("== ")]
    done = next((i for i, line in enumerate(lines) if line.startswith("What was done")), len(lines))
    tail = [line for line in lines[done:] if not line.startswith(("real", "user", "sys"))]
    return "\n".join([FENCE, *heads, "", *tail]).rstrip() + f"\n{FENCE}"


def totals(text: str) -> str:
    """A table without the rows of parts, where a row `| name | all |` gives their total."""
    summed = set(re.findall(r"^\| (\w+) \| all \|", text, flags=re.MULTILINE))
    part = re.compile(r"\| (\w+) \| (?!all \|)[a-z][\w./-]* \|")
    kept = [line for line in text.splitlines()
            if not ((row := part.match(line)) and row[1] in summed)]  # fmt: skip
    return "\n".join(kept)


def summary(text: str) -> str:
    """The part of a report that stands in the README: no title, no parts of a total, nothing from
    `## Kernels` on."""
    head = text.partition("## Kernels")[0].partition("\n\n| kernel | verdict")[0]
    lines = [line.replace("## ", "**", 1) + "**" if line.startswith("## ") else line
             for line in totals(head).splitlines() if not line.startswith("# ")]  # fmt: skip
    return "\n".join(lines).strip()


def filled(text: str, folder: Path) -> str:
    """README text with each marked part replaced by its table."""

    def part(match: re.Match[str]) -> str:
        tables = [folder / match["name"] / name for name in TABLES]
        texts = [summary(path.read_text(encoding="utf-8")) for path in tables if path.is_file()]
        if not texts:
            return match[0]
        body = "\n\n".join(texts)
        return f"<!-- begin:{match['name']} -->\n{body}\n<!-- end:{match['name']} -->"

    pattern = r"<!-- begin:(?P<name>\w+) -->\n.*?<!-- end:(?P=name) -->"
    return re.sub(pattern, part, text, flags=re.DOTALL)


def main() -> None:
    """Fill README.md in place."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--demo", type=Path, help="log of a demo run to keep")
    options = parser.parse_args()
    if options.demo:
        target = ROOT / "benchmarks" / "demo" / "table.md"
        target.parent.mkdir(exist_ok=True)
        target.write_text(demo_excerpt(options.demo.read_text(encoding="utf-8")) + "\n")
    readme = ROOT / "README.md"
    readme.write_text(
        filled(readme.read_text(encoding="utf-8"), ROOT / "benchmarks"), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
