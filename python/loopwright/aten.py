"""The op table: which ATen ops are covered, and what each becomes. `loopwright.coverage()` prints it.

Each entry is a function of (lowering, node, *arguments): tensors are Terms, the result's dtype and sizes are those of the
fake tensor in `node.meta["val"]`. ATen promotes dtypes; a graph never does, so promotion is written out as casts.
Pointwise ops are here, the others in aten_tensors.py, aten_indices.py, aten_reductions.py and aten_attention.py, all in one TABLE.
"""
import math


class Uncovered(Exception):
    """This op, or this use of it, has no translation; the message says why."""


class Row:
    """One entry: the ATen op, the function, and a remark for people."""

    __slots__ = ("name", "lower", "remark")

    def __init__(self, name, lower, remark):
        self.name, self.lower, self.remark = name, lower, remark


TABLE = {}
# Composites that export would take apart and a graph says better.
PRESERVED = ("linear.default", "matmul.default", "silu.default", "layer_norm.default", "rms_norm.default",
             "scaled_dot_product_attention.default")


HINTS = {"native_dropout": "dropout in training mode: call eval()", "bernoulli": "random numbers", "rand": "random numbers",
         "randn": "random numbers", "_local_scalar_dense": "item() or a branch on a tensor's value"}


def short_name(target):
    """Without the namespace that most ops are of."""
    return str(target).removeprefix("aten.")


def find(target):
    """The row of an op; raises Uncovered."""
    name = short_name(target)
    if name not in TABLE:
        raise Uncovered(HINTS.get(name.split(".")[0], "not in the op table"))
    return TABLE[name]


def covers(*names, remark=""):
    def register(function):
        for name in names:
            TABLE[name] = Row(name, function, remark)
        return function
    return register


# ---- dtypes, sizes, constants
def out_type(lw, node, index=None):
    from .lowering import DTYPES

    value = node.meta["val"] if index is None else node.meta["val"][index]
    if value.dtype not in DTYPES:
        raise Uncovered(f"dtype {value.dtype}")
    return DTYPES[value.dtype], lw.shape(value)


def is_term(x):
    return hasattr(x, "dtype") and hasattr(x, "shape")


def cast(lw, x, dtype):
    if x.dtype == dtype:
        return x
    if dtype == "bool":
        return lw.emit("ne", [x, "0"], "bool", x.shape)
    return lw.emit("cast", [x], dtype, x.shape, dtype=dtype)


