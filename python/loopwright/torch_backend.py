"""Door two: `torch.compile(backend="loopwright")`. Dynamo and AOTAutograd give graphs of ATen ops, forward and backward; what the op
table covers becomes generated kernels, what it does not runs in PyTorch within the same call."""
import functools
import logging
from dataclasses import dataclass, field

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from . import _core, _errors, aten, database, keeping
from .accuracy import check, choose
from .lowering import Lowering, is_bookkeeping, source_line
from .report import Compilation, Made, Piece
from .tracing import DEFAULT_RANGE, first_line

log = logging.getLogger("loopwright")
MAX_PROGRAMS = 8
MOST_ROWS = 2**24  # of a product of sizes
_warned = set()


@dataclass
class Settings:
    """Where kernels come from, and what was made of them."""

    databases: list
    on_miss: str
    accuracy: str | None = None  # as accuracy.choose takes it
    by_graph: bool = False  # calls may be launched as CUDA graphs
    compilation: Compilation = field(default_factory=Compilation)


def backend(module, example_inputs, **keywords):
    """The backend. `options={"db": path or paths, "on_miss": "jit" | "default" | "strict", "accuracy": "strict" | "tf32"}`;
    without an accuracy what PyTorch is set to when the graph is compiled. `mode="reduce-overhead"` as in `loopwright.compile`."""
    options = dict(keywords.get("options") or {})
    unknown = set(options) - {"db", "on_miss", "accuracy"}
    if unknown or set(keywords) - {"options", "mode"}:
        raise _errors.make("bad_argument", f"bad_argument: torch.compile options {sorted(unknown)}\n  works: db, on_miss and accuracy")
    return compile_dynamo(module, example_inputs, Settings(
        database.list_paths(options.get("db")), options.get("on_miss", "jit"), check(options.get("accuracy")),
        keywords.get("mode") == "reduce-overhead"))


@functools.cache
def find_decompositions():
    """Making this table takes PyTorch 50 ms."""
    table = dict(torch._decomp.core_aten_decompositions())
    # What it gives in the place of the logarithms of sums is something else: gradients made of it are wrong.
    del table[torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default]
    return table


def compile_dynamo(module, example_inputs, settings):
    """A graph of Dynamo as a function with forward and backward."""
    on_cuda = choose(settings.accuracy, "cuda")  # now: backward is compiled later

    def compile_as(kind):
        return lambda graph, inputs: compile_aten(graph, settings, kind, on_cuda)

    settings.compilation.note(torch._guards.CompileContext.current_compile_id())
    made = aot_autograd(fw_compiler=compile_as("forward"), bw_compiler=compile_as("backward"),
                        inference_compiler=compile_as("inference"), decompositions=find_decompositions(),
                        keep_inference_input_mutations=True,
                        partition_fn=min_cut_rematerialization_partition)(module, example_inputs)

    def call(*arguments):
        return made(*arguments)

    call.compilation = settings.compilation  # `explain` finds it as long as the function lives
    return call


def compile_aten(graph, settings, kind, on_cuda):
    """A boxed function that computes an FX graph of ATen ops. `kind`: forward, backward or inference. `on_cuda`: the accuracy
    there."""
    piece = Piece(kind)
    settings.compilation.pieces.append(piece)
    part = Part(graph, settings, on_cuda)
    failures = part.find_failures()
    if not failures and not part.is_trivial():
        piece.parts.append(part)
        return box(part)
    warn(failures)
    return box(split(graph, failures, settings, piece, on_cuda))


def box(function):
    def run(arguments):
        values = tuple(arguments)
        arguments.clear()
        return function(*values)

    run._boxed_call = True
    return run


def warn(failures):
    """One line for each op that runs in PyTorch, once in a process."""
    for node, reason in failures.items():
        if node.op != "output" and str(node.target) not in _warned:
            _warned.add(str(node.target))
            log.warning("%s runs in PyTorch: %s (%s)", node.target, reason, source_line(node) or "no source line")


class _Covered(OperatorSupportBase):
    def __init__(self, failures):
        self.failures = failures

    def is_node_supported(self, submodules, node):
        return node.op == "call_function" and origin_of(node) not in self.failures and not isinstance(
            node.meta.get("val"), (torch.SymInt, torch.SymBool, torch.SymFloat)) and str(node.target) != "aten.copy_.default"


