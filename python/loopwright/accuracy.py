"""Accuracy classes (docs/accuracy.md), and which of them PyTorch's own switches allow."""
from . import _errors

CLASSES = ("strict", "tf32")


def check(accuracy):
    """An accuracy that a user named, or None for what PyTorch says. Raises ArgumentError."""
    if accuracy is not None and accuracy not in CLASSES:
        raise _errors.make("bad_argument", f"bad_argument: accuracy {accuracy!r}\n  works: \"strict\", \"tf32\", or None for what PyTorch is set to")
    return accuracy


def choose(accuracy, device):
    """The class for a graph on `device`. Without a name: what PyTorch would do there now, which differs on CUDA alone.
    `torch.set_float32_matmul_precision` ("high" and "medium"), `torch.backends.cuda.matmul.allow_tf32` and `.fp32_precision` are one switch."""
    import torch

    if accuracy is not None or not device.startswith("cuda"):
        return accuracy or "strict"
    matmul = torch.backends.cuda.matmul
    if hasattr(matmul, "fp32_precision"):  # torch 2.9 and newer refuse the older question after the newer switch was used
        return "tf32" if matmul.fp32_precision == "tf32" else "strict"
    return "tf32" if torch.get_float32_matmul_precision() != "highest" else "strict"
