"""Work of several threads together: cooperative groups and CUB's block and warp collectives."""

from __future__ import annotations

from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.assembly import AssemblyReader
from extractors.cuda.block_moves import block_move
from extractors.cuda.combined import combined, items
from extractors.cuda.values import INT, UNKNOWN, Group, Kind, Named, Slot, Val
from kb.dialects.cuda import COLLECTIVES, COMBINERS, INDICES
from kb.ir import Literal, MemorySpace
from kb.ops import OpKind

_GROUPS = {
    "this_thread_block": "block", "this_grid": "grid", "this_cluster": "cluster",
    "coalesced_threads": "warp",
}  # fmt: skip

_PARTED = frozenset({"labeled_partition", "binary_partition"})
"""Functions that make groups of the threads of a warp for which a number is the same. Source:
NVIDIA, CUDA C++ Programming Guide, Cooperative Groups."""

_PLACES = {
    "thread_index": "threadIdx", "group_index": "blockIdx", "block_index": "blockIdx",
    "group_dim": "blockDim", "dim_threads": "blockDim", "dim_blocks": "gridDim",
}  # fmt: skip
"""Methods of blocks and grids that tell what a variable of the language tells. Source: NVIDIA,
CUDA C++ Programming Guide, Cooperative Groups."""

_BY_CLUSTER = {
    "cluster_rank": OpKind.BLOCK_ID, "num_clusters": OpKind.NUM_BLOCKS,
    "block_rank": OpKind.CLUSTER_RANK, "num_blocks": OpKind.CLUSTER_BLOCKS,
}  # fmt: skip
"""Methods of clusters, and of grids with clusters, by what they count. Source: as above."""

_SPLIT = {"barrier_arrive": OpKind.BARRIER_ARRIVE, "barrier_wait": OpKind.BARRIER}
"""The two halves of a barrier of a group: threads wait in the second. Source: as above."""

_HOPS = 8
"""Names that a type of an operator may have, one for the other."""


