"""torch's own samples (OpInfo) of an op as one graph of ATen ops, forward and gradients, beside what eager PyTorch computes.

`python opinfo.py` writes opinfo_table.txt, which opinfo_test.py takes its ops from; `python opinfo.py NAME...` runs all samples of
these ops and says what differs."""
import collections
import random
import sys
import warnings
from pathlib import Path

import torch
import torch.utils._pytree as pytree
from torch.fx.experimental.proxy_tensor import make_fx

from loopwright import _errors, torch_backend
from loopwright.torch_backend import Part, Settings

TABLE = Path(__file__).parent / "opinfo_table.txt"
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
FEW_SAMPLES, MOST_SAMPLES, MOST_ELEMENTS = 4, 60, 4096  # of an op and dtype, of a tensor
# Samples that are left out: (name, words of the sample's text, why).
ONE_ELEMENT = "the gradient of one normalised element is zero times 1 / sqrt(eps)"
EXCLUDED = [("native_layer_norm", "float32[1], 1,", ONE_ELEMENT), ("nn.functional.layer_norm", "float32[1], 1,", ONE_ELEMENT),
            *((name, "", "values that nobody wrote") for name in ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
                                                                  "new_empty_strided"))]


def find_ops():
    """Name -> OpInfo of everything that torch has samples for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return {op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op for op in op_db}


class Case:
    """One sample: a traced graph, its arguments, and eager PyTorch's results."""

    __slots__ = ("graph", "values", "expected", "text")


def make_case(op, sample, text):
    """Raises whatever eager PyTorch or tracing raises. Gradients are taken where the sample has tensors that require one."""
    flat, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, v in enumerate(flat) if isinstance(v, torch.Tensor)]
    needed = [flat[i].requires_grad for i in places]
    values = [flat[i].detach() for i in places]

    def forward(tensors):
        arguments = list(flat)
        for i, tensor in zip(places, tensors):
            arguments[i] = tensor
        first, rest, named = pytree.tree_unflatten(arguments, spec)
        results = op.op(first, *rest, **named)
        return [r for r in pytree.tree_leaves(results) if isinstance(r, torch.Tensor)]

    def differentiate(tensors, directions):
        tensors = [t.detach().requires_grad_(n) for t, n in zip(tensors, needed)]
        results = forward(tensors)
        smooth = [r for r in results if r.requires_grad]
        gradients = torch.autograd.grad(smooth, [t for t, n in zip(tensors, needed) if n], directions, allow_unused=True) if smooth else ()
        return [r.detach() for r in results] + [g for g in gradients if g is not None]

    case = Case()
    with torch.random.fork_rng():
        shapes = [r for r in forward([v.clone().requires_grad_(n) for v, n in zip(values, needed)]) if r.requires_grad]
        directions = [torch.empty_like(r, requires_grad=False).uniform_(-1, 1) for r in shapes]
    function = (lambda *ts: differentiate(ts[:len(values)], list(ts[len(values):]))) if any(needed) else (lambda *ts: forward(ts))
    case.values = values + directions
    case.graph = make_fx(function, decomposition_table=torch_backend.find_decompositions())(*[v.clone() for v in case.values])
    if any(n.op == "call_function" and getattr(getattr(n.target, "_schema", None), "is_mutable", False) for n in case.graph.graph.nodes):
        case.graph = make_fx(torch.func.functionalize(case.graph))(*[v.clone() for v in case.values])
    case.expected = [r.detach() for r in function(*[v.clone() for v in case.values])]
    case.text = text
    return case


def describe(sample):
    show = lambda v: f"{str(v.dtype)[6:]}{list(v.shape)}" if isinstance(v, torch.Tensor) else repr(v)  # noqa: E731
    return ", ".join(show(v) for v in pytree.tree_leaves((sample.input, sample.args, sample.kwargs)))


def first_words(error):
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:80] if str(error).strip() else ''}"