def split(graph, failures, settings, piece, on_cuda):
    """The graph with each part that is covered replaced by its kernels; `piece` learns of both."""
    def note_others(nodes, reasons, of_all="nothing beside it becomes a kernel"):
        for node in nodes:
            if node.op == "call_function" and not is_bookkeeping(node):
                piece.others.append((str(node.target), reasons.get(origin_of(node), of_all), source_line(node)))

    for node in graph.graph.nodes:  # the partitioner works on copies, which keep this
        node.meta["origin"] = node.name
    reasons = {node.name: reason for node, reason in failures.items()}
    children = {}
    while reasons:
        partitioner = CapabilityBasedPartitioner(graph, _Covered(reasons), allows_single_node_partition=False)
        fused = partitioner.partition_and_fuse()
        children = {name: Part(child, settings, on_cuda) for name, child in fused.named_children() if isinstance(child, torch.fx.GraphModule)}
        found = {origin_of(node): why for part in children.values() for node, why in part.find_failures().items() if node.op != "output"}
        if not found.keys() - reasons.keys():
            graph = fused
            break
        reasons.update(found)  # what can be computed of the whole graph may lack a size in a part
    for name, part in children.items():
        if (failed := part.find_failures()) or part.is_trivial():
            of_all = next((f"beside ops that cannot be kernels: {why}" for why in failed.values()), "nothing is computed")
            note_others(part.graph.graph.nodes, {origin_of(n): why for n, why in failed.items()}, of_all)
            continue
        piece.parts.append(part)
        setattr(graph, name, _PartModule(part, isinstance(part.results, torch.fx.Node)))
    note_others(graph.graph.nodes, reasons)
    return graph


def origin_of(node):
    return node.meta.get("origin", node.name)


class _PartModule(torch.nn.Module):
    """A part in a split graph: one result itself, several as a tuple."""

    def __init__(self, part, single):
        super().__init__()
        self.part, self.single = part, single

    def forward(self, *arguments):
        results = self.part(*arguments)
        return results[0] if self.single else results


def find_base(term):
    """The value that a chain of views starts from, and functions from that tensor to the view."""
    if term.transpose_of is not None:
        base, views = find_base(term.transpose_of)
        return base, [*views, lambda tensor: tensor.transpose(-2, -1)]
    if term.rows_of is not None:
        base, views = find_base(term.rows_of)
        return base, [*views, lambda tensor: tensor.flatten(0, -2)]
    return term, []


def make_views(results, views):
    made = []
    for result, steps in zip(results, views):
        for step in steps:
            result = step(result)
        made.append(result)
    return tuple(made)


@functools.cache
def one_element(device):
    return torch.zeros(1, dtype=torch.bool, device=device)


