"""What evaluating a sibling module gave, kept for the other files that this process reads.

Many files of a package import the same modules. An evaluation is taken again where all that it
looked at is as it was then: texts that the loader gave, and the modules, contents of objects and
facts of tensors that were there before it. Contents are replaced and never changed, so that the
same object tells that nothing wrote to it. An evaluation that met what belongs to one reader alone
(a search, a kernel of the module under analysis) is not kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from extractors.host.core import Core
from extractors.host.events import MadeConfig
from extractors.host.heap import Content
from extractors.host.layers import Asked, Change, Layer
from extractors.host.machine import TensorFact
from extractors.host.modules import ModuleLoader
from extractors.host.values import Module, Value

MAX_MODULES = 128
"""Modules whose evaluations are kept, the ones evaluated last."""

MAX_EVALUATIONS = 4
"""Evaluations of one module that are kept: it may be met in several states of what it imports."""

BLOCK = 1 << 32
"""Numbers of objects that one evaluation may give out; no other gives out the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What one evaluation of a module looked at, and what it gave."""

    texts: dict[str, tuple[str, str] | None]
    modules: Change[str, Module]
    contents: Change[int, Content]
    made: Change[int, MadeConfig]
    tensors: Change[Value, TensorFact]
    aliases: dict[Value, str]
    device_functions: set[str]
    device_questions: int

    def holds(self, core: Core, loader: ModuleLoader) -> bool:
        """Whether evaluating the module here and now would give the same."""
        machine = core.machine
        return (
            len(core.modules) + len(self.modules.written) < machine.limits.modules
            and self.modules.holds(core.modules)
            and self.contents.holds(machine.base)
            and self.made.holds(core.made)
            and self.tensors.holds(machine.tensors)
            and all(loader.source(name) == found for name, found in self.texts.items())
        )

    def give(self, core: Core) -> None:
        """Put what it gave where a reader looks for it; facts of tensors are added to later."""
        machine = core.machine
        core.modules.update(self.modules.written)
        core.made.update(self.made.written)
        machine.base.update(self.contents.written)
        machine.tensors.update((key, replace(one)) for key, one in self.tensors.written.items())
        for value, name in self.aliases.items():
            machine.aliases.setdefault(value, name)
        machine.device_functions |= self.device_functions
        machine.device_questions += self.device_questions


_blocks = itertools.count(1)
_kept: dict[tuple[str, int], tuple[Evaluation, ...]] = {}


def given_again(core: Core, module: str) -> bool:
    """Whether a kept evaluation of the module holds; then what it gave is given."""
    if core.loader is None or core.profile is not None:
        return False
    for one in _kept.get((module, core.machine.imports), ()):
        if one.holds(core, core.loader):
            one.give(core)
            return True
    return False


@contextmanager
def keeping(core: Core, module: str) -> Iterator[None]:
    """Keep what is evaluated within, unless it depends on the reader."""
    machine, loader = core.machine, core.loader
    if loader is None or core.profile is not None or machine.widened:
        yield
        return
    own = (core.modules, core.made, core.searches, core.kernels)
    below = (machine.base, machine.tensors, machine.aliases, machine.next_id)
    asking = machine.device_functions, machine.device_questions
    asked = core.loader = Asked(loader)
    asked.source(module)
    modules = core.modules = Layer(core.modules)
    made = core.made = Layer(core.made)
    searches = core.searches = Layer(core.searches)
    kernels = core.kernels = Layer(core.kernels)
    contents = machine.base = Layer(machine.base)
    tensors = machine.tensors = Layer(machine.tensors)
    aliases = machine.aliases = {}
    machine.next_id = next(_blocks) * BLOCK
    machine.device_functions, machine.device_questions = set(), 0
    ended = False
    try:
        yield
        ended = True
    finally:
        core.loader = loader
        core.modules, core.made, core.searches, core.kernels = own
        machine.base, machine.tensors, machine.aliases, machine.next_id = below
        found = Evaluation(
            texts=asked.texts,
            modules=modules.change(),
            contents=contents.change(),
            made=made.change(),
            tensors=tensors.change(),
            aliases=aliases,
            device_functions=machine.device_functions,
            device_questions=machine.device_questions,
        )
        machine.device_functions, machine.device_questions = asking
        found.give(core)
        core.searches.update(searches.items())
    met = searches.change(), kernels.change()
    alone = any(one.read or one.written for one in met) or machine.widened
    facts = any(fact is not None for fact in found.tensors.read.values())
    if ended and not (alone or facts) and len(core.modules) < machine.limits.modules:
        _keep((module, machine.imports), found)


def _keep(key: tuple[str, int], found: Evaluation) -> None:
    others = _kept.pop(key, ())
    _kept[key] = (found, *others[: MAX_EVALUATIONS - 1])
    while len(_kept) > MAX_MODULES:
        _kept.pop(next(iter(_kept)), None)