def list_cases(name, op, dtype, most, reasons):
    """Cases of one op and dtype that are covered, at most that many, chosen by a fixed seed; `reasons` counts why others are not."""
    if dtype not in op.dtypes:
        return []
    torch.manual_seed(0)
    try:
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=dtype == torch.float32 and op.supports_autograd))
    except Exception as error:  # a generator that needs what is not installed
        reasons[first_words(error)] += 1
        return []
    chosen = random.Random(name).sample(samples, min(most, MOST_SAMPLES, len(samples)))
    cases = []
    for sample in chosen:
        text = f"{name} {describe(sample)}"
        if why := next((why for op_name, words, why in EXCLUDED if op_name == name and words in text), None):
            reasons[why] += 1
            continue
        if any(isinstance(v, torch.Tensor) and v.numel() > MOST_ELEMENTS for v in pytree.tree_leaves((sample.input, sample.args, sample.kwargs))):
            reasons[f"a tensor of more than {MOST_ELEMENTS} elements"] += 1
            continue
        try:
            case = make_case(op, sample, text)
            part = Part(case.graph, Settings([], "jit"), "strict")
            failures = part.find_failures()
            if failures:
                node, why = next(iter(failures.items()))
                raise NotImplementedError(f"{node.target}: {why.splitlines()[0]}")
            if not case.expected or part.is_trivial():
                raise NotImplementedError("nothing to compute")
        except Exception as error:  # eager PyTorch, tracing, or what is not covered: all are listed
            reasons[str(error)[:100].splitlines()[0] if isinstance(error, NotImplementedError) and str(error) else first_words(error)] += 1
            continue
        cases.append(case)
    return cases


def join(cases):
    """One graph that computes all the cases."""
    joined, results = torch.fx.Graph(), []
    root = torch.nn.Module()
    for number, case in enumerate(cases):
        root.add_module(f"c{number}", case.graph)
        known = {n: joined.placeholder(f"c{number}_{n.name}") for n in case.graph.graph.find_nodes(op="placeholder")}
        known |= {n: joined.get_attr(f"c{number}.{n.target}") for n in case.graph.graph.nodes if n.op == "get_attr"}
        for old, new in known.items():
            new.meta = dict(old.meta)
        results.append(joined.graph_copy(case.graph.graph, known))
    joined.output([r for part in results for r in part])
    return torch.fx.GraphModule(root, joined)


def compare(found, expected):
    """Empty, or how two results differ. A value may be off by what float32 (bfloat16) arithmetic in another order gives."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{list(found.shape)} where eager gives {expected.dtype}{list(expected.shape)}"
    if not expected.dtype.is_floating_point:
        return "" if torch.equal(found, expected) else f"{int((found != expected).sum())} of {found.numel()} values differ"
    wide = 3e-2 if expected.dtype in (torch.bfloat16, torch.float16) else 1e-4
    finite = expected[torch.isfinite(expected)]
    largest = float(finite.abs().max()) if finite.numel() else 0.0
    try:
        torch.testing.assert_close(found, expected, rtol=wide, atol=wide * max(1.0, largest) / 4, equal_nan=True)
    except AssertionError as error:
        return " ".join(str(error).split())[:160]
    return ""


def run(cases):
    """Text of each case that differs from eager PyTorch."""
    part = Part(join(cases), Settings([], "jit"), "strict")
    values = [v.clone() for case in cases for v in case.values]
    found, differing = list(part.call(*values)), []
    for case in cases:
        results, found = found[:len(case.expected)], found[len(case.expected):]
        for i, (f, e) in enumerate(zip(results, case.expected)):
            if words := compare(f, e):
                differing.append(f"{case.text}: result {i}: {words}")
                break
    return differing


def run_op(name, op, most=MOST_SAMPLES, apart=False):
    """(cases run, texts of those that differ, reasons why others are left out)."""
    count, differing, reasons = 0, [], collections.Counter()
    for dtype in DTYPES:
        cases = list_cases(name, op, dtype, most, reasons)
        count += len(cases)
        step = 1 if apart else 24
        for at in range(0, len(cases), step):
            try:
                differing += run(cases[at:at + step])
            except _errors.Error as error:
                if not apart:
                    raise
                differing.append(f"{cases[at].text}: {first_words(error)}")
    return count, differing, reasons


def read_table():
    """Names of the ops that have samples which run."""
    rows = [line.split("\t") for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    return [row[0] for row in rows if int(row[1])]


def write_table(outcomes):
    """`outcomes`: name -> (samples run, reasons why others are not)."""
    lines = ["# torch's samples of each op: name, how many run (forward, and gradients in float32), why others do not.",
             f"# At most {FEW_SAMPLES} samples of an op and dtype; written by `python opinfo.py`, read by opinfo_test.py."]
    for name, (count, reasons) in sorted(outcomes.items()):
        why = "; ".join(f"{n} x {reason}" for reason, n in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:3])
        lines.append(f"{name}\t{count}\t{why}".rstrip())
    TABLE.write_text("\n".join(lines) + "\n")


def main(names):
    outcomes = {}
    for name, op in find_ops().items():
        if names and name not in names:
            continue
        count, differing, reasons = run_op(name, op, MOST_SAMPLES if names else FEW_SAMPLES, apart=True)
        outcomes[name] = (count, reasons)
        print(name, count, dict(reasons), *(f"\n  DIFFERS {text}" for text in differing), flush=True)
    print(sum(count for count, _ in outcomes.values()), "samples")
    if not names:
        write_table(outcomes)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1:])
