"""Each op of the table against eager. A case is a function and its arguments; all of a group are traced as one graph."""
import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
import loopwright as lw  # noqa: E402
from loopwright import aten  # noqa: E402

torch.manual_seed(0)
torch.backends.cudnn.allow_tf32 = False
X = torch.randn(6, 10)
POSITIVE = torch.rand(6, 10) + 0.5
UNIT = torch.rand(6, 10) * 1.8 - 0.9
I = torch.randint(-20, 20, (6, 10))
B = torch.rand(6, 10) > 0.5
H = torch.randn(6, 10, dtype=torch.bfloat16)
Q = torch.randn(2, 4, 7, 16)
INDEX = torch.tensor([3, 0, 5, 5])

CASES = {
    "unary": [lambda x=X: [getattr(torch, n)(x) for n in "neg abs exp exp2 expm1 sin cos tan sinh cosh tanh erf sigmoid sign atan "
                           "floor ceil round trunc isnan isinf relu".split()]],
    "unary of positive": [lambda x=POSITIVE: [getattr(torch, n)(x) for n in "log log2 log1p sqrt rsqrt reciprocal".split()]],
    "unary of small": [lambda x=UNIT: [torch.asin(x), torch.acos(x)]],
    "unary of integers": [lambda x=I: [torch.sin(x), torch.neg(x), torch.abs(x), torch.floor(x), torch.bitwise_not(x), torch.sign(x)]],
    "activations": [lambda x=X: [F.silu(x), F.gelu(x), F.gelu(x, approximate="tanh"), F.leaky_relu(x, 0.2), F.hardtanh(x), F.relu6(x),
                                 F.elu(x), F.softplus(x), F.hardswish(x), F.mish(x), F.softsign(x), F.logsigmoid(x)]],
    "bf16": [lambda x=H: [torch.exp(x), F.silu(x), F.gelu(x), x * 2, x + x, x.float() + x, x.sum(-1), x.mean(-1), torch.softmax(x, -1)]],
    "arithmetic": [lambda x=X, y=POSITIVE, i=I: [x + y, x - y, x * y, x / y, torch.add(x, y, alpha=3), torch.sub(x, y, alpha=2), x + 1, 2 - x,
                                                 3 / y, i + x, i * 2, i + i, i / 3, i * 1.5, torch.minimum(x, y), torch.maximum(x, y),
                                                 torch.atan2(x, y), torch.fmod(x, y), x % y, i % 7, i % -7, x % -0.5]],
    "whole division": [lambda x=X, y=POSITIVE, i=I: [i // 3, i // -3, torch.div(i, 3, rounding_mode="trunc"), torch.div(x, y, rounding_mode="floor"),
                                                     torch.div(x, y, rounding_mode="trunc"), torch.floor_divide(i, 4)]],
    "powers": [lambda x=POSITIVE, i=I: [x**2, x**3, x**0.5, x**-0.5, x**-1, x**1.7, x**x, 2.0**x, i**2, torch.square(x)]],
    "comparisons": [lambda x=X, y=UNIT, i=I, b=B: [x > y, x >= 0, x < y, x <= 0.5, x == y, i != 3, i > 2.5, b == (x > 0), i == x]],
    "logic": [lambda b=B, c=X > 0, i=I: [b & c, b | c, b ^ c, ~b, torch.logical_and(b, i), torch.logical_or(i, b), torch.logical_xor(b, c),
                                         torch.logical_not(i), i & 5, i | 3, i ^ 6, b * c, b + c, b.float(), b * 2, i.bool()]],
    "choice": [lambda x=X, b=B, i=I: [torch.where(b, x, 0.0), torch.where(b, x, i), x.masked_fill(b, -1e9), x.clamp(-0.5, 0.5), x.clamp(min=0),
                                      torch.clamp(x, max=x * 0), x.masked_fill(b, float("-inf")), i.clamp(0, 5), torch.clamp_min(x, 0.1)]],
    "casts": [lambda x=X, i=I, h=H: [x.double(), x.half(), x.bfloat16(), i.float(), i.to(torch.int8), x.to(torch.int32), h.float(), x.type_as(h),
                                     x.bool()]],
    "sources": [lambda x=X: [torch.zeros(3, 4) + x[0, 0], torch.full((2,), 7) + x[:2, 0], torch.ones_like(x), torch.zeros_like(x),
                             torch.arange(10) + x, torch.arange(2, 22, 2) * x, torch.full_like(x, 2.5), x.new_zeros(3), torch.tensor(2.0) * x]],
    "views": [lambda x=X: [x.view(3, 20), x.reshape(-1), x.t(), x.transpose(0, 1), x.unsqueeze(1), x[None], x.unsqueeze(0).squeeze(0),
                           x.expand(2, 6, 10), x.flatten(), x.permute(1, 0), x.contiguous().clone(), x.unflatten(1, (2, 5)), x.mT, x.movedim(0, 1),
                           x.repeat(2, 1), x.tile(1, 2), x.swapaxes(0, 1), x.ravel()]],
    "parts": [lambda x=X: [x[1:4], x[:, ::3], x[-2:], x[2], x[:, -1], x[1:100], x[..., 3:7], *x.split(2), *x.split([1, 5]), *x.chunk(3, 1),
                           x.narrow(1, 2, 3), x[:, None, 2:], *x.unbind(0)[:2], x.select(1, 4)]],
    "joins": [lambda x=X, i=I: [torch.cat([x, x * 2]), torch.cat([x, i], 1), torch.stack([x, x], 1), torch.hstack([x, x]), F.pad(x, (1, 2, 0, 3)),
                                F.pad(x, (2, 1), value=5.0), x.flip(0), x.flip(0, 1), x.roll(2, 1)]],
    "gather": [lambda x=X, k=INDEX: [x[k], x.index_select(0, k), F.embedding(k, x), x[:, k], x[k - 6], torch.gather(x, 1, k.expand(6, 4)),
                                     x[k[:, None]], x[k[:, None], k], x[k - 6, k], x[:, k[:2], None][:, 0],
                                     x.view(2, 3, 10)[:, k[:1] - 4, k[:, None]]]],
    "writes": [lambda x=X, k=INDEX, r=torch.arange(40.0).view(4, 10), one=torch.tensor([2]), few=torch.randint(0, 10, (6, 3)): [
        x.index_put((k,), r, accumulate=True), x.index_put((k[:3],), r[:3]), x.index_put((k[:3], k[:3] - 2), r[0, :3]), x.index_copy(0, k[:3], r[:3]),
        x.index_copy(1, k[:3], x[:, :3]), x.index_copy(0, one, r[:1]), x.index_copy(1, one - 4 + 4, x[:, :1]), x.index_put((one - 4,), r[0]),
        x.index_add(0, k, r), x.scatter(1, few, x), x.scatter(1, few, 2.5), x.scatter_add(1, few, x), x.scatter(0, k[None, :], r), x.scatter(1, few[:4, :2], x),
        x.scatter_add(0, k[:, None].expand(4, 10), r), x[0, 0].scatter(0, k[1], 3.0), x[0, 0].scatter_add(0, k[1:2] * 0, x[0, 1:2]), x.scatter(1, few[:, :1], -1.0),
        torch.slice_scatter(x, r[:2].repeat(1, 1), 0, 1, 5, 2), torch.slice_scatter(x, x[:, :4], 1, 0, None, 3), torch.slice_scatter(x, r[:2], 0, 2, 4)]],
    "reductions": [lambda x=X, i=I, b=B: [x.sum(), x.sum(0), x.sum(-1, keepdim=True), x.sum((0, 1)), x.mean(), x.mean(1), x.amax(1), x.amin(0), x.max(),
                                          x.min(), *x.max(1), *x.min(0), x.argmax(), x.argmax(1), x.argmin(0, keepdim=True), b.any(), b.any(1),
                                          b.all(0), i.any(), i.sum(), i.sum(0), b.sum(), x.var(1), x.var(1, correction=0), x.std(0), x.prod(1),
                                          x.cumsum(1), i.cumsum(0), x.norm(), x.logsumexp(1), torch.linalg.vector_norm(x, dim=1), x.sum(dtype=torch.float64),
                                          x.count_nonzero()]],
    "normalisation": [lambda x=X, w=POSITIVE[0]: [torch.softmax(x, -1), torch.softmax(x, 0), torch.log_softmax(x, 1), F.layer_norm(x, (10,)),
                                                  F.layer_norm(x, (10,), w, w), F.layer_norm(x, (6, 10)), F.layer_norm(x, (10,), None, w), F.rms_norm(x, (10,), w, 1e-6), F.rms_norm(x, (10,)),
                                                  F.softmin(x, 1), F.normalize(x, dim=1), F.group_norm(x, 2)]],
    "products": [lambda x=X, y=UNIT, w=POSITIVE, v=X[0]: [x @ w.t(), x.t() @ y, F.linear(x, w), F.linear(x, w, w[:, 0]), x @ v, v @ v, torch.addmm(y @ y.t(), x, w.t()),
                                                          torch.addmm(x[:, :6], x, w.t(), beta=0.5, alpha=2.0), F.linear(v, w), v @ w.t(), torch.outer(v, v),
                                                          torch.einsum("ij,kj->ik", x, w)]],
    "batched products": [lambda q=Q: [q @ q.transpose(-1, -2), torch.bmm(q[0], q[0].mT), q @ q[0, 0].t(), q[:, :1] @ q.mT]],
    "attention": [lambda q=Q, k=Q * 0.5, v=Q + 1, m=(Q @ Q.mT) > -3: [
        F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True), F.scaled_dot_product_attention(q, k, v, attn_mask=m | torch.eye(7).bool()),
        F.scaled_dot_product_attention(q, k, v, attn_mask=m & (torch.arange(7) != 3)[:, None].to(m.device)),
        F.scaled_dot_product_attention(q, k, v, attn_mask=m.float(), scale=0.3),
        F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)]],
    "patches": [lambda x=torch.randn(3, 2, 8, 12), w=torch.randn(5, 2, 4, 3), v=torch.randn(5, 2, 4): [
        F.conv2d(x, w, stride=(4, 3)), F.conv2d(x, w, w[:, 0, 0, 0], stride=(4, 3)), F.conv1d(x[:, :, 0], v, stride=4), F.conv1d(x[:, :, 1], v[:, :, :2], stride=2)]],
    "bf16 products": [lambda x=torch.randn(5, 64, dtype=torch.bfloat16), w=torch.randn(8, 64, dtype=torch.bfloat16): [x @ w.t(), F.linear(x, w), F.linear(x, w, w[:, 0])]],
    "products of groups": [lambda x=torch.randn(20, 16, dtype=torch.bfloat16), w=torch.randn(3, 8, 16, dtype=torch.bfloat16), ends=torch.tensor([5, 5, 20], dtype=torch.int32): [
        torch._grouped_mm(x, w.mT, offs=ends), torch._grouped_mm(x, w.reshape(3, 16, 8), offs=ends), torch._grouped_mm(w, w.mT)]],
    "losses": [lambda x=X, t=torch.tensor([1, 2, 3, 4, 5, 6]): [F.mse_loss(x, x * 2), F.l1_loss(x, x * 2), F.smooth_l1_loss(x, x * 2)]],
}


