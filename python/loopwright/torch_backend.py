"""Door two: `torch.compile(backend="loopwright")`. Dynamo and AOTAutograd give graphs of ATen ops, forward and backward; what the op
table covers becomes generated kernels, what it does not runs in PyTorch within the same call."""
import functools
import logging
from dataclasses import dataclass, field, replace

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from . import _core, _errors, aten, database, keeping
from .accuracy import check, choose
from .lowering import Lowering, source_line
from .tracing import DEFAULT_RANGE

log = logging.getLogger("loopwright")
MAX_PROGRAMS = 8
_warned = set()


@dataclass
class Settings:
    """Where kernels come from, and the parts that were made: (graph, device, plan)."""

    databases: list
    on_miss: str
    accuracy: str | None = None  # as accuracy.choose takes it
    on_cuda: str = "strict"  # what that was when Dynamo made the graph: backward is compiled later
    made: list = field(default_factory=list)


def backend(module, example_inputs, **keywords):
    """The backend. `options={"db": path or paths, "on_miss": "jit" | "default" | "strict", "accuracy": "strict" | "tf32"}`;
    without an accuracy what PyTorch is set to when the graph is compiled."""
    options = dict(keywords.get("options") or {})
    unknown = set(options) - {"db", "on_miss", "accuracy"}
    if unknown or set(keywords) - {"options", "mode"}:
        raise _errors.make("bad_argument", f"bad_argument: torch.compile options {sorted(unknown)}\n  works: db, on_miss and accuracy")
    return compile_dynamo(module, example_inputs, Settings(
        database.list_paths(options.get("db")), options.get("on_miss", "jit"), check(options.get("accuracy"))))


@functools.cache
def find_decompositions():
    """Making this table takes PyTorch 50 ms."""
    return dict(torch._decomp.core_aten_decompositions())


def compile_dynamo(module, example_inputs, settings):
    """A graph of Dynamo as a function with forward and backward."""
    settings = replace(settings, on_cuda=choose(settings.accuracy, "cuda"))
    compile_graph = lambda graph, inputs: compile_aten(graph, settings)  # noqa: E731
    return aot_autograd(fw_compiler=compile_graph, bw_compiler=compile_graph, inference_compiler=compile_graph,
                        decompositions=find_decompositions(), keep_inference_input_mutations=True,
                        partition_fn=min_cut_rematerialization_partition)(module, example_inputs)


def compile_aten(graph, settings):
    """A boxed function that computes an FX graph of ATen ops."""
    part = Part(graph, settings)
    failures = part.find_failures()
    if not failures and not part.is_trivial():
        return box(part)
    warn(failures)
    return box(split(graph, set(failures), settings))


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
        if str(node.target) not in _warned:
            _warned.add(str(node.target))
            log.warning("%s runs in PyTorch: %s (%s)", node.target, reason, source_line(node) or "no source line")


class _Covered(OperatorSupportBase):
    def __init__(self, failures):
        self.failures = failures

    def is_node_supported(self, submodules, node):
        return node.op == "call_function" and node not in self.failures and not isinstance(
            node.meta.get("val"), (torch.SymInt, torch.SymBool, torch.SymFloat)) and str(node.target) != "aten.copy_.default"


def split(graph, failures, settings):
    """The graph with each part that is covered replaced by its kernels."""
    if failures:
        graph = CapabilityBasedPartitioner(graph, _Covered(failures), allows_single_node_partition=False).partition_and_fuse()
        for name, child in list(graph.named_children()):
            if isinstance(child, torch.fx.GraphModule):
                part = Part(child, settings)
                if not part.find_failures() and not part.is_trivial():
                    single = isinstance(part.results, torch.fx.Node)
                    setattr(graph, name, _PartModule(part, single))
    return graph


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


class Part:
    """One FX graph as kernels. Programs are made for the strides that arrive; what cannot be served runs in PyTorch."""

    def __init__(self, graph, settings):
        self.graph, self.settings = graph, settings
        self.inputs = [n for n in graph.graph.nodes if n.op == "placeholder"]
        output = next(n for n in graph.graph.nodes if n.op == "output")
        self.results = output.args[0]
        names = tuple(f"a{i}" for i in range(len(self.inputs)))
        self.programs, self.broken, self.computes = 0, False, True
        self.call = _core.Call(names, (...,) * len(names), self)

    def __call__(self, *arguments):
        if not self.broken:
            try:
                return self.call(*arguments)
            except (_errors.ArgumentError, _errors.Unsupported, _errors.NotFound, _errors.GraphError) as error:
                self.broken = self.programs == 0
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
        except _errors.Error as error:
            failures.setdefault(next(n for n in self.graph.graph.nodes if n.op == "output"), str(error))
        return failures

    def _lower(self, values, failures):
        """(graph, sources, results, device); `values` are the tensors whose strides count; None only asks what is covered."""
        lowering = Lowering("torch_compile", *self._name_symbols())
        sources, devices = [], set()
        for i, node in enumerate(self.inputs):
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor):
                continue
            real = value if values is None else values[i]
            dense = values is None or real.is_contiguous()  # what is covered does not depend on strides
            lowering.terms[node] = lowering.input(lowering.new_name(node.name), value, dense, real.stride())
            sources.append(i)
            devices.add(real.device)
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
        lowering.accuracy = self.settings.on_cuda if device.type == "cuda" else choose(self.settings.accuracy, place)
        return lowering.finish(), sources, returned, place

    def _lower_nodes(self, lowering, failures):
        missing = set()
        for node in self.graph.graph.nodes:
            if node.op != "call_function":
                if node.op == "get_attr":
                    missing.add(node)
                    failures[node] = "a constant tensor"
                continue
            try:
                if any(a in missing for a in node.all_input_nodes):
                    missing.add(node)
                elif str(node.target) == "aten.copy_.default":
                    target, source = node.args[0], lowering.resolve(node.args[1])
                    lowering.update(lowering.terms[target], source)
                    lowering.terms[node] = source
                else:
                    lowering.lower(node)
            except aten.Uncovered as reason:
                missing.add(node)
                failures[node] = str(reason)

    def _name_symbols(self):
        import sympy

        words, ranges = {}, {}
        for node in self.inputs:
            value = node.meta.get("val")
            for size in value.shape if isinstance(value, torch.Tensor) else ():
                expression = size.node.expr if isinstance(size, torch.SymInt) else None
                if isinstance(expression, sympy.Symbol) and expression not in words:
                    words[expression] = f"n{len(words)}"
                    bounds = size.node.shape_env.bound_sympy(expression)
                    hi = min(int(bounds.upper), DEFAULT_RANGE[1]) if bounds.upper.is_Integer else DEFAULT_RANGE[1]
                    ranges[words[expression]] = (max(int(bounds.lower), 0), hi)
        return words, ranges

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
        if self.programs >= MAX_PROGRAMS:
            raise error
        failures = {}
        lowered = self._lower(values, failures)
        if lowered is None:
            raise _errors.make("unsupported", f"unsupported: {failures}")
        graph, sources, (returned, shaped), device = lowered
        plan = keeping.plan_graph(graph, self.settings.databases, self.settings.on_miss, device)
        self.call.add(plan, sources, [], [], returned, shaped)
        self.programs += 1
        self.settings.made.append((graph, device, plan))

    def _differentiate(self, values):
        raise _errors.refuse_gradients("a part of torch.compile", [n.name for n in self.inputs], values)

    def _refuse_copy(self):
        raise TypeError("kernels of torch.compile cannot be copied")
