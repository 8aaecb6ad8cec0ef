"""Constraints and findings against the gold, whose texts are prose.

A constraint of ours states one of the gold when both stand on a common line (unless ours is about
the extents of the launch that stands there), or when both name a common parameter and relate it
alike (power of two, divisible, equal, ordered, of one shape), or when both are of one kind that
prose states without a parameter ("last dim stride 1"). A finding of ours states a defect of the
gold when both have a common line and either the message names something that the text of the defect
names (a parameter, an axis, a function), or both speak of one kind of defect. Precision is over
everything that we say of the kernels; the gold does not list every true constraint or note, so it
is a lower bound.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from benchmarks.gold.decisions import rate
from benchmarks.gold.entries import Entry, overlap, ranges
from kb.evidence import Finding, Lines
from kb.knowledge import KernelKnowledge
from kb.space import Constraint

RELATIONS = {
    "power of two": re.compile(r"power.?of.?two|powers of two|pow2|2\^k"),
    "divisible": re.compile(r"%|multiple|divid|divisib"),
    "equal": re.compile(r"==|\bequal"),
    "ordered": re.compile(r"<=|>=|<|>|\bin \{|\bmax\b"),
    "as large": re.compile(
        r"\b(?:same|one|common) (?:\w+ )?(?:shapes?|strides?|number of \w+|extents?)\b"
        r"|\b(?:has|have) the (?:shape|strides) of\b"
        r"|\b(?:has|have|hold|holds) \w+ (?:elements|entries|columns)\b"
        r"|\.(?:shape|numel|stride)\b[\w\[\]-]* == [\w.\[\]-]*\.(?:shape|numel|stride)\b"
    ),
}
"""How a text relates what it names."""

CONSTRAINTS = {
    "side by side": re.compile(r"contiguous|unit.stride|stride 1\b|\.stride\[-1\] == 1"),
    "registers": re.compile(r"registers"),
    "shared memory": re.compile(r"\bSMEM\b|\bsmem\b|shared[_ ](?:bytes|memory)"),
    "32 bits": re.compile(
        r"\bint32\b|2\^3[12]|2147483647|(?:offsets|indices) (?:fit|in) (?:in )?32[- ]bit"
    ),
    "grid limit": re.compile(r"\b65535\b"),
    "rising": re.compile(
        r"\bnon-decreasing\b|\bmonoton|\bascend|\b(?:do|does) not (?:fall|decrease)\b"
        r"|\.values\[i\] <= "
    ),
    "fixed block": re.compile(r"\bblockDim\.x == \w|\bblock_x == \w"),
    "most threads": re.compile(
        r"\bblockDim(?:\.x)? <= 1024\b|\bat most 1024\b|\bto 1024 threads\b|<= 1024 threads\b"
        r"|\bbdx \* \w+ <= 1024\b|\btarget\.max_threads_per_block\b"
    ),
    "compiled for threads": re.compile(
        r"\bblockDim(?:\.x)? <= \d|\bblock_x \* block_y \* block_z <=|^block_x <= "
    ),
    "aligned": re.compile(
        r"\baligned to \d+ bytes|\b\d+-byte[- ]aligned|aligned to the vector|vector-aligned"
        r"|\.address %"
    ),
    "first contents": re.compile(r"zero-initiali[sz]ed|zeroed before|\.initial == 0"),
    "no overlap": re.compile(r"\boverlap|\bnot alias|\.memory !="),
    "all resident": re.compile(
        r"\bresident(?:_blocks| (?:at once|together|capacity))|\bco-resident"
    ),
    "before the wait": re.compile(r"\bbefore the (?:dependency )?wait\b|\.written_before_wait\b"),
    "every tile": re.compile(
        r"^(?:tiles?|blocks?|block sizes|(?:BLOCK|TILE)_\*) (?:are |is )?(?:a )?powers? of "
        r"(?:two|2)\b|^is_power_of_two\("
    ),
    "Hopper": re.compile(r"\b[Ss][Mm]_?90\b|capability >= 9\.0|capability\[1\] >= 90$"),
    "Blackwell": re.compile(r"\b[Ss][Mm]_?100\b|capability >= 10\.0|capability\[1\] >= 100$"),
}
"""Kinds of constraint that name no parameter: one kernel has one of a kind."""

DEFECTS = {
    "not read": re.compile(
        r"(?:never|not) (?:used|read)\b|unused|\bdead\b|overwritten (?:on both|before it is read)"
        r"|computed (?:in a branch )?and (?:then )?overwritten"
    ),
    "index range": re.compile(r"int32|32[- ]bits?|uint32|overflow"),
    "padding": re.compile(r"padding|masked load|other=|without other\b|zero-padded|lanes outside"),
    "recompiled": re.compile(
        r"recompil|compile[sd]? (?:anew|per|again)|Constants?\b|\bconstexpr\b"
        r"|(?:is a|are) constants?[:,]"
    ),
    "tuned apart": re.compile(
        r"never (?:timed|benchmarked|autotunes)|not (?:timed|tuned)|autotune.off"
        r"|configs\[0\]|none of them is timed"
    ),
    "read again": re.compile(
        r"(?:read|loaded) (?:twice|three times)|reads of the row|loaded from global memory in \d"
    ),
    "no gradient": re.compile(r"no backward|without a backward\b"),
    "refused": re.compile(r"NotImplementedError|raises unless"),
    "masked everywhere": re.compile(r"every tile"),
    "not formatted": re.compile(r"f-prefix|no `f` before"),
    "copied": re.compile(r"duplicated|are copies"),
    "rounded early": re.compile(r"rounds? .*dtype|is rounded to the dtype"),
    "summed narrow": re.compile(
        r"computed in fp16|in its own dtype|in the storage type|16-bit arithmetic"
        r"|\baccumulat\w+ [\w ,]*in (?:half|fp16|bf16|storage precision)\b"
    ),
    "kept narrow": re.compile(
        r"(?:stored?|saved|kept|allocated|rounded) (?:mean and rstd )?(?:in|to) the "
        r"(?:(?:input|storage)(?:'s)? d?type|d?type of (?:x|X|the input)\b)"
        r"|allocated in input\.dtype"
    ),
    "zero over zero": re.compile(r"\b0 ?(?:/|over) ?0\b"),
    "below zero": re.compile(r"\bnegative\b|variance is not clamped"),
    "one value": re.compile(r"in (?:all \d+|every) configurations?\b|have the single value"),
    "settled": re.compile(r"== ?1 always|always 1\b"),
    "overwritten": re.compile(r"overwrit|destroys|\bin place\b"),
    "one 16-bit type": re.compile(
        r"\b(?:fp16|f16|bf16)\b.*\b(?:whatever|first|does not compile)\b|always cast to"
        r"|output is (?:fp16|bf16)"
    ),
    "contiguity": re.compile(
        r"declared contiguous|max_contiguous|as if (?:its last axis were )?contiguous"
    ),
    "left out of a key": re.compile(r"\bkey(?:ed)?\b"),
    "no stages": re.compile(r"stages\b.*\b(?:loop|unrolled)"),
    "axis": re.compile(r"second argument"),
    "written again": re.compile(r"repeated in|is written in \d functions"),
    "infinities": re.compile(r"-inf (?:minus|from|-) -inf"),
    "zeroed": re.compile(
        r"(?:zeroed|zeros|zero-fill(?:s|ed)).*\b(?:written|writes|overwrit\w+|stores every)\b"
    ),
    "short accesses": re.compile(
        r"\b(?:single|single scattered) bytes\b|single-byte stores"
        r"|single-byte scattered stores|byte (?:loads at|stores to|accesses)|byte by byte"
        r"|scalar (?:2-byte|16-bit) loads"
        r"|\bbytes are moved one per thread|one byte per store"
        r"|thread loads 2 bytes|sixteen 2-byte loads|2-byte stores|16-bit element per thread"
        r"|moves one element of \d bytes? at once"
    ),
    "division at run time": re.compile(
        r"64-bit (?:division|modulo|div/mod|remainder)|division and a remainder per element"
        r"|div and mod pairs|integer divisions? (?:by a runtime|and look-up)"
        r"|runtime (?:integer )?division"
        r"|place of every element is divided"
    ),
    "zero times infinity": re.compile(
        r"\b(?:0|zero) (?:\*|times) (?:\(?-?inf|infinity)|\b0\*\(?-?inf"
    ),
    "undone": re.compile(
        r"multiplied back|shift .* is undone|\bis an identity\b|without changing exp\("
    ),
    "NaN not chosen": re.compile(
        r"NaN (?:inputs )?(?:never|(?:is|are) (?:dropped|lost)|is not treated)"
        r"|\bNaN among them is not chosen"
        r"|\bfalse for (?:a )?NaN|\bdrops? (?:a )?NaN|\bnot propagate NaN"
    ),
    "between tiles": re.compile(
        r"\b(?:and|or)\b[`\"]? (?:stands )?(?:on|between) (?:two |block )?(?:tensors|tiles)\b"
    ),
    "too many threads": re.compile(
        r"more than 1024 threads|above 1024/?\w* makes the launch fail|fails to launch"
    ),
    "one warp": re.compile(
        r"\bone[- ]warp (?:blocks|CTAs)|\b(?:blocks|CTAs) of one warp|\bone warp per CTA"
    ),
    "unrolled": re.compile(r"[Pp]ragma (?:to )?unroll|\bunroll pragma"),
    "late trigger": re.compile(
        r"(?:trigger|dependents)\b.*\bafter (?:all |the (?:last |whole )?)"
        r"(?:stores?|persistent loop)\b"
        r"|\btriggered only after the stores|\btrigger placed at the (?:very )?end\b"
    ),
    "local memory": re.compile(r"\blocal memory\b|\bregister arrays? indexed"),
    "same place": re.compile(
        r"\b(?:every|all)\b.*\b(?:thread|lane|row)s?\b.*\b(?:stores?|writes?)\b.*\bsame\b"
    ),
    "nothing launched": re.compile(
        r"\blaunch(?:es)? nothing|\bno kernel is launched|\bnothing is launched|without launching"
        r"|\bsilent(?:ly)? (?:no-op|do(?:es)? nothing)"
    ),
    "before the wait": re.compile(
        r"\bbefore (?:the (?:dependency )?wait\b|`?griddepcontrol|`?cudaGridDependency)"
    ),
    "no promise": re.compile(r"\b(?:no|nor|neither|without)\b[\w ]{0,24}`?(?:const )?__restrict__"),
    "no time-out": re.compile(
        r"\btime-?out\b|\bspins? (?:forever|without)|\bunbounded spin|\bpolling has no bound"
    ),
    "launch bounds": re.compile(r"(?:without|no) (?:`?_*)launch[ _]bounds"),
    "never compiled": re.compile(r"(?:branch|path) is never (?:taken|compiled|launched)"),
    "cast": re.compile(
        r"\bredundant \.to\(|\bcasts? .*(?:do nothing|does nothing)|cast to the type that it has"
    ),
    "again in each round": re.compile(r"every (?:iteration|step)\b|each round"),
    "settled comparison": re.compile(
        r"\balways (?:holds?|true)\b|\bnever (?:holds?|fails?|bites?)\b"
        r"|\bcan ?not be taken\b|\bcan never (?:be (?:true|false)|fire|hold)\b"
    ),
    "timed again": re.compile(r"\b(?:each|stand) twice\b|in the list already"),
    "no compile-time number": re.compile(r"annotated\b.*\b(?:constexpr|compile-time)"),
    "double in float": re.compile(
        r"\b(?:doubles?|fp64|float64)\b.*\b(?:computed|accumulated)\b.*\bin (?:fp32|float)\b"
        r"|\bsingle precision\b"
    ),
    "fixed": re.compile(
        r"\b(?:tiles?|warps|occupancy|blocks?|config\w*|chunks?|channels\b.*|hints?)\b.*\bfixed\b"
        r"|\bfixed\b.*\b(?:tiles?|columns?|config\w*|blocks?)\b|\bnot tuned|\bone config for\b"
        r"|\bnever (?:searched|tuned)|\bno (?:tuning|search)\b|\b(?:is a|are) literals?\b"
        r"|\bit is fixed\b|\bfor (?:all|every) (?:head )?sizes?\b"
    ),
    "branches alike": re.compile(
        r"\bbranches\b.*\b(?:same|identical|alike)\b|\b(?:arms|defaults)\b.*\b(?:same|identical)\b"
        r"|\breturn the same\b|\bsame value for\b"
    ),
    "result dropped": re.compile(
        r"\bresults? of [\w` ,]+(?:is|are)? ?(?:dropped|ignored|not asked|not checked)"
    ),
    "current device": re.compile(
        r"\bdevice guard\b|\bcurrent (?:device|GPU)\b|\bnon-current GPU\b|\bwrong device\b"
    ),
    "kept for all devices": re.compile(r"\bfirst (?:device|call)\b|\bcached for all devices"),
    "default stream": re.compile(r"\bdefault stream\b"),
    "layout not asked": re.compile(
        r"\bcontiguity\b.*\bnot (?:compared|checked)|\bneither\b.*\bcontiguity\b.*\bchecked"
        r"|\bcontiguity and \w+ are not checked|\bnot checked to be contiguous"
        r"|\bcontiguity [\w ]*unchecked|\bno contiguity check|\bcontiguity are taken without"
    ),
    "shapes not compared": re.compile(
        r"\b(?:shapes?|sizes|extents|contiguity)\b.*\b(?:not|never) (?:compared|checked)"
        r"|\bnever (?:compared|checked against)\b|\bneither shape\b"
    ),
    "computed again": re.compile(
        r"\b(?:computed|loaded|built|taken|multiplied out) (?:again|twice|anew|a second time)\b"
        r"|\brecomputes?\b|\brepeats?\b|\bsame values\b|\bapplied a second time\b"
    ),
    "returned": re.compile(r"\breturn annotation\b|\bannotated to return\b"),
    "registers": re.compile(
        r"\bvalues (?:a|per) thread\b|\bregisters (?:of each|per thread|of \d+ warps)\b"
        r"|\bcan only spill\b|\bmust spill\b|\bfit in registers\b"
    ),
    "idle threads": re.compile(
        r"\bthreads (?:redundant|repeat|only duplicate|idle)\b|\bof \d+ threads redundant"
        r"|\bother threads\b|\bother lanes of the CTA repeat\b|\bone warp's worth of scalar\b"
    ),
    "never launched": re.compile(
        r"\bnever launched\b|\bnothing (?:launches|calls)\b|\bno launcher\b|\bnot the dispatched\b"
    ),
    "pass on the host": re.compile(
        r"\bon the host\b.*\bcop(?:y|ies|ied)|\bcop(?:y|ies|ied)\b.*\bon the host"
        r"|\bwhole (?:input|array|cache)\b|\bpass(?:es)? over\b|\bfull[- ]tensor passes\b"
        r"|\bseparate cast\b|\bpadded? (?:twice )?on the host\b|\bF\.pad\b"
    ),
    "by default": re.compile(r"default (?:number of|4) warps"),
    "always searched": re.compile(r"\bturns? (?:\w+ )+off\b|\bnot consulted\b|DISABLE_AUTOTUNE"),
    "waiting apart": re.compile(r"\bbarriers?\b|\bshuffles?\b|wait for each other"),
    "host waits": re.compile(r"\bitem\(\)|\bsynchroni|\bhost waits\b"),
    "grid limit": re.compile(r"\b65535\b"),
    "lanes apart": re.compile(
        r"neighbouring (?:lanes|threads)|lanes are \w+ elements apart|lanes \d+ bytes apart"
        r"|\b(?:uncoalesced|not coalesced|partly coalesced|nor coalesced|no store coalesces)\b"
        r"|stride (?:of [\w, ]+ )?over the lanes|\blane stride\b|byte stride per lane"
    ),
    "searched again": re.compile(
        r"tuned again|searched again|re-tunes|search runs again|runs the search again"
        r"|search for every"
    ),
    "runs once": re.compile(r"\bruns once\b"),
    "past the end": re.compile(
        r"\breads? past\b|past its (?:end|last)|past the (?:end|row)"
        r"|without (?:a|the) (?:\w+ )?mask"
    ),
    "other strides": re.compile(r"addressed with .*\bstrides?\b"),
    "product again": re.compile(r"computed again by|computes the product again"),
    "row in one tile": re.compile(
        r"row in one tile|row is one tile|row tile has no upper limit|no limit on (?:D|the row)\b"
    ),
    "kept for nothing": re.compile(r"saved for a backward|on its context"),
    "in a copy": re.compile(r"reshape copies|into a copy"),
    "power of two": re.compile(r"\bpower of two\b"),
    "empty grid": re.compile(
        r"\bgrid of (?:zero|0|no) blocks|\bgrid has zero blocks|\b(?:empty|zero) grid\b"
        r"|\bzero[- ]block\b|\bgrid is empty\b|\bgrid(?:\.[xyz])? (?:==? )?0\b|\bzero grid\b"
    ),
    "empty below a target": re.compile(
        r"\bbody is empty\b|\bempty body\b|\bbelow sm_?\d+|\bsm < \d+ stub"
    ),
    "divided by none": re.compile(
        r"\bdivision by zero\b|\bdivides? by (?:it|zero|0)\b|\basks whether it is zero\b"
    ),
    "asked at each launch": re.compile(r"\b(?:on|at|before) every (?:launch|call)\b"),
    "error not asked for": re.compile(
        r"\basks for no error\b|\blaunch errors? (?:(?:is|are) )?not (?:asked|checked)"
        r"|\basking for the launch error|\bresults? of (?:the launch|cudaLaunch\w+) (?:is|are) "
        r"(?:dropped|ignored|not)|\bno (?:error check|cudaGetLastError) after"
        r"|\blaunch (?:itself are |result is |is )?not (?:checked|followed by an error)"
        r"|\b(?:nor|neither) the launch\b|followed by an error check"
        r"|and of the launch (?:are|is) not|\bno launch[- ](?:error )?(?:is )?check"
    ),
}
"""Kinds of defect, as texts speak of them."""

_OF_LAUNCH = re.compile(r"<= 65535$|\w > 0$|^block_[xyz] == \d+$")
"""Constraints about the extents of a launch: its lines hold so much else that they say nothing."""

_PLACE = re.compile(r"\.\w+:(\d+)(?:-(\d+))?$")
"""How a constraint names a place in another file."""

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:_\w+|\d|(?<=[A-Z])[A-Z]\w*)|\b[A-Z]\b|[A-Za-z]\w*_\w+")
_WORD = re.compile(r"[A-Za-z_]\w*")
_QUOTED = re.compile(r"`(\w+)")


@dataclass(frozen=True)
class Claim:
    """A constraint or defect, of the gold (`ours` False) or of ours, and whether the other side
    has it."""

    package: str
    kernel: str
    kind: str
    ours: bool
    text: str
    lines: list[Lines]
    met: bool


def compare(entry: Entry, known: KernelKnowledge) -> list[Claim]:
    """Constraints and defects of one kernel, from both sides."""
    place = (str(entry["package"]), str(entry["kernel"]))
    stated = [(_text(item), ranges(item.get("lines"))) for item in entry.get("constraints") or ()]
    found = []
    for text, lines in stated:
        met = any(_same_constraint(text, lines, c) for c in known.constraints)
        found.append(Claim(*place, "constraint", False, text, lines, met))
    for constraint in known.constraints:
        met = any(_same_constraint(text, lines, constraint) for text, lines in stated)
        lines = [constraint.lines] if constraint.lines else []
        found.append(Claim(*place, "constraint", True, constraint.expression, lines, met))
    defects = [(_text(item), ranges(item.get("lines"))) for item in entry.get("defects") or ()]
    for text, lines in defects:
        met = any(_same_finding(text, lines, f) for f in known.findings)
        found.append(Claim(*place, "finding", False, text, lines, met))
    for finding in known.findings:
        met = any(_same_finding(text, lines, finding) for text, lines in defects)
        told = f"{finding.rule}: {finding.message}"
        found.append(Claim(*place, "finding", True, told, list(finding.lines), met))
    return found


def _text(item: dict[str, Any]) -> str:
    return str(item.get("text") or item.get("expr") or item.get("desc"))


def _same_constraint(text: str, lines: list[Lines], ours: Constraint) -> bool:
    of_launch = _OF_LAUNCH.search(ours.expression) and not (
        ours.expression.endswith("> 0") and "grid" not in (ours.because or "")
    )
    place = ours.lines or _in_its_file(ours)
    if place and overlap([place], lines) and not of_launch:
        return True
    named = set(_IDENTIFIER.findall(text)) & set(_WORD.findall(ours.expression))
    alike = {
        name
        for name, pattern in RELATIONS.items()
        if pattern.search(text) and pattern.search(ours.expression)
    }
    kind = any(k.search(text) and k.search(ours.expression) for k in CONSTRAINTS.values())
    return bool(named and alike) or kind


def _in_its_file(ours: Constraint) -> Lines | None:
    """The lines of a constraint that another file than the kernel's shows."""
    found = _PLACE.search(ours.source or "")
    return (int(found[1]), int(found[2] or found[1])) if found else None


def _same_finding(text: str, lines: list[Lines], ours: Finding) -> bool:
    if not overlap(ours.lines, lines):
        return False
    named = set(_IDENTIFIER.findall(text)) & set(_WORD.findall(ours.message))
    quoted = set(_QUOTED.findall(ours.message)) & set(_WORD.findall(text))
    alike = any(kind.search(text) and kind.search(ours.message) for kind in DEFECTS.values())
    return bool(named or quoted or alike)


def summary(claims: list[Claim], kind: str) -> dict[str, Any]:
    """Counts and rates of one kind."""
    gold = [c for c in claims if c.kind == kind and not c.ours]
    ours = [c for c in claims if c.kind == kind and c.ours]
    return {
        "gold": len(gold),
        "recall": rate(sum(c.met for c in gold), len(gold)),
        "ours": len(ours),
        "precision_lower_bound": rate(sum(c.met for c in ours), len(ours)),
    }


def show(claims: list[Claim]) -> None:
    """Print what one side has and the other has not."""
    for claim in claims:
        if not claim.met:
            side = "EXTRA " if claim.ours else "MISS  "
            print(f"{side} {claim.kind:10} {claim.kernel:40} {claim.lines} {claim.text[:150]}")
