"""nsNet2, the noise suppressor of Braun and Tashev (2020, arXiv:2008.06412), width 400."""

import torch
from torch import nn


class NsNet2(nn.Module):
    """Spectral gains of all frames of a recording."""

    def __init__(self, bins: int = 161):
        super().__init__()
        self.encode = nn.Linear(bins, 400)
        self.recur = nn.GRU(400, 400, num_layers=2, batch_first=True)
        self.decode = nn.Sequential(
            nn.Linear(400, 600),
            nn.ReLU(),
            nn.Linear(600, 600),
            nn.ReLU(),
            nn.Linear(600, bins),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.decode(self.recur(self.encode(x))[0])


class NsNet2Step(nn.Module):
    """The same network one frame at a time, its GRU cells written out, the state outside."""

    def __init__(self, whole: NsNet2):
        super().__init__()
        self.whole = whole

    def forward(self, x, state0, state1):
        state0 = self._cell(0, self.whole.encode(x), state0)
        state1 = self._cell(1, state0, state1)
        return self.whole.decode(state1), state0, state1

    def _cell(self, layer, x, state):
        part = lambda kind: getattr(self.whole.recur, f"{kind}_l{layer}")
        from_x = x @ part("weight_ih").T + part("bias_ih")
        from_state = state @ part("weight_hh").T + part("bias_hh")
        reset_x, update_x, new_x = from_x.split(400, 1)
        reset_state, update_state, new_state = from_state.split(400, 1)
        reset = torch.sigmoid(reset_x + reset_state)
        update = torch.sigmoid(update_x + update_state)
        new = torch.tanh(new_x + reset * new_state)
        return (1 - update) * new + update * state


def nsnet2() -> nn.Module:
    return NsNet2()


def nsnet2_step() -> nn.Module:
    return NsNet2Step(NsNet2())
