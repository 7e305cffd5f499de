"""Calls of a compiled function that a gradient flows through: one capture by Dynamo, forward and backward as kernels."""
import functools

import torch

from .torch_backend import Settings, compile_dynamo
from .tracing import name_of


class Training:
    """A function or module with gradients. """

    def __init__(self, target, arrange, databases, on_miss, accuracy, by_graph):
        settings = Settings(databases, on_miss, accuracy, by_graph)
        self.compilation = settings.compilation
        self.arrange = arrange
        # A module's own call: torch.compile of the module would put another one around it.
        function = target.__call__ if isinstance(target, torch.nn.Module) else target
        self.function = torch.compile(function, backend=functools.partial(compile_dynamo, settings=settings), fullgraph=True)
        self.name = name_of(target)

    def __call__(self, names, values, declared):
        """`declared`: name of a value -> dimensions that are symbols at once; other sizes become symbols when they change."""
        for name, value in zip(names, values):
            for d in declared.get(name, ()):
                torch._dynamo.maybe_mark_dynamic(value, d)
        positional, named = self.arrange(values)
        return self.function(*positional, **named)
