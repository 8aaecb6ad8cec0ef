"""Every dialect by name; adding one is adding its table here."""

from __future__ import annotations

from kb.dialects.cuda import CUDA
from kb.dialects.cutile import CUTILE
from kb.dialects.gluon import GLUON
from kb.dialects.model import Dialect
from kb.dialects.triton import TRITON
from kb.errors import UnknownName

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (CUTILE, TRITON, GLUON)}
"""Those that modules are written in."""

_READ = {**DIALECTS, CUDA.name: CUDA}
"""Those that a program may be of."""


def dialect(name: str) -> Dialect:
    """The dialect called `name`; UnknownName lists the ones there are."""
    found = DIALECTS.get(name)
    if found is None:
        known = ", ".join(sorted(DIALECTS))
        raise UnknownName(f"no dialect is called {name!r}.", hint=f"Choose one of: {known}.")
    return found


def reductions_widen(name: str) -> bool:
    """Whether a dialect widens 16-bit floats when it reduces them; False for an unknown one."""
    found = _READ.get(name)
    return found is not None and found.reductions_widen


def rounding(name: str, spelling: str) -> str | None:
    """How a native call of a dialect rounds (rn, rz, ru, rd, approx); None when it does not say."""
    found = _READ.get(name)
    return found.roundings.get(spelling) if found is not None else None


def contracted_bytes(name: str) -> int:
    """Bytes that operands of a matrix product have at least along the contracted axis; 0 where a
    dialect asks for none, and for an unknown one."""
    found = _READ.get(name)
    return found.contracted_bytes if found is not None else 0


def narrow_float_since(name: str) -> int:
    """The compute capability since which a dialect converts f8e4m3, ten times the major number and
    the minor one; 0 where nothing is known of that, and for an unknown dialect."""
    found = _READ.get(name)
    return found.narrow_float_since if found is not None else 0


def staged_launch(name: str) -> bool:
    """Whether a launch of a dialect sets the number of stages; False for an unknown one."""
    found = _READ.get(name)
    return found is not None and found.staged_launch


def latency_hints(name: str) -> bool:
    """Whether loads of a dialect may be given a latency; False for an unknown one."""
    found = _READ.get(name)
    rows = found.rows if found is not None else ()
    return any(one.role == "latency" for row in rows for one in row.parameters)


def rounds_products(name: str) -> str:
    """To what a dialect's products round 32-bit floats by themselves; empty where to nothing."""
    found = _READ.get(name)
    return found.rounds_products if found is not None else ""


def stores_cast(name: str) -> bool:
    """Whether stores of a dialect cast by themselves; False for an unknown one."""
    found = _READ.get(name)
    return found is not None and found.stores_cast
