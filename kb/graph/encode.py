"""What is known of a kernel as a named graph: no blank nodes, sorted quads, same in, same out."""

from __future__ import annotations

from dataclasses import dataclass

from pyoxigraph import NamedNode, Quad, RdfFormat, serialize

from kb.evidence import AxisNumerics, Decision, Finding
from kb.graph import names
from kb.graph.facts import Facts, Rel
from kb.ir_text import text_digest, to_text
from kb.knowledge import KernelKnowledge, ParameterFact, Source
from kb.space import Constraint, GuardedPoints, Launch, Tuning

VERSION = "0.1.0"
"""Version of tilelore that a graph names; it takes no part in the digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelGraph:
    """One named graph with the program it speaks of: what a store takes."""

    name: str
    kernel: str
    quads: tuple[Quad, ...]
    program_text: str
    program_digest: str

    @property
    def text(self) -> str:
        """Canonical N-Quads: the quads are sorted, and none is there twice."""
        return (serialize(self.quads, format=RdfFormat.N_QUADS) or b"").decode()

    @property
    def programs(self) -> dict[str, str]:
        """Digest to text, as the store takes it."""
        return {self.program_digest: self.program_text}


def encode(knowledge: KernelKnowledge, *, version: str = VERSION) -> KernelGraph:
    """The graph of a kernel; the same knowledge always gives the same graph.

    The name carries the digest of source, symbol and knowledge: changed content, another graph.
    Raises InputError when the program is larger than its text form may be.
    """
    text = to_text(knowledge.kernel)
    digest = text_digest(text)
    facts = _knowledge_facts(knowledge, digest)
    source, symbol = knowledge.source, knowledge.kernel.name
    content = facts.digest(source.sha256, symbol)
    facts.add("/extraction", "tl:version", version)
    tail = names.kernel_tail(source.package, source.path, symbol, content)
    kernel, graph = names.kernel(tail), names.graph(tail)
    return KernelGraph(
        name=graph,
        kernel=kernel,
        quads=facts.quads(kernel, graph),
        program_text=text,
        program_digest=digest,
    )


def _knowledge_facts(knowledge: KernelKnowledge, digest: str) -> Facts:
    facts = Facts()
    facts.add("", "rdf:type", NamedNode(names.term("tl:Kernel")))
    facts.add("", "rdfs:label", knowledge.kernel.name)
    facts.add("", "tl:dialect", knowledge.source.dialect)
    if knowledge.operation is not None:
        facts.add("", "tl:implements", NamedNode(names.operation(knowledge.operation)))
    facts.add("", "tl:hasProgram", NamedNode(names.program(digest)))
    facts.add("", "tl:programDigest", digest)
    facts.add("", "tl:startLine", knowledge.lines[0])
    facts.add("", "tl:endLine", knowledge.lines[1])
    facts.add("", "tl:operationCount", knowledge.operations)
    facts.add("", "tl:opaqueCount", knowledge.opaque)
    _source(facts, knowledge.source)
    keys = names.distinct([parameter.name for parameter in knowledge.parameters])
    for index, (parameter, key) in enumerate(zip(knowledge.parameters, keys, strict=True)):
        _parameter(facts, parameter, f"/parameter/{key}", index)
    for index, decision in enumerate(knowledge.decisions):
        node = facts.node("", "tl:hasDecision", "tl:Decision", f"/decision/{index}", index)
        decision_facts(facts, node, decision)
        facts.add("", "tl:chose", NamedNode(names.value(decision.axis, decision.value)))
    tuning_facts(facts, knowledge.tuning)
    for index, launch in enumerate(knowledge.launches):
        launch_facts(facts, launch, index)
    for index, constraint in enumerate(knowledge.constraints):
        constraint_facts(facts, constraint, index)
    for index, finding in enumerate(knowledge.findings):
        node = facts.node("", "tl:hasFinding", "tl:Finding", f"/finding/{index}", index)
        finding_facts(facts, node, finding)
    keys = names.distinct([row.name for row in knowledge.numerics])
    for index, (row, key) in enumerate(zip(knowledge.numerics, keys, strict=True)):
        place = f"/numerics/{key}"
        _numerics(facts, row, facts.node("", "tl:hasNumerics", "tl:AxisNumerics", place, index))
    return facts


def _source(facts: Facts, source: Source) -> None:
    facts.add("", "tl:hasSource", Rel("/source"))
    for kind in ("tl:SourceFile", "schema:SoftwareSourceCode", "prov:Entity"):
        facts.add("/source", "rdf:type", NamedNode(names.term(kind)))
    facts.add("/source", "tl:path", source.path)
    facts.add("/source", "tl:sha256", source.sha256)
    facts.maybe("/source", "tl:package", source.package)
    facts.maybe("/source", "dcterms:license", source.licence)
    facts.add("", "prov:wasGeneratedBy", Rel("/extraction"))
    facts.add("/extraction", "rdf:type", NamedNode(names.term("prov:Activity")))
    facts.add("/extraction", "prov:used", Rel("/source"))
    facts.add("/extraction", "prov:wasAssociatedWith", NamedNode(names.AGENT))


def _parameter(facts: Facts, parameter: ParameterFact, place: str, index: int) -> None:
    node = facts.node("", "tl:hasParameter", "tl:Parameter", place, index)
    facts.add(node, "tl:name", parameter.name)
    facts.add(node, "tl:parameterKind", parameter.kind)
    facts.add(node, "tl:role", parameter.role.value)
    facts.maybe(node, "tl:dtype", parameter.dtype)
    facts.maybe(node, "tl:rank", parameter.rank)


def _numerics(facts: Facts, row: AxisNumerics, node: str) -> None:
    facts.add(node, "tl:name", row.name)
    facts.add(node, "tl:numerics", row.numerics.value)
    facts.add(node, "tl:because", row.reason)
    facts.lines(node, row.lines)


def decision_facts(facts: Facts, node: str, decision: Decision) -> None:
    """What a decision says, at its node."""
    facts.add(node, "tl:onAxis", NamedNode(names.axis(decision.axis)))
    facts.add(node, "tl:value", decision.value)
    facts.add(node, "tl:chosenValue", NamedNode(names.value(decision.axis, decision.value)))
    facts.add(node, "tl:seenBy", NamedNode(names.pattern(decision.pattern)))
    facts.add(node, "tl:axisKind", decision.kind.value)
    facts.maybe(node, "tl:subject", decision.subject)
    facts.maybe(node, "tl:file", decision.file)
    facts.lines(node, decision.lines, decision.file)
    for file, lines in decision.elsewhere:
        facts.lines(node, [lines], file, "tl:evidenceElsewhere")


def tuning_facts(facts: Facts, tuning: Tuning) -> None:
    """The tuning of a kernel or of a design space."""
    node = "/tuning"
    facts.add("", "tl:hasTuning", Rel(node))
    facts.add(node, "rdf:type", NamedNode(names.term("tl:TuningSpace")))
    facts.add(node, "tl:mechanism", tuning.mechanism)
    for index, case in enumerate(tuning.spaces):
        _case(facts, case, index)
    for name in tuning.effective_axes:
        facts.add(node, "tl:effectiveAxis", name)
    for name in tuning.dead_axes:
        facts.add(node, "tl:deadAxis", name)
    facts.settings(node, "tl:launchedWith", "launched", tuning.launched_with)
    facts.settings(node, "tl:timedWith", "timed", tuning.timed_with)
    for index, text in enumerate(tuning.cache_key or ()):
        key = facts.node(node, "tl:cacheKeyPart", "tl:CacheKeyPart", f"{node}/key/{index}", index)
        facts.add(key, "tl:expression", text)
    # The order of names, and an empty key apart from no key, have no words of their own.
    order = {"deadAxes": tuning.dead_axes, "effectiveAxes": tuning.effective_axes}
    facts.json(node, {**order, "cacheKey": tuning.cache_key is not None})
    facts.lines(node, [tuning.lines] if tuning.lines is not None else [])


def _case(facts: Facts, case: GuardedPoints, index: int) -> None:
    node = facts.node("/tuning", "tl:hasCase", "tl:SpaceCase", f"/tuning/case/{index}", index)
    facts.add(node, "tl:when", case.when)
    facts.add(node, "tl:complete", case.complete)
    facts.maybe(node, "tl:reason", case.reason)
    for position, point in enumerate(case.points):
        place = f"{node}/point/{position}"
        facts.node(node, "tl:hasPoint", "tl:TuningPoint", place, position)
        facts.settings(place, "tl:setting", "setting", point)
    facts.lines(node, [case.lines] if case.lines is not None else [])


def launch_facts(facts: Facts, launch: Launch, index: int) -> None:
    """A launch of a kernel or of a design space."""
    node = facts.node("", "tl:hasLaunch", "tl:Launch", f"/launch/{index}", index)
    facts.add(node, "tl:when", launch.when)
    facts.maybe(node, "tl:hostFunction", launch.host_function)
    for position, extent in enumerate(launch.grid):
        place = f"{node}/grid/{position}"
        facts.node(node, "tl:gridAxis", "tl:GridAxis", place, position)
        facts.add(place, "tl:expression", extent)
    keys = names.distinct([binding.parameter for binding in launch.bindings])
    for position, (binding, key) in enumerate(zip(launch.bindings, keys, strict=True)):
        place = f"{node}/binding/{key}"
        facts.node(node, "tl:binding", "tl:Binding", place, position)
        facts.add(place, "tl:parameter", Rel(f"/parameter/{names.segment(binding.parameter)}"))
        facts.add(place, "tl:expression", binding.expression)
    facts.settings(node, "tl:hint", "hint", launch.hints)
    facts.maybe(node, "tl:file", launch.file)
    facts.lines(node, [launch.lines], launch.file)


def constraint_facts(facts: Facts, constraint: Constraint, index: int) -> None:
    """A constraint of a kernel or of a design space."""
    node = facts.node("", "tl:hasConstraint", "tl:Constraint", f"/constraint/{index}", index)
    facts.add(node, "tl:expression", constraint.expression)
    facts.add(node, "tl:origin", constraint.origin.value)
    facts.add(node, "tl:checkedByHost", constraint.checked_by_host)
    facts.maybe(node, "tl:because", constraint.because)
    facts.maybe(node, "tl:hint", constraint.hint)
    facts.maybe(node, "dcterms:source", constraint.source)
    facts.lines(node, [constraint.lines] if constraint.lines is not None else [])


def finding_facts(facts: Facts, node: str, finding: Finding) -> None:
    """What a finding says, at its node."""
    facts.add(node, "tl:rule", NamedNode(names.rule(finding.rule)))
    facts.add(node, "tl:severity", finding.severity.value)
    facts.add(node, "tl:message", finding.message)
    facts.maybe(node, "tl:fix", finding.fix)
    facts.lines(node, finding.lines)