class CollectiveReader(AssemblyReader):
    """Reductions, barriers and exchanges of groups of threads."""

    # -- collectives

    def _group_call(self, node: n.Call, function: n.Name, hint: str) -> Val | None:
        """`cg::reduce(group, x, op)` and `cg::memcpy_async` of a cooperative group."""
        if not node.arguments or not isinstance(node.arguments[0], n.Name):
            return None
        group = self.frame.find(node.arguments[0].text)
        if not isinstance(group, Group):
            return None
        last = function.text.rpartition("::")[2]
        if last == "reduce" and len(node.arguments) == 3:
            value = self.read(node.arguments[1])
            return self._by(node.arguments[2], value, group.scope, node.at, hint, group.size)
        if last == "sync":
            attributes: list[tuple[str, Literal]] = [("scope", group.scope)]
            self.writer.emit(OpKind.BARRIER, (), node.at, (), attributes)
            return Val("")
        return None

    def _combiner(self, node: n.Expr) -> OpKind:
        """The reduction that an operator object stands for, by another name for its type, too."""
        name = ""
        if isinstance(node, n.Braces) and node.type is not None:
            name = node.type.name
        elif isinstance(node, n.Call) and isinstance(node.function, n.Name):
            name = node.function.text
        for _ in range(_HOPS):
            alias = None if name in COMBINERS else self.library.alias(name)
            if alias is None:
                break
            name = alias.type.name
        return COMBINERS.get(name, OpKind.REDUCE)

    def _by(
        self, operator: n.Expr, value: Val, scope: str, at: n.Place, hint: str, size: str = ""
    ) -> Val:
        """A reduction by an operator of the library, or by one of the file: of a vector made of
        numbers that it treats lane by lane, one reduction of each."""
        kind = self._combiner(operator)
        kinds = self._tried(operator, value, at) if kind is OpKind.REDUCE else ()
        parts = items(self.writer.current.ops, value.name)
        if len(set(kinds)) == 1 and len(kinds) != len(parts):
            kind = kinds[0]
        if len(kinds) < 2 or len(kinds) != len(parts):
            return self._reduced(kind, value, scope, at, hint, size)
        lanes = tuple(
            self._reduced(one, Val(part, value.kind.element), scope, at, hint, size)
            for one, part in zip(kinds, parts, strict=True)
        )
        made = self.one(OpKind.VECTOR, [("item", lane.name) for lane in lanes], at, value.kind)
        self.lanes[made.name] = lanes
        return made

    def _tried(self, operator: n.Expr, value: Val, at: n.Place) -> tuple[OpKind, ...]:
        """What an operator of the file does to two values: it is read with two that stand for any,
        and what was read is left out again."""
        names = dict(self.names)
        with self.block(), self.writer.region() as opened:
            sides = tuple(self.one(OpKind.UNDEF, (), at, value.kind) for _ in range(2))
            given = tuple(n.Name(at, self.key("side")) for _ in sides)
            for name, side in zip(given, sides, strict=True):
                self.bind(name.text, side)
            called = operator
            if not isinstance(operator, n.Name | n.Lambda):
                called = n.Name(at, self.key("operator"))
                slot = Slot(called.text, self.read(operator).kind)
                self.kinds[slot.key] = slot.kind
                self.names[slot.key] = self.one(OpKind.UNDEF, (), at, slot.kind)
                self.bind(called.text, slot)
            made = self.call(n.Call(at, called, given), "")
        self.names = names
        return combined(opened.ops, made.name, (sides[0].name, sides[1].name))

    def _reduced(
        self, kind: OpKind, value: Val, scope: str, at: n.Place, hint: str, size: str = ""
    ) -> Val:
        attributes: list[tuple[str, Literal]] = [("scope", scope)]
        if size:
            attributes.append(("threads", size))
        return self.one(kind, [("x", value.name)], at, value.kind, hint, attributes)

    def _field(self, node: n.Field, hint: str) -> Val:
        """A place in the grid or in the block that a group tells, else a field as anywhere."""
        called = node.operand.function if isinstance(node.operand, n.Call) else None
        if isinstance(called, n.Field) and called.name in _PLACES and node.name in "xyz":
            group = self.grouped(called.operand)
            if group is not None and group.scope in ("block", "grid"):
                return self.axis(INDICES[_PLACES[called.name]], "xyz".index(node.name), node.at)
        return super()._field(node, hint)

    def grouped(self, node: n.Expr) -> Group | None:
        """The cooperative group that an expression names or makes."""
        found = self.frame.find(node.text) if isinstance(node, n.Name) else None
        return found if isinstance(found, Group) else self.group(node)

    def group(self, node: n.Expr) -> Group | None:
        """The cooperative group that an expression makes."""
        if not isinstance(node, n.Call) or not isinstance(node.function, n.Name):
            return None
        last = node.function.text.rpartition("::")[2]
        if last in _GROUPS:
            return Group(_GROUPS[last])
        if last == "tiled_partition" and node.function.arguments:
            with self.writer.region():
                size = self.arguments(node.function.arguments[:1], self.frame, 0)[0]
            width = size.const if isinstance(size, Val) and size.const is not None else ""
            return Group("warp" if width == 32 else "tile", str(width))
        return Group("tile") if last in _PARTED and len(node.arguments) == 2 else None

    def divided_into(self, group: Group, at: n.Place, hint: str) -> None:
        """Say where a block is divided into groups of so many threads."""
        if group.size:
            attributes: list[tuple[str, Literal]] = [("scope", group.scope)]
            attributes.append(("threads", group.size))
            self.one(OpKind.THREAD_GROUP, (), at, UNKNOWN, hint, attributes)

    def _group_method(self, node: n.Call, group: Group, name: str, hint: str) -> Val:
        attributes: list[tuple[str, Literal]] = [("scope", group.scope)]
        if name == "sync":
            self.writer.emit(OpKind.BARRIER, (), node.at, (), attributes)
            return Val("")
        if name in _SPLIT:
            values = [self.read(one).name for one in node.arguments]
            operands = [("read", value) for value in values if value]
            self.writer.emit(_SPLIT[name], operands, node.at, (), attributes)
            return Val("")
        if name == "map_shared_rank" and len(node.arguments) == len(("address", "rank")):
            return self._of_other(node, group, hint)
        if name in ("thread_rank", "block_rank") and group.scope == "grid":
            return self._in_grid(name, node.at, hint)
        if name in _BY_CLUSTER and group.scope in ("grid", "cluster"):
            return self._by_cluster(name, group.scope, node.at, hint)
        if name in ("thread_rank", "meta_group_rank"):
            attributes.append(("name", name))
            narrow = name == "thread_rank" and group.scope in ("warp", "tile")
            kind = OpKind.LANE_ID if narrow else OpKind.THREAD_ID
            kind = OpKind.WARP_ID if name == "meta_group_rank" else kind
            return self.one(kind, (), node.at, Kind("u32"), hint, attributes)
        if name in ("size", "num_threads") and group.size.isdigit():
            return self.constant(int(group.size), node.at, INT, hint)
        if name in ("size", "num_threads") and group.scope == "block":
            return self._threads(node.at, hint)
        if name in ("size", "num_threads", "num_blocks") and group.scope == "grid":
            blocks = self.axis(OpKind.NUM_BLOCKS, 0, node.at)
            if name == "num_blocks":
                return blocks
            threads = self.axis(OpKind.BLOCK_THREADS, 0, node.at)
            operands = [("lhs", blocks.name), ("rhs", threads.name)]
            return self.one(OpKind.MUL, operands, node.at, Kind("u32"), hint)
        if name in ("size", "num_threads") and group.scope == "cluster":
            blocks = self.one(OpKind.CLUSTER_BLOCKS, (), node.at, Kind("u32"))
            operands = [("lhs", blocks.name), ("rhs", self._threads(node.at).name)]
            return self.one(OpKind.MUL, operands, node.at, Kind("u32"), hint)
        if name == "meta_group_size" and group.size.isdigit():
            size = self.constant(int(group.size), node.at, Kind("u32"))
            operands = [("lhs", self._threads(node.at).name), ("rhs", size.name)]
            return self.one(OpKind.FLOOR_DIV, operands, node.at, Kind("u32"), hint)
        if name in ("shfl_xor", "shfl_down", "shfl_up", "shfl") and len(node.arguments) == 2:
            value, lane = (self.read(argument) for argument in node.arguments)
            mode = {"shfl": "index"}.get(name, name.removeprefix("shfl_"))
            operands = [("x", value.name), ("lane", lane.name)]
            attributes.append(("mode", mode))
            return self.one(OpKind.SHUFFLE, operands, node.at, value.kind, hint, attributes)
        return self.opaque(f"{group.scope} group .{name}", node.arguments, node.at, hint)

    def _of_other(self, node: n.Call, group: Group, hint: str) -> Val:
        """Where an array of this block lies in the shared memory of another one: nothing tells
        which elements of which block that are."""
        given = [self.read(one) for one in node.arguments]
        operands = [("read", one.name) for one in given if one.name]
        what = [("what", f"{group.scope} group .map_shared_rank")]
        of = UNKNOWN
        if given[0].kind.to is not None:
            of = replace(given[0].kind, space=MemorySpace.SHARED)
        return self.one(OpKind.OPAQUE, operands, node.at, of, hint, what)

    def _in_grid(self, name: str, at: n.Place, hint: str) -> Val:
        """The number of a block or of a thread among all of a grid of one axis."""
        block = self.axis(OpKind.BLOCK_ID, 0, at)
        if name == "block_rank":
            return block
        operands = [("lhs", block.name), ("rhs", self.axis(OpKind.BLOCK_THREADS, 0, at).name)]
        before = self.one(OpKind.MUL, operands, at, Kind("u32"))
        thread = self.axis(OpKind.THREAD_ID, 0, at)
        operands = [("lhs", before.name), ("rhs", thread.name)]
        return self.one(OpKind.ADD, operands, at, Kind("u32"), hint)

    def _by_cluster(self, name: str, scope: str, at: n.Place, hint: str) -> Val:
        """The number of a block in its cluster, or how many there are; the number of a cluster in a
        grid of one axis, or how many there are."""
        if scope == "cluster":
            return self.one(_BY_CLUSTER[name], (), at, Kind("u32"), hint)
        blocks = self.axis(_BY_CLUSTER[name], 0, at)
        each = self.one(OpKind.CLUSTER_BLOCKS, (), at, Kind("u32"))
        operands = [("lhs", blocks.name), ("rhs", each.name)]
        return self.one(OpKind.FLOOR_DIV, operands, at, Kind("u32"), hint)

    def _threads(self, at: n.Place, hint: str = "") -> Val:
        """Threads of the block, along all its axes."""
        count = self.axis(OpKind.BLOCK_THREADS, 0, at)
        for axis in (1, 2):
            more = self.axis(OpKind.BLOCK_THREADS, axis, at)
            operands = [("lhs", count.name), ("rhs", more.name)]
            count = self.one(OpKind.MUL, operands, at, Kind("u32"), hint)
        return count

    def collected(self, node: n.Call, function: n.Field, hint: str) -> Val | None:
        """A method of CUB's collectives, with where its class got the name it goes by; None when
        it is none."""
        named = self._named_type(function.operand)
        before = len(self.writer.current.ops)
        made = self._collected(node, function, named, hint)
        if named is not None and named.at is not None:
            self.writer.declare_since(before, named.at)
        return made

    def _collected(
        self, node: n.Call, function: n.Field, named: Named | None, hint: str
    ) -> Val | None:
        if named is not None:
            moved = block_move(self, node, function.name, named.type, self._named_kind(named))
            if moved is not None:
                return moved
        name = self._collective(function.operand) or ""
        kind = COLLECTIVES.get((name, function.name))
        if kind is None or not node.arguments:
            return None
        scope = "block" if name.startswith("Block") else "warp"
        if kind is OpKind.SORT:
            return self._sorted(node, scope)
        value = self.read(node.arguments[0])
        if kind is OpKind.REDUCE and len(node.arguments) > 1:
            return self._by(node.arguments[1], value, scope, node.at, hint)
        if len(node.arguments) == 1 or kind not in (OpKind.CUMSUM, OpKind.SCAN):
            return self._reduced(kind, value, scope, node.at, hint)
        if kind is OpKind.CUMSUM:
            return self._scanned(node, value, scope)
        return self._combined_so_far(node, value, scope, hint)

    def _combined_so_far(self, node: n.Call, value: Val, scope: str, hint: str) -> Val | None:
        """What all threads up to each have, combined by an operator that is written behind the
        second argument, or behind a first value; what comes last besides is not known."""
        target, rest = self.place(node.arguments[1]), node.arguments[2:]
        first = len(rest) > 1 and isinstance(rest[0], n.Constant)
        operator, more = rest[first : first + 1], rest[first + 1 :]
        if target is None or not operator:
            return None
        kind = OpKind.CUMSUM if self._combiner(operator[0]) is OpKind.REDUCE_SUM else OpKind.SCAN
        self.store(target, self._reduced(kind, value, scope, node.at, hint), node.at)
        return self.opaque(".prefix", more, node.at, hint) if more else Val("")

    def _scanned(self, node: n.Call, value: Val, scope: str) -> Val | None:
        """Sums up to each thread, put into the second argument; the sum of all into the third."""
        targets = [self.place(one) for one in node.arguments[1:]]
        if len(targets) > 2:
            return None
        for kind, target in zip((OpKind.CUMSUM, OpKind.REDUCE_SUM), targets, strict=False):
            if target is None:
                return None
            self.store(target, self._reduced(kind, value, scope, node.at, ""), node.at)
        return Val("")

    def _sorted(self, node: n.Call, scope: str) -> Val | None:
        """Keys that the threads hold, put in order where they lie; values next to them go along."""
        places = [self.place(one) for one in node.arguments[:2]]
        arrays = [one for one in places if isinstance(one, Slot) and one.kind.shape]
        if not arrays or arrays[0] is not places[0]:
            return None
        held = [self.load(one, node.at).name for one in arrays]
        operands = [("x", held[0]), *(("payload", name) for name in held[1:])]
        results = [("", one.kind) for one in arrays]
        attributes: list[tuple[str, Literal]] = [("scope", scope)]
        made = self.writer.emit(OpKind.SORT, operands, node.at, results, attributes)
        for one, name in zip(arrays, made, strict=True):
            self.store(one, Val(name, one.kind), node.at)
        return Val("")

    def _collective(self, node: n.Expr) -> str | None:
        """`BlockReduce(storage)` by its class, through aliases."""
        named = self._named_type(node)
        if named is None:
            return None
        return (self._named_kind(named).record or named.type.name).rpartition("::")[2]

    def _named_kind(self, named: Named) -> Kind:
        return self.kind(named.type, named.frame)

    def _named_type(self, node: n.Expr) -> Named | None:
        """The class of an object that is made where it is used, by its name or by an alias."""
        if isinstance(node, n.Call) and isinstance(node.function, n.Name):
            found = self.frame.find(node.function.text)
            written = n.CType(node.function.text, node.function.arguments)
        elif isinstance(node, n.Braces) and node.type is not None:
            found, written = self.frame.find(node.type.name), node.type
        else:
            return None
        return found if isinstance(found, Named) else Named(written, self.frame)