def flat(values):
    return [v for v in values if v is not None]


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_ops_agree_with_eager(name, device):
    function = CASES[name][0]
    arguments = [a.to(device) for a in function.__defaults__]
    expected = flat(function(*arguments))
    found = flat(lw.compile(function)(*arguments))
    assert len(found) == len(expected)
    for i, (f, e) in enumerate(zip(found, expected)):
        assert f.dtype == e.dtype and f.shape == e.shape, f"result {i}: {f.dtype} {f.shape}, not {e.dtype} {e.shape}"
        wide = 2e-2 if e.dtype in (torch.bfloat16, torch.float16) else 2e-5
        torch.testing.assert_close(f, e, rtol=wide, atol=wide, equal_nan=True, msg=lambda text: f"result {i}: {text}")


def test_every_row_of_the_table_names_an_op_of_torch():
    for name in aten.TABLE:
        *space, packet, overload = name.split(".")
        assert hasattr(getattr(getattr(torch.ops, *space or ["aten"]), packet), overload), name


def test_gradients_of_patches(device):
    torch._dynamo.reset()
    x, w, b = (torch.randn(*size, device=device).requires_grad_() for size in ((3, 2, 8, 12), (5, 2, 4, 3), (5,)))

    def embed(x, w, b):
        return F.conv2d(x, w, b, stride=(4, 3)).flatten(2).transpose(1, 2)

    compiled = torch.compile(embed, backend="loopwright")
    found, eager = (torch.autograd.grad(f(x, w, b).sin().sum(), (x, w, b)) for f in (compiled, embed))
    for f, e in zip(found, eager):
        torch.testing.assert_close(f, e, rtol=1e-4, atol=1e-4)
    assert "0 ops in PyTorch" in lw.explain(compiled) and "1 op" not in lw.explain(compiled)


@pytest.mark.parametrize("causal, masked", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_attention(device, dtype, causal, masked):
    """A query that sees nothing gives zeros, and gradients of zero."""
    torch._dynamo.reset()
    q, k, v = (torch.randn(2, 4, n, 16).to(device, dtype).requires_grad_() for n in (7, 7, 7))
    mask = (torch.rand(2, 1, 7, 7, device=device) > 0.3) & (torch.arange(7, device=device)[:, None] != 2) if masked else None

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)

    def differentiate(function, *tensors):
        out = function(*tensors)
        return [out.detach(), *torch.autograd.grad((out.float() * torch.arange(16, device=device)).sum(), tensors)]

    found, eager = differentiate(torch.compile(attend, backend="loopwright"), q, k, v), differentiate(attend, q, k, v)
    for f, e in zip(found, eager):
        tolerance = 0.1 if dtype == torch.bfloat16 else 1e-4
        torch.testing.assert_close(f, e, rtol=tolerance, atol=tolerance * float(e.abs().max()) / 4 + 1e-5)
