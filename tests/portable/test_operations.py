"""Trainings use nothing of torch that computes differently elsewhere: every operation is looked at while they run."""

from __future__ import annotations

import collections
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.compiled.backends import JIT_DISABLED

MOVES = """
alias _local_scalar_dense _to_copy arange broadcast_tensors cat clone constant_pad_nd contiguous copy_ detach empty
empty_like empty_strided equal expand eye fill_ flatten flip full full_like gather index index_copy index_put
index_put_ index_copy_ index_select is_same_size item lift_fresh masked_fill masked_fill_ masked_select narrow new_empty
new_empty_strided new_full new_ones new_zeros nonzero ones ones_like permute reshape repeat resolve_conj resolve_neg
roll scalar_tensor scatter select select_backward set_ slice slice_backward split split_with_sizes squeeze stack t to
transpose unbind unfold unsqueeze view zero_ zeros zeros_like unsafe_split _unsafe_view _reshape_alias _unsafe_index
"""
"""What puts numbers elsewhere, or makes new ones that are known, and computes nothing."""

EXACT = """
__or__ abs add add_ bitwise_and bitwise_and_ bitwise_not bitwise_or bitwise_or_ bitwise_xor clamp clamp_ clamp_min
clamp_max div div_ eq floor ge gt isfinite isinf isnan le logical_and logical_and_ logical_not logical_or lt maximum
minimum mul mul_ ne neg neg_ reciprocal remainder round rsub sign sub sub_ where smooth_l1_loss
smooth_l1_loss_backward threshold_backward relu leaky_relu leaky_relu_backward outer
scatter_add scatter_add_
"""
"""What is one operation with each number, rounded once, or a choice; ``scatter_add`` goes by the order of the index."""

CHOICES = "all any amax amin argmax argmin argsort max min sort topk unique_dim _unique2 bincount searchsorted"
"""What compares or counts alone: the order of numbers changes nothing."""

DRAWS = "rand randint randperm"
"""What takes the words of a generator as they are."""

KNOWN = {*MOVES.split(), *EXACT.split(), *CHOICES.split(), *DRAWS.split()}

CODE = """
import collections, json, sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import trainings, torch
from torch.utils._python_dispatch import TorchDispatchMode

seen = collections.Counter()

class Recorder(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        named = named or {}
        name = function.overloadpacket.__name__
        tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
        if name == "sum" and tensors and not tensors[0].is_floating_point():
            name = "count"
        if name in ("add", "sub", "add_", "sub_") and named.get("alpha", 1) != 1:
            name += " with alpha"
        if name == "pow":
            name += f" {arguments[1]}"
        if function.namespace == "aten":
            seen[name] += 1
        return function(*arguments, **named)

with Recorder(), trainings._quietly(), tempfile.TemporaryDirectory() as folder:
    for name in sys.argv[2:]:
        trainings.train(name, Path(folder))
print(json.dumps(seen))
"""

COUNTED = {"count", "pow 1.0", "pow 2", "pow 1", "pow 2.0"}
"""Sums of whole numbers, and squares, which are products."""

NAMES = [
    "ppo-policy-pair",
    "ppo-tanh",
    "ppo-job-pick-kernel",
    "a2c-job-pick",
    "reinforce-policy-pair",
    "dqn-job-pick",
    "d3qn-policy-pair",
    "rainbow-job-pick",
    "sac-job-pick",
    "ppo-attention",
    "ppo-dissertation-attention",
    "reinforce-sequence",
    "advisor-sequence",
    "ppo-gpu",
]


@pytest.mark.skipif(JIT_DISABLED, reason="without a compiler torch computes")
def test_torch_computes_nothing_that_depends_on_the_processor() -> None:
    words = [sys.executable, "-c", CODE, str(Path(__file__).parent), *NAMES]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = collections.Counter(json.loads(done.stdout))
    assert seen["copy_"] > 100, "operations were looked at"
    seen -= collections.Counter({"add_ with alpha": 1})  # one number less one: `hdrl.learn.skip_dynamo` tries a step
    assert sorted(set(seen) - KNOWN - COUNTED) == []
