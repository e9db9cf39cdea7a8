"""Optimisers do not load torch's compiler, but tell it what it needs to know when somebody else loads it."""

import os
import subprocess
import sys

COMMON = """
import os
import sys
import torch
import hdrl.learn
from hdrl.compiled.backends import IS_FAST
from hdrl.learn import skip_dynamo

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

def in_a_copy(function):
    process = os.fork()
    if not process:
        function()
        sys.stdout.flush()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
"""


def printed(code: str) -> list[str]:
    """Return the lines that code prints; its copies save importing torch once more for each case."""
    done = subprocess.run(
        [sys.executable, "-c", COMMON + code], capture_output=True, text=True, env=os.environ, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


LOADED = """
def told(load):
    first = step(torch.ones(2, requires_grad=True))
    print(loaded(), kept())
    exec(load)
    print(loaded(), step(torch.ones(2, requires_grad=True)) == first, kept())

for load in ("import torch._dynamo.config", "torch.compiler.disable(print)"):
    in_a_copy(lambda: told(load))
"""

WITHDRAWN = """
def withdrawn():
    sys.modules["torch._dynamo"].withdraw()
    def fails(*_):
        raise RuntimeError("another version wants something else")
    skip_dynamo._StandIn.graph_break = fails
    skip_dynamo.spare_compiler()
    print("torch._dynamo" in sys.modules)
    weights = torch.ones(2, requires_grad=True)
    weights.grad = torch.ones(2)
    torch.optim.Adam([weights]).step()
    print(loaded())

in_a_copy(withdrawn)
"""


def test_the_compiler_is_not_loaded_but_told_when_it_is_and_withdrawn_where_it_does_not_do() -> None:
    lines = printed(LOADED + WITHDRAWN)
    # as before, then as torch always does
    told = ["False torch.optim.optimizer", "True True torch._dynamo.eval_frame"]
    assert lines == [*told, *told, "False", "True"]
