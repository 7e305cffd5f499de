"""Tracing a function or module once: torch.export, then the graph, and what a later call must find unchanged."""
import inspect
import itertools
import types
import warnings

import torch

from . import _errors, aten
from .accuracy import choose
from .lowering import Lowering, source_line

PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device)
DEFAULT_RANGE = (1, 65536)


class Symbol:
    """A size that a call chooses: its name, or None for one that is made up, and its range (inclusive)."""

    __slots__ = ("name", "lo", "hi")

    def __init__(self, name, lo, hi):
        self.name, self.lo, self.hi = name, lo, hi


class Traced:
    """One traced graph: `graph`, and the arguments of `Call.add` behind the plan."""

    __slots__ = ("graph", "device", "sources", "guards", "constants", "returned", "unflatten", "key")


class _Root(torch.nn.Module):
    """Calls the target; the modules that it reaches are its submodules, so that their parameters are inputs."""

    def __init__(self, target, modules, arrange):
        super().__init__()
        self._target = (target,)  # in a tuple: a module must not be registered twice
        self._arrange = arrange
        for i, module in enumerate(modules):
            self.add_module(f"m{i}", module)

    def forward(self, *values):
        positional, named = self._arrange(values)
        return self._target[0](*positional, **named)


def as_forward(target):
    """A function whose frames are named `forward`: export keeps source lines of such frames only."""
    if not isinstance(target, types.FunctionType):
        return target
    twin = types.FunctionType(target.__code__.replace(co_name="forward"), target.__globals__, "forward", target.__defaults__,
                              target.__closure__)
    twin.__kwdefaults__ = target.__kwdefaults__
    return twin


