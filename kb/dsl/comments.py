"""Comments belong to items: found by line when a file is read, woven back in when it is written."""

from __future__ import annotations

from dataclasses import replace

from kb.dsl.parser import RawComment
from kb.dsl.tree import Case, Comment, Entry, Field, Place, Section, Side, anchors

Items = tuple[Section, ...] | tuple[Entry, ...] | tuple[Field, ...]


def attach(comments: tuple[RawComment, ...], sections: tuple[Section, ...]) -> tuple[Comment, ...]:
    """Each comment with the item it stands in, after or before, else with its block."""
    return tuple(Comment(comment.text, *_home(comment, sections)) for comment in comments)


def _home(comment: RawComment, sections: tuple[Section, ...]) -> tuple[tuple[str, ...], Side]:
    path: tuple[str, ...] = ()
    items: Items = sections
    while True:
        found = _among(comment, items)
        if found is None:
            return path, Side.END
        name, item, side = found
        path = (*path, name)
        if side is not None:
            return path, side
        items = item.entries if isinstance(item, Section | Case) else ()


def _among(comment: RawComment, items: Items) -> tuple[str, Section | Entry, Side | None] | None:
    """The item that the comment goes with; side None when it stands inside that block."""
    for name, item in zip(anchors(items), items, strict=True):
        place = item.place
        if comment.line < place.line:
            return name, item, Side.BEFORE
        if comment.line == place.end_line and _ends_before(comment, items, item):
            return name, item, Side.AFTER
        if comment.line <= place.end_line:
            inside = isinstance(item, Section | Case) and place.end_line > place.line
            return name, item, _inside(comment, place) if inside else Side.BEFORE
    return None


def _inside(comment: RawComment, place: Place) -> Side | None:
    """A comment after the opening brace is put before the block, else it is inside."""
    return Side.BEFORE if comment.line == place.line else None


def _ends_before(comment: RawComment, items: Items, item: Section | Entry) -> bool:
    """A comment runs to the end of its line, so the last item that ends on the line takes it."""
    later = [other for other in items if other is not item and other.place.line == comment.line]
    return not any(other.place.column > item.place.column for other in later)


def moved(
    comments: tuple[Comment, ...], names: dict[tuple[str, ...], tuple[str, ...]]
) -> tuple[Comment, ...]:
    """Comments after items moved: `names` gives the new anchor of each moved one."""
    return tuple(
        replace(comment, anchor=names.get(comment.anchor, comment.anchor)) for comment in comments
    )


def settle(comments: tuple[Comment, ...], sections: tuple[Section, ...]) -> tuple[Comment, ...]:
    """Comments as they stand once `sections` are written: every anchor exists, in a fixed order."""
    paths = _paths(sections)
    settled = [c if c.anchor in paths else _adopt(c, paths) for c in comments]
    return tuple(sorted(settled, key=lambda comment: (comment.anchor, comment.side)))


def _paths(sections: tuple[Section, ...]) -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = {()}
    for name, section in zip(anchors(sections), sections, strict=True):
        found.add((name,))
        for inner, entry in zip(anchors(section.entries), section.entries, strict=True):
            found.add((name, inner))
            if isinstance(entry, Case):
                found |= {(name, inner, field) for field in anchors(entry.entries)}
    return found


def _adopt(comment: Comment, paths: set[tuple[str, ...]]) -> Comment:
    """A comment whose block was merged with another of its kind follows its item; else the file."""
    near = tuple(reduced(name) for name in comment.anchor)
    if near in paths:
        return replace(comment, anchor=near)
    return replace(comment, anchor=(), side=Side.END)


def reduced(anchor: str) -> str:
    """The key of an anchor without its number."""
    return anchor.rsplit("#", 1)[0] if anchor.rsplit("#", 1)[-1].isdigit() else anchor
