"""Functions of torch with the same bytes on every x86-64 processor.

torch chooses by the processor how it multiplies matrices, sums up and takes exponentials, so that the same training
ends in other weights elsewhere. The functions here have torch's names and meaning, and its gradients. For tensors in
single precision on the CPU they compute in compiled code, with every sum in an order that is written down, whatever the
width of vectors and the number of threads; for all others, and without a compiler, they are torch's own.

What torch does with each number alone is exact and needs none of them: ``+ - * /``, comparisons, `torch.where`,
`torch.clamp`, `torch.minimum`, `torch.abs`; and so is what moves numbers about: indexing, `torch.gather`, `torch.cat`,
`torch.masked_fill`. Not exact: ``addcmul``, ``addcdiv``, ``lerp``, ``add`` with ``alpha``, `torch.sqrt`, `torch.randn`,
``uniform_``, every sum and mean, and what torch sums up on the way back through a tensor that was repeated to fit
another: `expand` does that by `sum`.
"""

from hdrl.learn.portable.adam import Adam, clip, move_towards
from hdrl.learn.portable.attention import attend_rows
from hdrl.learn.portable.functions import exp, expm1, log, log1p, logsigmoid, sigmoid, sin, softplus, sqrt, tanh
from hdrl.learn.portable.layers import Among, Stack, linear, pass_layers
from hdrl.learn.portable.own import is_own
from hdrl.learn.portable.products import matmul
from hdrl.learn.portable.random import exponential, normal, orthogonal, uniform
from hdrl.learn.portable.softmaxes import Chosen, choose, log_softmax, logsumexp, softmax
from hdrl.learn.portable.sums import expand, mean, std_mean, sum, sum_of_squares, var  # noqa: A004 - torch's name

__all__ = [
    "Adam",
    "Among",
    "Chosen",
    "Stack",
    "attend_rows",
    "choose",
    "clip",
    "expand",
    "exp",
    "expm1",
    "exponential",
    "is_own",
    "linear",
    "log",
    "log1p",
    "log_softmax",
    "logsigmoid",
    "logsumexp",
    "matmul",
    "mean",
    "move_towards",
    "normal",
    "orthogonal",
    "pass_layers",
    "sigmoid",
    "sin",
    "softmax",
    "softplus",
    "sqrt",
    "std_mean",
    "sum",
    "sum_of_squares",
    "tanh",
    "uniform",
    "var",
]