def find_context(target):
    """Modules that the target reaches, and guards for what its code refers to from outside."""
    if isinstance(target, torch.nn.Module):
        return [target], []
    modules, guards = [], []
    owner = getattr(target, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        modules.append(owner)
    function = inspect.unwrap(getattr(target, "__func__", target))
    if not isinstance(function, types.FunctionType):
        return modules, guards
    seen = []
    for cell in function.__closure__ or ():
        try:
            seen.append((cell, None, cell.cell_contents))
        except ValueError:
            continue
    names = set(function.__code__.co_names) & set(function.__globals__)
    seen += [(function.__globals__, name, function.__globals__[name]) for name in sorted(names)]
    for place, key, value in seen:
        if isinstance(value, torch.nn.Module):
            modules.append(value)
        elif not isinstance(value, (torch.Tensor, *PLAIN)):
            continue
        guards.append((place, key, value))
    return list({id(m): m for m in modules}.values()), guards


def guard_modules(modules):
    """Submodules, training flags, absent parameters: what changes the meaning when it changes."""
    guards = []
    for root in modules:
        for module in root.modules():
            guards.append((module.__dict__, "training", module.training))
            guards += [(module._modules, name, child) for name, child in module._modules.items()]
            for entries in (module._parameters, module._buffers):
                guards += [(entries, name, None) for name, value in entries.items() if value is None]
            guards += [(module.__dict__, name, value) for name, value in module.__dict__.items()
                       if isinstance(value, (torch.Tensor, bool, int, float, str)) and name != "training"]
    return guards


def find_trained(target, values):
    """Where a tensor is that a gradient may have to flow to in a call of `target`: the position of a value, (dict, key) of what the
    target reaches, or (tensor,). None: gradients are disabled, or nothing requires one."""
    if not torch.is_grad_enabled():
        return None
    for position, value in enumerate(values):
        if isinstance(value, torch.Tensor) and value.requires_grad:
            return position
    modules, guards = find_context(target)
    for place, key, value in guards:
        if isinstance(value, torch.Tensor) and value.requires_grad:
            return (place, key) if key is not None else (value,)
    for module in itertools.chain.from_iterable(m.modules() for m in modules):
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter.requires_grad:
                return module._parameters, name
    return None


def example(value, symbols):
    """A tensor to trace with. Sizes 0 and 1 of symbolic dimensions become others, or tracing would fix them."""
    size = [max(2, min(s.hi, 3)) if (s := symbols.get(d)) and n < 2 else n for d, n in enumerate(value.shape)]
    if size == list(value.shape):
        return value.detach() if value.requires_grad else value
    order = sorted(range(value.dim()), key=lambda d: (value.stride(d), value.shape[d]))
    strides, step = [0] * value.dim(), 1
    for d in (range(value.dim() - 1, -1, -1) if value.is_contiguous() else order):
        strides[d], step = step, step * size[d]
    return torch.empty_strided(size, strides, dtype=value.dtype, device=value.device)


def export_dims(symbols):
    """torch.export's words for the symbols of one tensor; `made` keeps one Dim for each name."""
    def describe(value, of_value, made):
        if not isinstance(value, torch.Tensor):
            return None
        dims = {}
        for d in range(value.dim()):
            symbol = of_value.get(d)
            if symbol is None:
                dims[d] = torch.export.Dim.STATIC
            elif symbol.name is None:
                dims[d] = torch.export.Dim.AUTO
            else:
                dims[d] = made.setdefault(symbol.name, torch.export.Dim(symbol.name, min=symbol.lo, max=symbol.hi))
        return dims

    made = {}
    return lambda value, of_value: describe(value, of_value, made)


def run_export(target, modules, names, values, arrange, symbols):
    describe = export_dims(symbols)
    inputs = tuple(example(v, symbols.get(n, {})) if isinstance(v, torch.Tensor) else v for n, v in zip(names, values))
    dims = tuple(describe(v, symbols.get(n, {})) for n, v in zip(names, inputs))
    root = _Root(as_forward(target), modules, arrange)
    table = torch.export.default_decompositions()
    for name in aten.PRESERVED:
        packet, overload = name.split(".")
        table.pop(getattr(getattr(torch.ops.aten, packet), overload), None)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = torch.export.export(root, inputs, dynamic_shapes=(dims,), strict=False)
        except Exception as error:
            raise _errors.make("unsupported", f"unsupported: trace {name_of(target)}: {type(error).__name__}: {first_line(error)}") from error
        return program.run_decompositions(table)


def first_line(error):
    return str(error).strip().split("\n")[0]


def name_of(target):
    return getattr(target, "__name__", type(target).__name__)


def owner_of(root_modules, path):
    """The dict and key of a parameter or buffer by its qualified name below _Root."""
    first, *parts, last = path.split(".")
    module = root_modules[int(first[1:])]
    for part in parts:
        module = module._modules[part]
    return (module._parameters if last in module._parameters else module._buffers), last


def trace(target, names, values, arrange, symbols, accuracy=None):
    """Traces `target` at these values; `arrange` gives its positional and named arguments for them. `symbols`: name of a value ->
    dimension -> Symbol. `accuracy`: as `accuracy.choose` takes it. Raises Unsupported."""
    modules, guards = find_context(target)
    program = run_export(target, modules, names, values, arrange, symbols)
    kind = torch.export.graph_signature.InputKind
    specs = program.graph_signature.input_specs
    nodes = [n for n in program.graph.nodes if n.op == "placeholder"]
    users = [i for i, s in enumerate(specs) if s.kind == kind.USER_INPUT]
    if len(users) != len(names):
        raise _errors.make("unsupported", f"unsupported: trace {name_of(target)}: arguments that hold several values")
    argument_of = {i: k for k, i in enumerate(users)}
    lowering = Lowering(name_of(target), *name_symbols(nodes, argument_of, names, symbols, program.range_constraints))

    traced = Traced()
    traced.guards = guards + guard_modules(modules)
    traced.sources, traced.constants, devices = [], [], set()
    for i, (spec, node) in enumerate(zip(specs, nodes)):
        value = node.meta["val"]
        position = argument_of.get(i)
        if not isinstance(value, torch.Tensor):
            if position is not None:
                traced.constants.append((position, values[position]))
            continue
        if position is not None:
            source, name = position, names[position]
        elif spec.kind in (kind.PARAMETER, kind.BUFFER) and spec.target not in program.constants:
            source, name = owner_of(modules, spec.target), spec.target.split(".", 1)[-1]
        else:
            source, name = (program.constants.get(spec.target, program.state_dict.get(spec.target)),), spec.target
        real = values[position] if position is not None else source[0][source[1]] if len(source) == 2 else source[0]
        devices.add(real.device)
        traced.sources.append(source)
        lowering.terms[node] = lowering.input(lowering.new_name(name), value, real.is_contiguous())
    if not traced.sources:
        raise _errors.make("unsupported", f"unsupported: trace {name_of(target)}: no tensor among arguments, parameters and buffers")
    traced.guards += guard_ties(modules)
    if len(devices) > 1:
        raise _errors.make("unsupported", f"unsupported: trace {name_of(target)}: tensors on "
                                          f"{' and '.join(sorted(map(str, devices)))}\n  works: all on one device")
    device = devices.pop() if devices else torch.device("cpu")
    traced.device = "cpu" if device.type == "cpu" else f"{device.type}:{device.index or 0}"
    lowering.accuracy = choose(accuracy, traced.device)
    lower_all(lowering, program)
    traced.returned, traced.unflatten = describe_outputs(lowering, program, argument_of)
    traced.graph = lowering.finish()
    return traced


def name_symbols(nodes, argument_of, names, symbols, constraints):
    """(sympy symbol -> name, name -> (lo, hi)), from the sizes of the arguments."""
    import sympy

    words, ranges, made_up = {}, {}, 0
    for i, node in enumerate(nodes):
        if i not in argument_of or not isinstance(node.meta["val"], torch.Tensor):
            continue
        for d, size in enumerate(node.meta["val"].shape):
            expression = size.node.expr if isinstance(size, torch.SymInt) else None
            if not isinstance(expression, sympy.Symbol) or expression in words:
                continue
            symbol = symbols.get(names[argument_of[i]], {}).get(d) or Symbol(None, 2, DEFAULT_RANGE[1])
            name = symbol.name
            if name is None:
                name, made_up = f"n{made_up}", made_up + 1
            lo, hi = symbol.lo, symbol.hi
            bounds = constraints.get(expression)
            if bounds is not None and bounds.upper.is_Integer:
                hi = min(hi, int(bounds.upper))
            if bounds is not None and bounds.lower.is_Integer and int(bounds.lower) > 2:
                lo = max(lo, int(bounds.lower))
            words[expression], ranges[name] = name, (lo, hi)
    return words, ranges


def guard_ties(modules):
    """Parameters that are one tensor under several names must stay so."""
    places = {}
    for root in modules:
        for module in root.modules():
            for entries in (module._parameters, module._buffers):
                for name, value in entries.items():
                    if value is not None:
                        places.setdefault(id(value), {})[(id(entries), name)] = (entries, name, value)
    return [guard for group in places.values() if len(group) > 1 for guard in group.values()]


def lower_all(lowering, program):
    """Every op, or one error that lists all that are not covered with the user's lines."""
    calls = [n for n in program.graph.nodes if n.op == "call_function"]
    lowering.check_size_asserts(calls)
    failures, missing = [], set()
    for node in calls:
        if any(a in missing for a in node.all_input_nodes):
            missing.add(node)
            continue
        try:
            lowering.lower(node)
        except aten.Uncovered as reason:
            missing.add(node)
            failures.append(f"{node.target}: {reason}" + (f"\n    at {line}" if (line := source_line(node)) else ""))
    if failures:
        raise _errors.make("unsupported", f"unsupported: trace {lowering.name}: ops that are not covered:\n  "
                           + "\n  ".join(failures) + "\n  works: the ops of loopwright.coverage()")


def describe_outputs(lowering, program, argument_of):
    """Outputs and updates of the graph, and how a call's result is put together."""
    kind = torch.export.graph_signature.OutputKind
    placeholders = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    position = {n.name: i for i, n in enumerate(placeholders.values())}
    output = next(n for n in program.graph.nodes if n.op == "output")
    targets = {s.target: s.arg.name for s in program.graph_signature.input_specs if s.target is not None}
    written, returned, places = {}, [], {}
    for spec, node in zip(program.graph_signature.output_specs, output.args[0]):
        if spec.kind in (kind.BUFFER_MUTATION, kind.USER_INPUT_MUTATION):
            name = targets.get(spec.target, spec.target)
            lowering.update(lowering.terms[placeholders[name]], lowering.terms[node])
            written[node] = name
            continue
        if spec.kind != kind.USER_OUTPUT:
            raise _errors.make("unsupported", f"unsupported: trace {lowering.name}: an output of kind {spec.kind}")
        if not isinstance(node, torch.fx.Node):
            returned.append(("object", node))
        elif not isinstance(node.meta.get("val"), torch.Tensor):
            raise _errors.make("unsupported", f"unsupported: trace {lowering.name}: a result that is no tensor: {node}")
        elif node.op == "placeholder" or node in written:
            name = written.get(node, node.name)
            if position[name] not in argument_of:
                raise _errors.make("unsupported", f"unsupported: trace {lowering.name}: a parameter as a result")
            returned.append(("argument", argument_of[position[name]]))
        else:
            term = lowering.fresh(lowering.terms[node])
            if term.name not in places:
                places[term.name] = len(places)
                lowering.output(term)
            returned.append(("output", places[term.name]))
    return returned, unflatten_of(program.call_spec.out_spec, len(returned))


def unflatten_of(spec, count):
    """None for one tensor, `tuple`, or a function of the flat results."""
    if spec.is_leaf() if callable(getattr(spec, "is_leaf", None)) else spec.num_children == 0 and count == 1:
        return None
    if spec.type is tuple and spec.num_leaves == spec.num_children:
        return tuple
    return lambda flat: torch.utils._pytree.tree_unflatten(list(flat), spec)
