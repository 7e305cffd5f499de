"""From an FX graph of ATen ops to the text of a graph file: names, sizes, constants, errors. The ops are in aten.py."""
import math
import operator
import re

import torch

from . import _core, _errors, aten, aten_attention, aten_indices, aten_reductions, aten_tensors  # noqa: F401: they add rows

DTYPES = {torch.bool: "bool", torch.int8: "i8", torch.uint8: "u8", torch.int16: "i16", torch.int32: "i32",
          torch.int64: "i64", torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64"}
_RESERVED = {"graph", "symbol", "input", "output", "update", "in", "strides", "true", "false", "inf", "nan", *DTYPES.values()}
_SIZE_OPS = {operator.mul, operator.add, operator.sub, operator.floordiv, operator.mod, operator.neg, operator.ge,
             operator.le, operator.gt, operator.lt, operator.eq, operator.ne, operator.pow, math.ceil, math.floor}
# Statements about sizes and types that export leaves behind; `check_size_asserts` looks at what they claim.
_ASSERTS = {"aten._assert_scalar.default", "aten._assert_tensor_metadata.default",
            "aten.sym_constrain_range_for_size.default", "aten.sym_constrain_range.default"}


def is_bookkeeping(node):
    """Whether a node computes no tensor: sizes, claims about them, one of several results."""
    return (node.target is operator.getitem or node.target in _SIZE_OPS or str(node.target) in _ASSERTS
            or str(node.target).startswith("aten.sym_"))


class Term:
    """A value of the graph under construction: its name in the text, its dtype there, and its sizes as text. What torch wraps
    around products is looked through: `transpose_of` is the value of which this one is the transpose in the last two axes, `rows_of`
    the one of more axes whose rows (along the last) this one lists; or None."""

    __slots__ = ("name", "dtype", "shape", "transpose_of", "rows_of")

    def __init__(self, name, dtype, shape):
        self.name, self.dtype, self.shape = name, dtype, shape
        self.transpose_of = self.rows_of = None

    @property
    def rank(self):
        return len(self.shape)


class Size:
    """A number that depends on symbols."""

    __slots__ = ("text",)

    def __init__(self, text):
        self.text = text


def tracing_file():
    from . import tracing

    return tracing.__file__


def source_line(node):
    """`file.py:12: code` of the user's line that made a node, or an empty text."""
    trace = (node.meta.get("stack_trace") or "").strip().splitlines()
    for place, code in reversed(list(zip(trace, trace[1:] + [""]))):
        match = re.match(r'\s*File "(.+)", line (\d+), in', place)
        if match and "/torch/" not in match.group(1) and match.group(1) != tracing_file():
            return f"{match.group(1)}:{match.group(2)}: {code.strip()}"
    return ""


class Lowering:
    """Writes one graph. `symbols` maps sympy symbols, and products of some that have no name of their own, to names; `ranges` maps
    names to (lo, hi)."""

    def __init__(self, name, symbols, ranges):
        self.accuracy = "strict"
        self.name = re.sub(r"\W", "_", name) or "graph"
        self.symbols = symbols
        self.ranges = ranges
        self.lines = []
        self.tails = []
        self.taken = set(_RESERVED) | set(ranges)
        self.terms = {}
        self.inputs, self.copies = set(), {}
        self.node, self.wanted = None, "copy"  # what is being lowered, and the name its values should have
        self.lines_of = {}  # text line -> FX node, for errors of the parser

    # ---- names and sizes
    def new_name(self, wanted):
        base = re.sub(r"\W", "_", wanted) or "t"
        base = base if re.match(r"[A-Za-z_]", base) else "_" + base
        name, number = base, 1
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        return name

    def size(self, value):
        """Text of an int or SymInt."""
        if isinstance(value, Size):
            return value.text
        if not isinstance(value, torch.SymInt):
            return str(int(value))
        import sympy

        terms = []
        for term in sympy.Add.make_args(sympy.expand(value.node.expr)):
            factors, powers = [], term.as_powers_dict()
            for product in (s for s in self.symbols if not s.is_Symbol):
                while all(powers.get(s, 0) > 0 for s in product.args):
                    factors.append(self.symbols[product])
                    powers = (term := term / product).as_powers_dict()
            for base, power in powers.items():
                if not base.is_Symbol and not base.is_Integer or not power.is_Integer or power < 0:
                    raise aten.Uncovered(f"a size that is no polynomial of the symbols: {value.node.expr}")
                if base.is_Symbol and base not in self.symbols:
                    raise aten.Uncovered(f"a size that depends on data: {value.node.expr}")
                factors += [self.symbols[base] if base.is_Symbol else str(base)] * int(power)
            terms.append("*".join(factors) if factors else "1")
        return " + ".join(terms).replace("+ -", "- ")

    def shape(self, tensor):
        return [self.size(s) for s in tensor.shape]

    # ---- statements
    def input(self, name, tensor, dense, strides=None):
        """Declares an input; `tensor` is the fake tensor that tells dtype, sizes and, unless they are given, strides."""
        if tensor.dtype not in DTYPES:
            raise _errors.make("unsupported", f"unsupported: the tensor `{name}`: dtype {tensor.dtype}")
        dtype, shape = DTYPES[tensor.dtype], self.shape(tensor)
        strides = "" if dense else f" strides [{', '.join(self.size(s) for s in strides or tensor.stride())}]"
        self.lines.append(f"input {name}: {dtype}[{', '.join(shape)}]{strides}")
        self.inputs.add(name)
        return Term(name, dtype, shape)

    def carry(self, symbol):
        """An input of which nothing but the size counts: a symbol that no other tensor has."""
        name, word = self.new_name("size"), self.symbols[symbol]
        self.lines.append(f"input {name}: bool[{word}] strides [0]")
        self.inputs.add(name)

    def emit(self, op, operands, dtype, shape, /, **attributes):
        """One op; operands are Terms or literals as text."""
        name = self.new_name(self.wanted)
        words = [o.name if isinstance(o, Term) else o for o in operands]
        words += [f"{key}={self.literal(value)}" for key, value in attributes.items() if value is not None]
        self.lines_of[len(self.lines)] = self.node
        self.lines.append(f"{name} = {op}({', '.join(words)})")
        return Term(name, dtype, list(shape))

    def literal(self, value):
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(v if isinstance(v, str) else self.size(v) for v in value) + "]"
        if isinstance(value, float):
            return repr(value)
        return value if isinstance(value, str) else str(value)

    def fresh(self, term):
        """A value that is no input: an output has memory of its own."""
        if term.name not in self.inputs:
            return term
        if term.name not in self.copies:
            self.copies[term.name] = self.emit("copy", [term], term.dtype, term.shape)
        return self.copies[term.name]

    def output(self, term):
        self.tails.append(f"output {term.name}")

    def update(self, target, value):
        self.tails.append(f"update {target.name} = {value.name}")

    # ---- nodes
    def resolve(self, argument):
        """An FX argument with Terms for tensors and Sizes for numbers that are symbolic."""
        if isinstance(argument, torch.fx.Node):
            if argument in self.terms:
                return self.terms[argument]
            value = argument.meta.get("val")
            if isinstance(value, torch.SymInt):
                return Size(self.size(value))
            if isinstance(value, (int, float, bool)):
                return value
            raise aten.Uncovered("what it reads cannot be an input" if isinstance(value, torch.Tensor)
                                 else f"a value of type {type(value).__name__}")
        if isinstance(argument, (list, tuple)):
            return [self.resolve(a) for a in argument]
        if isinstance(argument, torch.SymInt):
            return Size(self.size(argument))
        return argument

    def lower(self, node):
        """Adds what a node computes. Raises aten.Uncovered."""
        if node.target is operator.getitem:
            if node.args[0] not in self.terms:
                raise aten.Uncovered("what it reads cannot be an input")
            self.terms[node] = self.terms[node.args[0]][node.args[1]]
            return
        if is_bookkeeping(node):
            return
        row = aten.find(node.target)
        self.node, self.wanted = node, node.name
        arguments = [self.resolve(a) for a in node.args]
        keywords = {k: self.resolve(v) for k, v in node.kwargs.items()}
        self.terms[node] = row.lower(self, node, *arguments, **keywords)

    def check_size_asserts(self, nodes):
        """What export claims of sizes beyond ranges cannot be checked at a call: such programs are refused."""
        for node in nodes:
            if str(node.target) != "aten._assert_scalar.default" or not isinstance(node.args[0], torch.fx.Node):
                continue
            claim = node.args[0].meta.get("val")
            expression = claim.node.expr if isinstance(claim, torch.SymBool) else None
            if expression is None or expression == True or _is_range(expression):  # noqa: E712: sympy's true
                continue
            raise _errors.make("unsupported", f"unsupported: trace {self.name}: it holds only where {expression}\n"
                                              f"  works: sizes without such a condition, or static ones")

    def finish(self):
        """The graph; parser errors name the user's line."""
        head = [f"graph {self.name}"] + ([f"accuracy {self.accuracy}"] if self.accuracy != "strict" else [])
        head += [f"symbol {name} in {lo}..{hi}" for name, (lo, hi) in self.ranges.items()]
        text = "\n".join(head + self.lines + self.tails) + "\n"
        try:
            return _core.Graph.parse(text, f"<traced {self.name}>")
        except _errors.GraphError as error:
            match = re.search(r"<traced [^>]*>:(\d+)", str(error))
            node = self.lines_of.get(int(match.group(1)) - len(head) - 1) if match else None
            if node is not None:
                error.args = (f"{error}\n  from {node.target} at {source_line(node)}",)
                error.node = node
            raise


def _is_range(expression):
    """A comparison of one symbol with a number, which the symbol's range states too."""
    return expression.is_Relational and len(expression.free_symbols) == 1 and {
        type(a).__name__ for a in expression.args} <= {"Symbol", "Integer", "One", "Zero", "NegativeOne"}
