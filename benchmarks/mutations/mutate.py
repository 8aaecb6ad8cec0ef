"""Broken copies of source text: each keeps most of a real file, so that every room is reached."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from random import Random

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_WORD = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"\b\d+\b")
MAX_EDITS = 12


def truncated(text: str, rng: Random) -> str:
    """Cut off somewhere, in the middle of a line as often as not."""
    return text[: rng.randrange(len(text) + 1)]


def shuffled(text: str, rng: Random) -> str:
    """A few lines change places."""
    lines = text.splitlines(keepends=True)
    for _ in range(rng.randint(1, MAX_EDITS)):
        if len(lines) > 1:
            a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[a], lines[b] = lines[b], lines[a]
    return "".join(lines)


def block_moved(text: str, rng: Random) -> str:
    """Some neighbouring lines stand elsewhere, indentation kept."""
    lines = text.splitlines(keepends=True)
    start = rng.randrange(len(lines) + 1)
    block = lines[start : start + rng.randint(1, 20)]
    del lines[start : start + len(block)]
    place = rng.randrange(len(lines) + 1)
    return "".join([*lines[:place], *block, *lines[place:]])


def lines_deleted(text: str, rng: Random) -> str:
    """A few whole lines are gone; most often it still parses."""
    lines = text.splitlines(keepends=True)
    for _ in range(rng.randint(1, MAX_EDITS)):
        if lines:
            del lines[rng.randrange(len(lines))]
    return "".join(lines)


def tokens_deleted(text: str, rng: Random) -> str:
    """A few words or signs are gone."""
    tokens = _TOKEN.findall(text)
    for _ in range(rng.randint(1, MAX_EDITS)):
        if tokens:
            del tokens[rng.randrange(len(tokens))]
    return "".join(tokens)


def tokens_doubled(text: str, rng: Random) -> str:
    """A few words or signs stand twice, or where another stood."""
    tokens = _TOKEN.findall(text)
    for _ in range(rng.randint(1, MAX_EDITS)):
        if tokens:
            place, other = rng.randrange(len(tokens)), rng.choice(tokens)
            tokens[place : place + rng.randint(0, 1)] = [other]
    return "".join(tokens)


def renamed(text: str, rng: Random) -> str:
    """One name becomes another of the file, everywhere: things clash that were apart."""
    words = sorted(set(_WORD.findall(text)))
    if len(words) < 2:
        return text
    old, new = rng.sample(words, 2)
    return re.sub(rf"\b{old}\b", new, text)


def numbers_changed(text: str, rng: Random) -> str:
    """A few numbers become zero, negative or huge."""
    for _ in range(rng.randint(1, MAX_EDITS)):
        found = list(_NUMBER.finditer(text))
        if not found:
            return text
        one = rng.choice(found)
        number = rng.choice(["0", "-1", "7", str(2**31), str(2**64), "1" * 40])
        text = text[: one.start()] + number + text[one.end() :]
    return text


MUTATIONS: Mapping[str, Callable[[str, Random], str]] = {
    made.__name__: made
    for made in (
        truncated, shuffled, block_moved, lines_deleted, tokens_deleted, tokens_doubled, renamed,
        numbers_changed,
    )
}  # fmt: skip
