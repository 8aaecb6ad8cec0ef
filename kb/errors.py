"""The one tree of errors: every message says where, what, and the next thing to do."""


class TileloreError(Exception):
    """Root of everything tilelore raises on purpose; `exit_code` is what the command line
    returns."""

    exit_code = 2

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        self.message = message
        self.where = where
        self.hint = hint
        super().__init__(self.text)

    @property
    def text(self) -> str:
        """`where: message. hint` in one line."""
        head = f"{self.where}: {self.message}" if self.where else self.message
        return f"{head} {self.hint}" if self.hint else head


class InputError(TileloreError):
    """The input is not what the command reads: not Python, no kernel, too large, unreadable."""


class SyntaxProblem(InputError):
    """Text that does not follow its grammar (Python, DSL, SPARQL, Turtle); `where` has line and
    column."""


class UnknownName(InputError):
    """A name (kernel, axis, question, target, operation) that nothing answers to."""


class ConstraintViolated(TileloreError):
    """A design point breaks a constraint; the message names the constraint and the values."""

    exit_code = 1


class DoesNotConform(TileloreError):
    """A graph that SHACL refuses; nothing of it was written."""

    exit_code = 1


class CannotEmit(TileloreError):
    """A program that cannot be written in the dialect asked for; `where` is the span that stands in
    the way."""

    exit_code = 1


class StoreError(TileloreError):
    """The store is locked, unreachable, or refuses the operation (an update on a read-only
    endpoint)."""


class CompilerFailed(TileloreError):
    """The GPU compiler refused, crashed or ran past its time limit; the message carries its last
    words."""

    exit_code = 1
