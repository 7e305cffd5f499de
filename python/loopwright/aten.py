"""The op table: which ATen ops are covered, and what each becomes. `loopwright.coverage()` prints it.

Each entry is a function of (lowering, node, *arguments): tensors are Terms, the result's dtype and sizes are those of the
fake tensor in `node.meta["val"]`. ATen promotes dtypes; a graph never does, so promotion is written out as casts.
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


def find(target):
    """The row of an op; raises Uncovered."""
    name = str(target).removeprefix("aten.")
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
    return x if list(shape) == list(x.shape) else lw.emit("reshape", [x], x.dtype, shape, shape=shape)


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
unary("sign.default")


@covers("floor.default", "ceil.default", "round.default", "trunc.default")
def rounding(lw, node, x):
    if not x.dtype.startswith(("f", "bf")):
        return x
    return lw.emit(node.target._schema.name.split("::")[1], [x], x.dtype, x.shape)


@covers("isnan.default", "isinf.default")
def classify(lw, node, x):
    name = {"isnan": "is_nan", "isinf": "is_inf"}[node.target._schema.name.split("::")[1]]
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


def arithmetic(names, op, bool_op=None):
    @covers(*names, remark="alpha" if op in ("add", "sub") else "")
    def lower(lw, node, a, b, alpha=1):
        dtype, shape = out_type(lw, node)
        if dtype == "bool" and bool_op is None:
            raise Uncovered("of bool")
        left, right = operand(lw, a, dtype), operand(lw, b, dtype)
        if alpha != 1:
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
arithmetic(("fmod.Tensor", "fmod.Scalar"), "fmod")
arithmetic(("bitwise_and.Tensor", "bitwise_and.Scalar"), "and", "and")
arithmetic(("bitwise_or.Tensor", "bitwise_or.Scalar"), "or", "or")
arithmetic(("bitwise_xor.Tensor", "bitwise_xor.Scalar"), "xor", "xor")


@covers("rsub.Scalar", "rsub.Tensor")
def rsub(lw, node, a, b, alpha=1):
    return TABLE["sub.Tensor"].lower(lw, node, b, a) if alpha == 1 else _no("alpha")


def _no(what):
    raise Uncovered(what)


@covers("div.Tensor_mode", "div.Scalar_mode", "floor_divide.default", remark="floor on floats and trunc as div, then rounded")
def div_mode(lw, node, a, b, rounding_mode="floor"):
    dtype, shape = out_type(lw, node)
    operands = all_literals(lw, [operand(lw, a, dtype), operand(lw, b, dtype)], dtype)
    if dtype.startswith(("i", "u")):
        return lw.emit({"floor": "floor_div", "trunc": "div"}[rounding_mode], operands, dtype, shape)
    quotient = lw.emit("div", operands, dtype, shape)
    return quotient if rounding_mode is None else lw.emit(rounding_mode, [quotient], dtype, shape)


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


@covers("clone.default", "alias.default", "detach.default", "contiguous.default", "lift_fresh_copy.default",
        "_conj.default")
def same(lw, node, x, **_):
    return x


@covers("copy.default")
def copy(lw, node, x, source, non_blocking=False):
    return broadcast(lw, cast(lw, source, x.dtype), x.shape)


# ---- sources
@covers("full.default", "full_like.default", "zeros.default", "ones.default", "zeros_like.default", "ones_like.default",
        "empty.memory_format", "new_zeros.default", "new_ones.default", "new_full.default", "scalar_tensor.default")
def full(lw, node, *arguments, **_):
    name = str(node.target).split(".")[1]
    if name == "scalar_tensor":
        value = arguments[0]
    else:
        value = 1 if "ones" in name else arguments[-1] if "full" in name else 0
    dtype, shape = out_type(lw, node)
    value = operand(lw, value, dtype)
    value = value if is_term(value) else lw.emit("constant", [value, dtype], dtype, [])
    return broadcast(lw, value, shape)


@covers("arange.start_step", "arange.default", "arange.start", remark="whole numbers")
def arange(lw, node, start, end=None, step=1, **_):
    dtype, shape = out_type(lw, node)
    if end is None:
        start = 0
    if any(hasattr(v, "text") or float(v) != int(v) for v in (start, step)):
        raise Uncovered("with a start or step that is no whole number")
    whole = lw.emit("iota", [], "i64", shape, shape=shape, axis=0, dtype="i64", start=int(start), step=int(step))
    return cast(lw, whole, dtype)


# ---- views
@covers("view.default", "reshape.default", "_unsafe_view.default", "unsqueeze.default", "squeeze.default", "squeeze.dim",
        "squeeze.dims", "view_copy.default", "_reshape_alias.default")
def reshape(lw, node, x, *_):
    return reshaped(lw, x, out_type(lw, node)[1])


@covers("expand.default")
def expand(lw, node, x, *_, **__):
    shape = out_type(lw, node)[1]
    return broadcast(lw, x, shape)


@covers("permute.default")
def permute(lw, node, x, axes):
    return lw.emit("permute", [x], x.dtype, out_type(lw, node)[1], axes=axes_of(axes, x.rank))


@covers("transpose.int", "t.default")
def transpose(lw, node, x, a=0, b=1):
    axes = list(range(x.rank))
    if x.rank > 1:
        axes[a], axes[b] = axes[b], axes[a]
    return lw.emit("permute", [x], x.dtype, out_type(lw, node)[1], axes=axes)


def bound(lw, value, size, fallback):
    """A start or end of a slice as ATen means it: from the end when negative, and never outside."""
    if value is None:
        return fallback
    if hasattr(value, "text"):
        return value.text
    if size.isdigit():
        value = value + int(size) if value < 0 else value
        return str(max(0, min(value, int(size))))
    if value >= 2**62:
        return size
    return str(value) if value >= 0 else f"{size} - {-value}"


@covers("slice.Tensor", remark="of a symbolic axis: bounds as the traced sizes show them")
def slice_tensor(lw, node, x, axis=0, start=None, end=None, step=1):
    dtype, shape = out_type(lw, node)
    axis %= x.rank
    size = x.shape[axis]
    first, last = bound(lw, start, size, "0"), bound(lw, end, size, size)
    if shape[axis] == size and step == 1:
        return x
    if not size.isdigit() and not (hasattr(start, "text") or hasattr(end, "text")):
        # whether a constant bound lies inside a symbolic axis was decided when tracing: the result's size tells
        last = last if last == size else f"{first} + {shape[axis]}" if step == 1 else last
    return lw.emit("slice", [x], dtype, shape, axes=[axis], start=[first], stop=[last], step=None if step == 1 else [step])


@covers("select.int")
def select(lw, node, x, axis, index):
    dtype, shape = out_type(lw, node)
    axis %= x.rank
    first = bound(lw, index, x.shape[axis], "0")
    one = lw.emit("slice", [x], dtype, x.shape[:axis] + ["1"] + x.shape[axis + 1:], axes=[axis], start=[first],
                  stop=[f"{first} + 1"])
    return lw.emit("reshape", [one], dtype, shape, shape=shape)


@covers("split_with_sizes.default", "split.Tensor", "chunk.default", "unbind.int")
def split(lw, node, x, sizes=None, axis=0):
    parts, start = [], "0"
    if str(node.target) == "aten.unbind.int":
        raise Uncovered("unbind")
    axis %= x.rank
    for i in range(len(node.meta["val"])):
        dtype, shape = out_type(lw, node, i)
        stop = f"{start} + {shape[axis]}"
        parts.append(lw.emit("slice", [x], dtype, shape, axes=[axis], start=[start], stop=[stop]))
        start = stop
    return parts


@covers("cat.default")
def cat(lw, node, tensors, axis=0):
    dtype, shape = out_type(lw, node)
    kept = [cast(lw, t, dtype) for t in tensors if t.shape != ["0"]]
    return kept[0] if len(kept) == 1 else lw.emit("concat", kept, dtype, shape, axis=axis % len(shape))


@covers("stack.default")
def stack(lw, node, tensors, axis=0):
    dtype, shape = out_type(lw, node)
    axis %= len(shape)
    single = shape[:axis] + ["1"] + shape[axis + 1:]
    parts = [lw.emit("reshape", [cast(lw, t, dtype)], dtype, single, shape=single) for t in tensors]
    return lw.emit("concat", parts, dtype, shape, axis=axis)


@covers("constant_pad_nd.default", remark="not negative")
def pad(lw, node, x, padding, value=0):
    if any(hasattr(p, "text") or p < 0 for p in padding):
        raise Uncovered("negative or symbolic padding")
    low, high = [0] * x.rank, [0] * x.rank
    for i in range(len(padding) // 2):
        low[x.rank - 1 - i], high[x.rank - 1 - i] = padding[2 * i], padding[2 * i + 1]
    fill = constant(lw, value, x.dtype)
    return lw.emit("pad", [x, fill], x.dtype, out_type(lw, node)[1], low=low, high=high)


@covers("flip.default")
def flip(lw, node, x, axes):
    return lw.emit("flip", [x], x.dtype, x.shape, axes=axes_of(axes, x.rank)) if axes else x


# ---- gather
@covers("embedding.default")
def embedding(lw, node, weight, indices, *_, **__):
    return lw.emit("embedding", [weight, indices], weight.dtype, out_type(lw, node)[1])


@covers("index_select.default")
def index_select(lw, node, x, axis, index):
    return lw.emit("index_select", [x, index], x.dtype, out_type(lw, node)[1], axis=axis % x.rank)


@covers("gather.default")
def gather(lw, node, x, axis, index, sparse_grad=False):
    return lw.emit("gather", [x, index], x.dtype, out_type(lw, node)[1], axis=axis % x.rank)


@covers("index.Tensor", remark="one integer index")
def index(lw, node, x, indices):
    places = [i for i, t in enumerate(indices) if t is not None]
    if len(places) != 1 or indices[places[0]].dtype == "bool":
        raise Uncovered("with several indices or a mask")
    axis, chosen = places[0], indices[places[0]]
    flat = reshaped(lw, chosen, ["*".join(f"({s})" for s in chosen.shape) or "1"])
    negative = lw.emit("lt", [flat, "0"], "bool", flat.shape)
    size = operand(lw, int(x.shape[axis]) if x.shape[axis].isdigit() else _SizeText(x.shape[axis]), flat.dtype)
    wrapped = lw.emit("select", [negative, lw.emit("add", [flat, size], flat.dtype, flat.shape), flat], flat.dtype, flat.shape)
    picked = lw.emit("index_select", [x, wrapped], x.dtype, x.shape[:axis] + flat.shape + x.shape[axis + 1:], axis=axis)
    return reshaped(lw, picked, out_type(lw, node)[1])


class _SizeText:
    def __init__(self, text):
        self.text = text


# ---- reductions
def reduction(names, op):
    @covers(*names)
    def lower(lw, node, x, dims=None, keepdim=False, dtype=None):
        dtype, shape = out_type(lw, node)
        x = cast(lw, x, dtype)
        if x.rank == 0:
            return x
        return lw.emit(op, [x], dtype, shape, axes=axes_of(dims, x.rank), keepdim=bool(keepdim))


reduction(("sum.dim_IntList", "sum.default"), "sum")
reduction(("mean.dim", "mean.default"), "mean")
reduction(("amax.default",), "reduce_max")
reduction(("amin.default",), "reduce_min")


@covers("max.default", "min.default", "prod.default", "prod.dim_int")
def whole(lw, node, x, dim=None, keepdim=False, dtype=None):
    out, shape = out_type(lw, node)
    op = {"max": "reduce_max", "min": "reduce_min", "prod": "product"}[node.target._schema.name.split("::")[1]]
    return lw.emit(op, [cast(lw, x, out)], out, shape, axes=axes_of(dim, x.rank), keepdim=bool(keepdim)) if x.rank else x


@covers("max.dim", "min.dim")
def with_indices(lw, node, x, dim, keepdim=False):
    kind = node.target._schema.name.split("::")[1]
    axes, (dtype, shape) = axes_of(dim, x.rank), out_type(lw, node, 0)
    return [lw.emit(f"reduce_{kind}", [x], dtype, shape, axes=axes, keepdim=bool(keepdim)),
            lw.emit(f"arg{kind}", [x], "i64", shape, axes=axes, keepdim=bool(keepdim))]


@covers("argmax.default", "argmin.default")
def arg(lw, node, x, dim=None, keepdim=False):
    return lw.emit(node.target._schema.name.split("::")[1], [x], "i64", out_type(lw, node)[1], axes=axes_of(dim, x.rank),
                   keepdim=bool(keepdim))


@covers("any.default", "any.dim", "any.dims", "all.default", "all.dim", "all.dims")
def any_all(lw, node, x, dims=None, keepdim=False):
    return lw.emit(node.target._schema.name.split("::")[1], [cast(lw, x, "bool")], "bool", out_type(lw, node)[1],
                   axes=axes_of(dims, x.rank), keepdim=bool(keepdim))


@covers("var.correction", remark="whole correction")
def var(lw, node, x, dims=None, correction=1, keepdim=False):
    correction = 1 if correction is None else correction
    if correction != int(correction):
        raise Uncovered(f"correction {correction}")
    return lw.emit("variance", [x], x.dtype, out_type(lw, node)[1], axes=axes_of(dims, x.rank), keepdim=bool(keepdim),
                   correction=int(correction))


@covers("cumsum.default")
def cumsum(lw, node, x, axis, dtype=None):
    out, shape = out_type(lw, node)
    return lw.emit("cumulative_sum", [cast(lw, x, out)], out, shape, axis=axis % x.rank) if x.rank else x


@covers("_softmax.default", "_log_softmax.default", "softmax.int", "log_softmax.int")
def softmax(lw, node, x, axis, *_, **__):
    dtype, shape = out_type(lw, node)
    op = "log_softmax" if "log" in str(node.target) else "softmax"
    return lw.emit(op, [cast(lw, x, dtype)], dtype, shape, axis=axis % max(x.rank, 1))


# ---- normalisation
def flat_last(lw, x, count):
    """x with its last `count` axes as one."""
    if count == 1:
        return x
    return reshaped(lw, x, x.shape[:-count] + ["*".join(f"({s})" for s in x.shape[-count:])])


@covers("layer_norm.default")
def layer_norm(lw, node, x, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    count, shape = len(normalized_shape), out_type(lw, node)[1]
    operands = [flat_last(lw, t, count) for t in (x, weight, bias) if t is not None]
    result = lw.emit("layer_norm", operands, x.dtype, operands[0].shape, eps=float(eps))
    return reshaped(lw, result, shape)


@covers("rms_norm.default")
def rms_norm(lw, node, x, normalized_shape, weight=None, eps=None):
    import torch

    count, shape = len(normalized_shape), out_type(lw, node)[1]
    if eps is None:
        eps = torch.finfo(node.meta["val"].dtype).eps
    operands = [flat_last(lw, t, count) for t in (x, weight) if t is not None]
    return reshaped(lw, lw.emit("rms_norm", operands, x.dtype, operands[0].shape, eps=float(eps)), shape)


# ---- products
@covers("linear.default")
def linear(lw, node, x, weight, bias=None):
    dtype, shape = out_type(lw, node)
    rows = x if x.rank > 1 else reshaped(lw, x, ["1", *x.shape])
    result = lw.emit("linear", [rows, weight] + ([bias] if bias is not None else []), dtype,
                     shape if x.rank > 1 else ["1", *shape])
    return reshaped(lw, result, shape)


@covers("matmul.default", "mm.default", "bmm.default", "dot.default", "mv.default")
def matmul(lw, node, a, b):
    dtype, shape = out_type(lw, node)
    left = a if a.rank > 1 else reshaped(lw, a, ["1", *a.shape])
    right = b if b.rank > 1 else reshaped(lw, b, [*b.shape, "1"])
    full_shape = shape[:len(shape) - (a.rank > 1) - (b.rank > 1)] + [left.shape[-2], right.shape[-1]]
    return reshaped(lw, lw.emit("matmul", [left, right], dtype, full_shape), shape)


@covers("addmm.default", "baddbmm.default")
def addmm(lw, node, c, a, b, beta=1, alpha=1):
    dtype, shape = out_type(lw, node)
    product = lw.emit("matmul", [a, b], dtype, shape)
    if alpha != 1:
        product = lw.emit("mul", [product, number(alpha, dtype)], dtype, shape)
    if beta != 1:
        c = lw.emit("mul", [c, number(beta, dtype)], dtype, c.shape)
    return lw.emit("add", [product, c], dtype, shape)


@covers("scaled_dot_product_attention.default", remark="without dropout; scores in f32")
def attention(lw, node, q, k, v, mask=None, dropout=0.0, causal=False, scale=None, enable_gqa=False):
    if dropout:
        raise Uncovered("with dropout: call eval()")
    dtype, shape = out_type(lw, node)
    if enable_gqa and q.shape[-3] != k.shape[-3]:
        k, v = (repeat_heads(lw, t, int(q.shape[-3]) // int(k.shape[-3])) for t in (k, v))
    wide = "f64" if dtype == "f64" else "f32"
    full_shape = shape[:-2] + [q.shape[-2], k.shape[-2]]
    scale = float(scale) if scale is not None else 1 / math.sqrt(int(q.shape[-1]))
    scores = lw.emit("matmul", [q, k], wide, full_shape, transpose_b=True, out=wide if dtype != wide else None)
    scores = lw.emit("mul", [scores, number(scale, wide)], wide, full_shape)
    if causal:
        at = [lw.emit("iota", [], "i64", [n, "1"] if i == 0 else ["1", n], shape=[n, "1"] if i == 0 else ["1", n], axis=i,
                      dtype="i64") for i, n in enumerate(full_shape[-2:])]
        seen = lw.emit("le", [at[1], at[0]], "bool", full_shape[-2:])
        scores = lw.emit("select", [seen, scores, "-inf"], wide, full_shape)
    if mask is not None:
        scores = (lw.emit("select", [mask, scores, "-inf"], wide, full_shape) if mask.dtype == "bool"
                  else lw.emit("add", [scores, cast(lw, mask, wide)], wide, full_shape))
    weights = cast(lw, lw.emit("softmax", [scores], wide, full_shape, axis=len(full_shape) - 1), dtype)
    return lw.emit("matmul", [weights, v], dtype, shape)


def repeat_heads(lw, x, times):
    lead, heads, rest = x.shape[:-3], x.shape[-3], x.shape[-2:]
    apart = lw.emit("reshape", [x], x.dtype, lead + [heads, "1"] + rest, shape=lead + [heads, "1"] + rest)
    wide = lead + [heads, str(times)] + rest
    repeated = lw.emit("broadcast", [apart], x.dtype, wide, shape=wide)
    return reshaped(lw, repeated, lead + [str(int(heads) * times)] + rest)


# ---- writing a part
@covers("slice_scatter.default", remark="step 1")
def slice_scatter(lw, node, x, part, axis=0, start=None, end=None, step=1):
    if step != 1:
        raise Uncovered(f"step {step}")
    axis %= x.rank
    first = bound(lw, start, x.shape[axis], "0")
    place = operand(lw, int(first) if first.isdigit() else _SizeText(first), "i64")
    place = place if is_term(place) else lw.emit("constant", [place, "i64"], "i64", [])
    return lw.emit("slice_update", [x, cast(lw, part, x.dtype), place], x.dtype, x.shape, axis=axis)
