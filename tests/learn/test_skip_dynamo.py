"""Optimisers do not load torch's compiler, but tell it what it needs to know when somebody else loads it."""

import os
import subprocess
import sys

import pytest

CODE = """
import sys
import torch
import hdrl.learn
from hdrl.compiled.backends import IS_FAST

assert not IS_FAST or "numba" not in sys.modules, "trainings load Numba only to compile"

def step(weights):
    optimizer = torch.optim.Adam([weights], fused=True)
    optimizer.zero_grad()
    weights.square().sum().backward()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    return weights.detach().tolist()

def loaded():
    return "torch._dynamo.eval_frame" in sys.modules

def kept():
    return torch.optim.Optimizer.zero_grad.__wrapped__.__dynamo_disable.__module__

first = step(torch.ones(2, requires_grad=True))
print(loaded(), kept())
{load}
print(loaded(), step(torch.ones(2, requires_grad=True)) == first, kept())
"""


@pytest.mark.parametrize("load", ["import torch._dynamo.config", "torch.compiler.disable(print)"])
def test_the_compiler_is_not_loaded_but_told_when_it_is(load: str) -> None:
    code = CODE.replace("{load}", load)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, timeout=120)
    assert done.returncode == 0, done.stderr
    before, after = done.stdout.splitlines()
    assert before == "False torch.optim.optimizer"
    assert after == "True True torch._dynamo.eval_frame", "torch does as it always does"


WITHDRAWN = """
import sys
import torch
from hdrl.learn import skip_dynamo

sys.modules["torch._dynamo"].withdraw()
def fails(*_):
    raise RuntimeError("another version wants something else")
skip_dynamo._StandIn.graph_break = fails
skip_dynamo.spare_compiler()
print("torch._dynamo" in sys.modules)
weights = torch.ones(2, requires_grad=True)
weights.grad = torch.ones(2)
torch.optim.Adam([weights]).step()
print("torch._dynamo.eval_frame" in sys.modules)
"""


def test_what_does_not_do_for_this_torch_is_withdrawn() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHDRAWN], capture_output=True, text=True, env=os.environ, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["False", "True"]
