"""The text of inline assembly, taken apart: instructions with their guards and operands."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SKIPPED = re.compile(r"^(\.reg|\{|\}|//|@?%?p\b|\.pragma)")
_STATEMENT = re.compile(r"(?:@(!?[%\w]+)\s+)?([a-z][\w.:]*)(.*)", re.DOTALL)
_LABEL = re.compile(r"^[A-Za-z_$%][\w$]*:(?!:)\s*(?=\S)")
_REFERENCE = re.compile(r"%(\d+)")
_DECIDES = re.compile(r"setp\.ne\.\w+$")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One statement: `guard` is the predicate in front of it, `!` where it is negated;
    `references` are the numbers of the operands of the assembly that it names, in order."""

    guard: str
    opcode: str
    operands: str

    @property
    def references(self) -> tuple[int, ...]:
        """Numbers of the operands, as the text names them."""
        return tuple(int(number) for number in _REFERENCE.findall(self.operands))

    @property
    def zeroes(self) -> tuple[int, ...]:
        """The operand that is set to zero; none for any other instruction."""
        target, _, value = self.operands.partition(",")
        plain = self.opcode.startswith("mov.") and not self.guard and value.strip() == "0"
        return self.references if plain and "%" in target else ()


def instructions_of(text: str) -> list[Instruction]:
    """Instructions of an assembly text, in order. Source: PTX ISA, instruction statements."""
    found = []
    for line in re.split(r"[;\n]|\\n", text):
        line = re.sub(r"/\*.*?\*/|//.*", "", line).strip().strip("{}").strip()
        line = _LABEL.sub("", line)
        if not line or (_SKIPPED.match(line) and not line.startswith("@")):
            continue
        match = _STATEMENT.match(line)
        if match and not line.endswith(":"):
            found.append(Instruction(match[1] or "", match[2], match[3]))
    return found


def condition_of(guarded: Instruction, every: list[Instruction]) -> int | None:
    """The operand whose being other than zero lets an instruction run; None when there is none, or
    the text decides in another way."""
    for one in every:
        target = one.operands.partition(",")[0].strip().lstrip("%")
        if target == guarded.guard.lstrip("%") and _DECIDES.match(one.opcode):
            numbers = one.references
            zero = one.operands.rpartition(",")[2].strip() == "0"
            return numbers[0] if zero and len(numbers) == 1 else None
    return None