def number(value, dtype):
    """A literal of that dtype."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype.startswith(("i", "u")):
        return str(int(value))
    value = float(value)
    return repr(value) if math.isfinite(value) else str(value)


def constant(lw, value, dtype):
    return lw.emit("constant", [number(value, dtype), dtype], dtype, [])


def operand(lw, x, dtype):
    """A tensor cast to the dtype, a number as a literal, a symbolic size as the sum of that many ones."""
    if is_term(x):
        return cast(lw, x, dtype)
    if hasattr(x, "text"):
        ones = lw.emit("broadcast", [constant(lw, 1, "i64")], "i64", [x.text], shape=[x.text])
        return cast(lw, lw.emit("sum", [ones], "i64", [], axes=[0]), dtype)
    return number(x, dtype)


def promoted(node, *positions):
    """The dtype that ATen computes these arguments in."""
    import torch

    from .lowering import DTYPES

    values = [a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in (node.args[p] for p in positions)]
    values = [v if isinstance(v, (torch.Tensor, bool, float)) else int(v) if isinstance(v, int) else 1 for v in values]
    return DTYPES[torch.result_type(*values)]


def reshaped(lw, x, shape):
    if list(shape) == list(x.shape):
        return x
    if x.rows_of is not None and list(shape) == list(x.rows_of.shape):
        return x.rows_of
    result = lw.emit("reshape", [x], x.dtype, shape, shape=shape)
    if len(shape) == 2 < x.rank and shape[-1] == x.shape[-1] != "0":  # of rows without elements there may be another number
        result.rows_of = x
    return result


def times(sizes):
    """The product of sizes as text."""
    return "*".join(s if s.isidentifier() or s.isdigit() else f"({s})" for s in sizes if s != "1") or "1"


def broadcast(lw, x, shape):
    if list(shape) == list(x.shape):
        return x
    return lw.emit("broadcast", [x], x.dtype, shape, shape=shape)


def all_literals(lw, operands, dtype):
    """Ops need one operand that tells the dtype."""
    if any(is_term(o) for o in operands):
        return operands
    return [lw.emit("constant", [operands[0], dtype], dtype, []), *operands[1:]]


def axes_of(dims, rank):
    if dims is None or dims == []:
        return list(range(rank))
    return [d % max(rank, 1) for d in ([dims] if isinstance(dims, int) else dims)]


# ---- pointwise
def unary(name, op=None):
    @covers(name)
    def lower(lw, node, x):
        dtype, shape = out_type(lw, node)
        return lw.emit(op or name.split(".")[0], [cast(lw, x, dtype)], dtype, shape)


for _name in ("neg", "abs", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tan",
              "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf", "sigmoid"):
    unary(f"{_name}.default")


@covers("sign.default")
def sign(lw, node, x):
    return x if x.dtype == "bool" else lw.emit("sign", [x], x.dtype, x.shape)




@covers("floor.default", "ceil.default", "round.default", "trunc.default")
def rounding(lw, node, x):
    if not x.dtype.startswith(("f", "bf")):
        return x
    return lw.emit(node.target._schema.name.split("::")[1], [x], x.dtype, x.shape)


@covers("isnan.default", "isinf.default")
def classify(lw, node, x):
    name = {"isnan": "is_nan", "isinf": "is_inf"}[node.target._schema.name.split("::")[1]]
    if not x.dtype.startswith(("f", "bf")):
        return lw.emit("ne", [cast(lw, x, "u8") if x.dtype == "bool" else x] * 2, "bool", x.shape)
    return lw.emit(name, [x], "bool", x.shape)


@covers("relu.default")
def relu(lw, node, x):
    return lw.emit("max", [x, "0"], x.dtype, x.shape)


@covers("silu.default")
def silu(lw, node, x):
    return lw.emit("silu", [x], x.dtype, x.shape)


@covers("gelu.default", remark="none and tanh")
def gelu(lw, node, x, approximate="none"):
    return lw.emit("gelu_tanh" if approximate == "tanh" else "gelu", [x], x.dtype, x.shape)


@covers("leaky_relu.default")
def leaky_relu(lw, node, x, slope=0.01):
    below = lw.emit("mul", [x, number(slope, x.dtype)], x.dtype, x.shape)
    return lw.emit("select", [lw.emit("gt", [x, "0"], "bool", x.shape), x, below], x.dtype, x.shape)


@covers("elu.default")
def elu(lw, node, x, alpha=1.0, scale=1.0, input_scale=1.0):
    dtype, shape = x.dtype, x.shape
    times = lambda t, factor: t if factor == 1 else lw.emit("mul", [t, number(factor, dtype)], dtype, shape)
    below = times(lw.emit("expm1", [times(x, input_scale)], dtype, shape), alpha * scale)
    return lw.emit("select", [lw.emit("gt", [x, "0"], "bool", shape), times(x, scale), below], dtype, shape)


def arithmetic(names, op, bool_op=None):
    @covers(*names, remark="alpha" if op in ("add", "sub") else "")
    def lower(lw, node, a, b, alpha=1):
        dtype, shape = out_type(lw, node)
        if dtype == "bool" and bool_op is None:
            raise Uncovered("of bool")
        left, right = operand(lw, a, dtype), operand(lw, b, dtype)
        if dtype == "bool":
            right = right if alpha else "false"
        elif alpha != 1:
            right = (lw.emit("mul", [right, number(alpha, dtype)], dtype, b.shape) if is_term(right)
                     else number(float(right) * alpha, dtype))
        return lw.emit(bool_op if dtype == "bool" else op, all_literals(lw, [left, right], dtype), dtype, shape)


arithmetic(("add.Tensor", "add.Scalar"), "add", "or")
arithmetic(("sub.Tensor", "sub.Scalar"), "sub")
arithmetic(("mul.Tensor", "mul.Scalar"), "mul", "and")
arithmetic(("div.Tensor", "div.Scalar"), "div")
arithmetic(("minimum.default",), "min", "and")
arithmetic(("maximum.default",), "max", "or")
arithmetic(("atan2.default",), "atan2")
arithmetic(("bitwise_and.Tensor", "bitwise_and.Scalar"), "and", "and")
arithmetic(("bitwise_or.Tensor", "bitwise_or.Scalar"), "or", "or")
arithmetic(("bitwise_xor.Tensor", "bitwise_xor.Scalar"), "xor", "xor")


@covers("fmod.Tensor", "fmod.Scalar")
def fmod(lw, node, a, b):
    dtype, shape = out_type(lw, node)
    operands = all_literals(lw, [operand(lw, a, dtype), operand(lw, b, dtype)], dtype)
    if not dtype.startswith(("i", "u")):
        return lw.emit("fmod", operands, dtype, shape)
    whole = lw.emit("mul", [lw.emit("div", operands, dtype, shape), operands[1]], dtype, shape)
    return lw.emit("sub", [operands[0], whole], dtype, shape)


@covers("rsub.Scalar", "rsub.Tensor")
def rsub(lw, node, a, b, alpha=1):
    return TABLE["sub.Tensor"].lower(lw, node, b, a) if alpha == 1 else _no("alpha")


def _no(what):
    raise Uncovered(what)


@covers("div.Tensor_mode", "div.Scalar_mode", "floor_divide.default", remark="floor on floats and trunc as div, then rounded")
def div_mode(lw, node, a, b, rounding_mode="floor"):
    dtype, shape = out_type(lw, node)
    wide = "f32" if dtype in ("bf16", "f16") and rounding_mode else dtype  # a quotient rounded to 8 bits may be the next whole number
    operands = all_literals(lw, [operand(lw, cast(lw, t, dtype) if is_term(t) else t, wide) for t in (a, b)], wide)
    if dtype.startswith(("i", "u")):
        return lw.emit({"floor": "floor_div", "trunc": "div"}[rounding_mode], operands, dtype, shape)
    quotient = lw.emit("div", operands, wide, shape)
    return quotient if rounding_mode is None else cast(lw, lw.emit(rounding_mode, [quotient], wide, shape), dtype)


@covers("remainder.Tensor", "remainder.Scalar")
def remainder(lw, node, a, b):
    dtype, shape = out_type(lw, node)
    left, right = all_literals(lw, [operand(lw, a, dtype), operand(lw, b, dtype)], dtype)
    if dtype.startswith(("i", "u")):
        return lw.emit("mod", [left, right], dtype, shape)
    rest = lw.emit("fmod", [left, right], dtype, shape)
    wrong = lw.emit("lt", [lw.emit("mul", [lw.emit("sign", [rest], dtype, shape), right], dtype, shape), "0"], "bool", shape)
    return lw.emit("select", [wrong, lw.emit("add", [rest, right], dtype, shape), rest], dtype, shape)


def comparison(op):
    @covers(f"{op}.Tensor", f"{op}.Scalar")
    def lower(lw, node, a, b):
        _, shape = out_type(lw, node)
        dtype = promoted(node, 0, 1)
        if dtype == "bool":
            dtype = "u8"
        return lw.emit(op, all_literals(lw, [operand(lw, a, dtype), operand(lw, b, dtype)], dtype), "bool", shape)


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    comparison(_name)


@covers("logical_and.default", "logical_or.default", "logical_xor.default")
def logical(lw, node, a, b):
    _, shape = out_type(lw, node)
    op = node.target._schema.name.split("_")[-1]
    return lw.emit(op, [cast(lw, a, "bool"), cast(lw, b, "bool")], "bool", shape)


@covers("logical_not.default")
def logical_not(lw, node, x):
    return lw.emit("logical_not", [cast(lw, x, "bool")], "bool", x.shape)


@covers("bitwise_not.default")
def bitwise_not(lw, node, x):
    return lw.emit("logical_not" if x.dtype == "bool" else "bit_not", [x], x.dtype, x.shape)


@covers("pow.Tensor_Scalar", remark="on integers: powers 1 to 4")
def pow_scalar(lw, node, x, exponent):
    dtype, shape = out_type(lw, node)
    x = cast(lw, x, dtype)
    if exponent in (1, 2, 3, 4):
        result = x
        for _ in range(int(exponent) - 1):
            result = lw.emit("mul", [result, x], dtype, shape)
        return result
    if not dtype.startswith(("f", "bf")):
        raise Uncovered(f"power {exponent} of {dtype}")
    named = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}.get(exponent)
    return lw.emit(named, [x], dtype, shape) if named else lw.emit("pow", [x, number(exponent, dtype)], dtype, shape)


@covers("pow.Tensor_Tensor", "pow.Scalar", remark="floats")
def pow_tensor(lw, node, x, exponent):
    dtype, shape = out_type(lw, node)
    if not dtype.startswith(("f", "bf")):
        raise Uncovered(f"of {dtype}")
    return lw.emit("pow", [operand(lw, x, dtype), operand(lw, exponent, dtype)], dtype, shape)


@covers("clamp.default", "clamp.Tensor", "hardtanh.default")
def clamp(lw, node, x, low=None, high=None):
    dtype, shape = out_type(lw, node)
    if str(node.target) == "aten.hardtanh.default":
        low, high = -1.0 if low is None else low, 1.0 if high is None else high
    x = cast(lw, x, dtype)
    if low is not None:
        x = lw.emit("max", [x, operand(lw, low, dtype)], dtype, shape)
    return x if high is None else lw.emit("min", [x, operand(lw, high, dtype)], dtype, shape)


@covers("clamp_min.default")
def clamp_min(lw, node, x, low):
    return clamp(lw, node, x, low)


@covers("where.self", "where.ScalarOther", "where.ScalarSelf")
def where(lw, node, condition, a, b):
    dtype, shape = out_type(lw, node)
    operands = all_literals(lw, [operand(lw, a, dtype), operand(lw, b, dtype)], dtype)
    return lw.emit("select", [cast(lw, condition, "bool"), *operands], dtype, shape)


@covers("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(lw, node, x, mask, value):
    return lw.emit("select", [mask, operand(lw, value, x.dtype), x], x.dtype, out_type(lw, node)[1])


@covers("_to_copy.default", remark="dtype; not to another device")
def to_copy(lw, node, x, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    import torch

    source = node.args[0].meta["val"].device
    if device is not None and torch.device(device).type != source.type:
        raise Uncovered(f"a copy from {source} to {device}")
    return cast(lw, x, out_type(lw, node)[0])


@covers("prims.convert_element_type.default")
def convert(lw, node, x, dtype):
    return cast(lw, x, out_type(lw, node)[0])


@covers("clone.default", "alias.default", "detach.default", "contiguous.default", "lift_fresh_copy.default",
        "_conj.default")
def same(lw, node, x, **_):
    return x


@covers("copy.default")
def copy(lw, node, x, source, non_blocking=False):
    return broadcast(lw, cast(lw, source, x.dtype), x.shape)