class Part:
    """One FX graph as kernels. Programs are made for the strides that arrive; what cannot be served runs in PyTorch."""

    def __init__(self, graph, settings, on_cuda):
        self.graph, self.settings, self.on_cuda = graph, settings, on_cuda
        self.inputs = [n for n in graph.graph.nodes if n.op == "placeholder"]
        self.constants = {n: functools.reduce(getattr, n.target.split("."), graph) for n in graph.graph.nodes if n.op == "get_attr"}
        output = next(n for n in graph.graph.nodes if n.op == "output")
        self.results = output.args[0]
        self.carriers = self._find_carriers()
        names = tuple(f"a{i}" for i in range(len(self.inputs) + len(self.carriers)))
        self.made, self.trouble = [], ""  # Made; why calls run in PyTorch
        self.broken, self.computes = False, True
        self.call = _core.Call(names, (...,) * len(names), self, 0, settings.by_graph)

    def __call__(self, *arguments):
        if not self.broken:
            try:
                if self.carriers:
                    return self.call(*arguments, *(one_element(device).expand(arguments[place]) for place, _, device in self.carriers))
                return self.call(*arguments)
            except (_errors.ArgumentError, _errors.Unsupported, _errors.NotFound, _errors.GraphError, aten.Uncovered) as error:
                self.broken, self.trouble = not self.made, str(error)
                if str(self.graph) not in _warned:
                    _warned.add(str(self.graph))
                    log.warning("a part runs in PyTorch: %s", error)
        return self.graph(*arguments)

    def is_trivial(self):
        """Whether nothing would be computed: every result is an argument. After find_failures."""
        return not self.computes

    def find_failures(self):
        """FX node -> why it is not covered."""
        failures = {}
        try:
            self._lower(None, failures)
        except (_errors.Error, aten.Uncovered) as error:
            node = getattr(error, "node", None) or next(n for n in self.graph.graph.nodes if n.op == "output")
            failures.setdefault(node, first_line(error))
        return failures

    def _find_carriers(self):
        """(position of a number, its symbol, device): sizes that no tensor has. A call gives one element that is repeated so often."""
        values = [n.meta.get("val") for n in self.graph.graph.nodes]
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        numbers = {n.meta["val"].node.expr: i for i, n in enumerate(self.inputs) if isinstance(n.meta.get("val"), torch.SymInt)}
        sizes = {size.node.expr: size for v in tensors for size in v.shape if isinstance(size, torch.SymInt)}.values()
        carriers = []
        while tensors and numbers:
            lowering, missing = Lowering("", *self._name_symbols(carriers)), set()
            for size in sizes:
                try:
                    lowering.size(size)
                except aten.Uncovered:
                    missing |= size.node.expr.free_symbols
            if not (found := [s for s in missing if s in numbers and s not in lowering.symbols]):
                break
            carriers += [(numbers[s], s, tensors[0].device) for s in sorted(found, key=str)]
        return carriers

    def _lower(self, values, failures):
        """(graph, sources, results, device); `values` are the tensors whose strides count; None only asks what is covered."""
        lowering = Lowering("torch_compile", *self._name_symbols(self.carriers))
        sources, devices = [], set()
        for i, node in enumerate(self.inputs):
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor):
                continue
            real = value if values is None else values[i]
            dense = values is None or real.is_contiguous()  # what is covered does not depend on strides
            strides = None if dense else self._find_strides(value, real, values)
            lowering.terms[node] = lowering.input(lowering.new_name(node.name), value, dense, strides)
            sources.append(i)
            devices.add(real.device)
        for i, (_, symbol, device) in enumerate(self.carriers):
            lowering.carry(symbol)
            sources.append(len(self.inputs) + i)
            devices.add(device)
        for node, value in self.constants.items():
            if isinstance(value, torch.Tensor):
                lowering.terms[node] = lowering.input(lowering.new_name(node.name), value, value.is_contiguous())
                sources.append((value,))
                devices.add(value.device)
        if len(devices) > 1:
            raise _errors.make("unsupported", f"unsupported: tensors on {sorted(map(str, devices))}")
        self._lower_nodes(lowering, failures)
        if failures:
            return None
        if not sources:
            raise _errors.make("unsupported", "unsupported: a part without a tensor to compute from")
        returned = self._describe_results(lowering)
        self.computes = bool(lowering.tails)
        device = devices.pop() if devices else torch.device("cpu")
        place = "cpu" if device.type == "cpu" else f"{device.type}:{device.index or 0}"
        lowering.accuracy = self.on_cuda if device.type == "cuda" else choose(self.settings.accuracy, place)
        return lowering.finish(), sources, returned, place

    def _lower_nodes(self, lowering, failures):
        for node in self.graph.graph.nodes:
            if node.op == "get_attr" and node not in lowering.terms:
                failures[node] = "a constant that is no tensor"
            if node.op != "call_function":
                continue
            try:
                if str(node.target) == "aten.copy_.default":
                    target, source = node.args[0], lowering.resolve(node.args[1])
                    lowering.update(lowering.terms[target], source)
                    lowering.terms[node] = source
                else:
                    lowering.lower(node)
            except aten.Uncovered as reason:
                failures[node] = str(reason)
                self._stand_in(lowering, node)

    @staticmethod
    def _stand_in(lowering, node):
        """What an op that is not covered gives: given, so that what follows can be looked at."""
        value = node.meta.get("val")
        try:
            terms = [lowering.input(lowering.new_name(node.name), v, True) if isinstance(v, torch.Tensor) else None
                     for v in (value if isinstance(value, (list, tuple)) else [value])]
        except (_errors.Error, aten.Uncovered):
            return
        if isinstance(value, (list, tuple)):
            lowering.terms[node] = terms
        elif terms[0] is not None:
            lowering.terms[node] = terms[0]

    def _name_symbols(self, carriers):
        """Names of symbols, and of products of those that stand alone nowhere (rows of flattened batches), and their ranges."""
        import sympy

        words, ranges = {}, {}

        def add(expression, of, most):
            if expression not in words:
                words[expression] = f"n{len(words)}"
                bounds = of.node.shape_env.bound_sympy(expression)
                hi = min(int(bounds.upper), most) if bounds.upper.is_Integer else most
                lo = max(int(bounds.lower), 0) if bounds.lower.is_Integer else 0
                ranges[words[expression]] = (lo, hi)

        sizes = [size for node in self.inputs if isinstance(node.meta.get("val"), torch.Tensor)
                 for size in node.meta["val"].shape if isinstance(size, torch.SymInt)]
        for size in sizes:
            if size.node.expr.is_Symbol:
                add(size.node.expr, size, DEFAULT_RANGE[1])
        for place, symbol, _ in carriers:
            add(symbol, self.inputs[place].meta["val"], DEFAULT_RANGE[1])
        for size in sizes:
            expression, factors = size.node.expr, size.node.expr.free_symbols
            if expression.is_Mul and not factors & words.keys() and all(f.is_Symbol or f.is_Integer for f in expression.args):
                add(sympy.Mul(*factors), size, MOST_ROWS)
        return words, ranges

    def _find_strides(self, example, real, values):
        """Strides of `real` in the symbols, so that a program serves other sizes too: those that were traced, or those of dense
        memory in another order of dimensions. Numbers where neither is so."""
        found = real.stride()
        known = {size.node.expr: n for node, value in zip(self.inputs, values) if isinstance(value, torch.Tensor)
                 for size, n in zip(node.meta["val"].shape, value.shape) if isinstance(size, torch.SymInt)}
        known |= {symbol: int(values[place]) for place, symbol, _ in self.carriers}
        at = lambda size: int(size.node.expr.subs(known)) if isinstance(size, torch.SymInt) else int(size)  # noqa: E731
        order, step, dense = sorted(range(real.dim()), key=lambda d: (found[d], real.shape[d])), 1, [0] * real.dim()
        for d in order:
            dense[d], step = step, step * example.shape[d]
        for strides in (example.stride(), dense):
            try:
                if [at(s) for s in strides] == list(found):
                    return strides
            except TypeError:  # a symbol that no tensor's sizes name
                continue
        return found

    def _read_sizes(self, values):
        """Name of a symbol -> its value in a call."""
        words, sizes = self._name_symbols(self.carriers)[0], {}
        for node, value in zip(self.inputs, values):
            example = node.meta.get("val")
            for size, found in zip(example.shape, value.shape) if isinstance(example, torch.Tensor) else ():
                if isinstance(size, torch.SymInt) and size.node.expr in words:
                    sizes[words[size.node.expr]] = found
        return sizes | {words[symbol]: int(values[place]) for place, symbol, _ in self.carriers}

    def _describe_results(self, lowering):
        """What the kernels give and, where a result is a view of something, the views that PyTorch makes of it: no copy."""
        returned, places, views = [], {}, []
        written = {n.args[0] for n in self.graph.graph.nodes if str(n.target) == "aten.copy_.default"}
        arguments = {lowering.terms[n].name: i for i, n in enumerate(self.inputs) if n in lowering.terms and n not in written}
        for node in [self.results] if isinstance(self.results, torch.fx.Node) else self.results:
            views.append([])
            if not isinstance(node, torch.fx.Node):
                returned.append(("object", node))
            elif node in self.inputs:
                returned.append(("argument", self.inputs.index(node)))
            elif isinstance(node.meta.get("val"), torch.Tensor):
                base, views[-1] = find_base(lowering.terms[node])
                if base.name in arguments:
                    returned.append(("argument", arguments[base.name]))
                    continue
                term = lowering.fresh(base)
                if term.name not in places:
                    places[term.name] = len(places)
                    lowering.output(term)
                returned.append(("output", places[term.name]))
            else:
                raise _errors.make("unsupported", "unsupported: a result that is a computed number")
        return returned, (lambda results: make_views(results, views)) if any(views) else tuple

    def _miss(self, values, error, seen):
        if len(self.made) >= MAX_PROGRAMS:
            raise error
        failures = {}
        lowered = self._lower(values, failures)
        if lowered is None:
            raise _errors.make("unsupported", f"unsupported: {failures}")
        graph, sources, (returned, shaped), device = lowered
        plan = keeping.plan_graph(graph, self.settings.databases, self.settings.on_miss, device)
        self.call.add(plan, sources, [], [], returned, shaped)
        self.made.append(Made(graph, device, plan, self._read_sizes(values)))

    def _differentiate(self, values):
        raise _errors.refuse_gradients("a part of torch.compile", [n.name for n in self.inputs], values)

    def _refuse_copy(self):
        raise TypeError("kernels of torch.compile cannot be copied")
