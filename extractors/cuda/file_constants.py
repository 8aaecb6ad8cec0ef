"""Constants at the level of a file, which may be made of others."""

from __future__ import annotations

from extractors.cuda import nodes as n
from extractors.cuda.conversions import ConversionReader
from extractors.cuda.values import Val

MAX_DEPTH, MAX_TEMPLATE_DEPTH = 80, 40
"""Expressions inside each other where constants are still made of others, and where those that are
templates are, which may name themselves."""


class FileConstantReader(ConversionReader):
    """Constants of a file by their names; `depth`: how many expressions are being read."""

    depth = 0

    def file_constant(self, node: n.Name, hint: str) -> Val | None:
        """A constant of a file; None without any, or where it is made of itself."""
        constant = self.library.constant(node.text)
        if constant is None or constant.value is None:
            return None
        if self.depth >= (MAX_TEMPLATE_DEPTH if constant.template else MAX_DEPTH):
            return None
        if constant.at in self.making and not constant.template:
            return None
        self.making.add(constant.at)
        self.pass_by(constant.at)
        try:
            with self.inside(self.of_template(constant.template, node.arguments, self.frame)):
                kind = self.kind(constant.type, self.frame)
                return self.convert(self.read(constant.value, hint), kind, node.at, hint)
        finally:
            self.making.discard(constant.at)
