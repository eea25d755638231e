"""The state of a compiled model of PyTorch: buffers and attributes that its calls change."""

import copy

import torch

from ..errors import Error
from ..state import PLAIN, ModelState


class TorchState(ModelState):
    """{name: tensor or attribute} (see ModelState). A tensor may change its shape from call to
    call."""

    def _copied(self, value):
        return value.clone() if isinstance(value, torch.Tensor) else copy.deepcopy(value)

    def _array_of(self, value):
        if not isinstance(value, torch.Tensor):
            if isinstance(value, PLAIN):
                return None
            raise Error(
                f"the state of {self._name} has a value of type {type(value).__name__}, which cannot be saved: "
                "keep tensors, numbers and texts"
            )
        try:
            return value.detach().cpu().numpy()
        except TypeError:
            raise Error(
                f"the state of {self._name} has a tensor of {value.dtype}, which cannot be saved: "
                "NumPy has no such type"
            ) from None

    def _value_of(self, array):
        return torch.from_numpy(array)

    def _is_like(self, first, found):
        return found.dtype == first.dtype
