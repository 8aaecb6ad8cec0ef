"""The value of a Python literal from its text, without running the compiler on it.

Source: The Python Language Reference, section 2.4 to 2.5, "Literals".
"""

from __future__ import annotations

import re
import unicodedata

_ESCAPE = re.compile(
    r"\\(?:(?P<eol>\n)|(?P<plain>[\\'\"abfnrtv])|(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9a-fA-F]{2})"
    r"|N\{(?P<name>[^}]*)\}|u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<bad>[xuUN]))"
)
_BYTE_ESCAPE = re.compile(
    r"\\(?:(?P<eol>\n)|(?P<plain>[\\'\"abfnrtv])|(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9a-fA-F]{2})"
    r"|(?P<bad>x))"
)
_PLAIN = {
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}


def string_value(prefix: str, body: str) -> str | bytes:
    """The value of a string or bytes literal, from its prefix and the text between its quotes.

    ValueError when an escape cannot be decoded (`\\xZ`, an unknown `\\N{name}`), or a bytes literal
    holds a character outside ASCII. An escape that Python does not know keeps its backslash.
    """
    lowered = prefix.lower()
    raw = "r" in lowered or "\\" not in body
    if "b" in lowered:
        value = body if raw else _BYTE_ESCAPE.sub(_decoded_byte, body)
        if not body.isascii():
            raise ValueError("bytes can only contain ASCII characters")
        return value.encode("latin-1")
    return body if raw else _ESCAPE.sub(_decoded, body)


def _decoded(match: re.Match[str]) -> str:
    kind, text = str(match.lastgroup), match.group(str(match.lastgroup))
    if kind == "name":
        try:
            return unicodedata.lookup(text)
        except KeyError:
            raise ValueError(f"unknown Unicode character name `{text}`") from None
    if kind in ("short", "long"):
        code = int(text, 16)
        if code > 0x10FFFF:
            raise ValueError(f"no Unicode character has the number {text}")
        return chr(code)
    return _decoded_byte(match, mask=0x1FF)


def _decoded_byte(match: re.Match[str], mask: int = 0xFF) -> str:
    kind, text = str(match.lastgroup), match.group(str(match.lastgroup))
    if kind == "eol":
        return ""
    if kind == "plain":
        return _PLAIN[text]
    if kind == "octal":
        return chr(int(text, 8) & mask)
    if kind == "hex":
        return chr(int(text, 16))
    raise ValueError(f"truncated escape `\\{text}`")


def integer_value(text: str) -> int:
    """The value of an integer literal in any base. ValueError above Python's limit of digits."""
    return int(text.replace("_", ""), 0)


def float_value(text: str) -> float:
    """The value of a floating point literal."""
    return float(text.replace("_", ""))


def imaginary_value(text: str) -> complex:
    """The value of an imaginary literal, such as `2j`."""
    return complex(text.replace("_", ""))
