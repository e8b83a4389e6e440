"""Code of a user's own that misbehaves in every way a builder of a model can, as the text of a module."""

from __future__ import annotations

OWN = '''
import os, sys, threading, time
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width=16, depth=2):
        super().__init__()
        self.e = nn.Embedding(11, width)
        self.b = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.h = nn.Linear(width, 11)
    def forward(self, ids):
        x = self.e(ids)
        for b in self.b:
            x = x + torch.tanh(b(x))
        return self.h(x)

def model(**change):
    made = Model()
    for name, forward in change.items():
        setattr(made, name, forward)
    return made

def good(): return model()
def prints(): print("{}" * 3); os.write(1, b'{"document": {}}\\n'); return model()
def forks(): os.fork(); return model()
def forks_on():
    if os.fork() == 0: time.sleep(60)
    return model()
def thread(): threading.Thread(target=time.sleep, args=(60,)).start(); return model()
def never():
    while True: pass
def sleeps(): time.sleep(60)
def interrupts(): raise KeyboardInterrupt
def ends(): raise SystemExit("so")
def kills(): os.kill(os.getpid(), 9)
def stops(): os.kill(os.getpid(), 19)
def closes(): os.closerange(3, 64); return model()
def closes_all(): os.closerange(0, 64); return model()
def empty(): return Model(width=0)
def shallow(): return Model(depth=0)
def huge(): return Model(width=2**40)
def words(): return model(), "words"
def floats(): return model(), torch.randn(2, 3)
def outside(): return model(), torch.full((2, 3), 99)
def negative(): return model(), torch.full((2, 3), -1)
def no_rows(): return model(), torch.zeros(0, 3, dtype=torch.int64)
def no_positions(): return model(), torch.zeros(2, 0, dtype=torch.int64)
def meta(): return Model().to("meta"), torch.zeros(2, 3, dtype=torch.int64)
def half(): return Model().half(), torch.zeros(2, 3, dtype=torch.int64)
def nan():
    made = Model()
    with torch.no_grad(): made.e.weight.fill_(float("nan"))
    return made
def deep_error(): return (lambda f: f(f))(lambda f: f(f))
def forward_raises(): return model(forward=lambda ids: 1 / 0)
def forward_interrupts():
    def forward(ids): raise KeyboardInterrupt
    return model(forward=forward)
def forward_none(): return model(forward=lambda ids: None)
def forward_ids(): return model(forward=lambda ids: ids)
def forward_hangs(): return model(forward=lambda ids: time.sleep(60))
def forward_exits(): return model(forward=lambda ids: os._exit(0))
def parameters_raise():
    made = Model(); made.named_parameters = None
    return made
class Odd(Model):
    @property
    def config(self): raise RuntimeError("no config")
def odd_property(): return Odd()
def recursion(): raise RecursionError("x" * 10000)
def lines(): raise ValueError("a\\nb\\nTraceback (most recent call last):")
class Loud(Exception):
    def __str__(self): raise RuntimeError("no words")
def no_words(): raise Loud()
def environment(): os.environ.clear(); os.chdir("/"); sys.path.clear(); return model()
def seed_torch(): torch.set_default_dtype(torch.float64); torch.set_grad_enabled(False); return model()
'''  # fmt: skip
