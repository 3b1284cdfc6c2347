"""Stage 3: the parameters of a module are there while it is used, and nowhere else.

1. A unit is a module whose parameters are gathered together. Autograd keeps views of parameters, so
   their memory is freed and given back under them, and not replaced.
2. Before a unit's forward its parameters are gathered and copied into that memory; after it, the
   memory is freed, and the gradient of its output, when it comes, gathers them again.
3. When backward has brought the gradients of all its parameters, the unit is released, which starts
   their reduction, and the memory is freed. Units that get only some are released at the step.
"""

import contextlib
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from ringzero import errors
from ringzero.zero import Pass, Zero

from . import _tensors


def units_of(model: torch.nn.Module, parameters: Sequence[torch.Tensor],
             names: Sequence[str]) -> List[Tuple[torch.nn.Module, List[int]]]:
    """The units of a model, with the indices of their parameters.

    Entries of ModuleList and Sequential are units, and so are the other modules that the model has;
    what the model has itself is one more.

    Raises:
      UnsupportedError: units share a parameter.
    """
    index_of = {id(parameter): index for index, parameter in enumerate(parameters)}
    units: List[Tuple[torch.nn.Module, List[int]]] = []
    seen: Dict[int, str] = {}

    def add(path: str, module: torch.nn.Module, own: Sequence[torch.Tensor]) -> None:
        indices = [index_of[id(p)] for p in own if id(p) in index_of]
        for index in indices:
            if index in seen:
                raise errors.UnsupportedError(
                    f"{names[index]} is shared by {seen[index]} and {path}; stage 3 has no shared "
                    f"parameters: use stage 2")
            seen[index] = path
        if indices:
            units.append((module, indices))

    def walk(path: str, module: torch.nn.Module) -> None:
        if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)):
            for name, child in module.named_children():
                walk(f"{path}.{name}", child)
        elif module is not model:
            add(path, module, list(module.parameters()))

    add("the model", model, list(model.parameters(recurse=False)))
    if isinstance(model, (torch.nn.ModuleList, torch.nn.Sequential)):
        walk("the model", model)
    else:
        for name, child in model.named_children():
            walk(name, child)
    return units


class Units:
    """The units of a model and where each stands."""

    def __init__(self, model: torch.nn.Module,
                 units: List[Tuple[torch.nn.Module, List[int]]]) -> None:
        self._model = model
        self._units = units
        self._unit_of = {index: unit for unit, (_, indices) in enumerate(units)
                         for index in indices}
        self._present: List[Optional[Pass]] = [None] * len(units)
        self._missing = [0] * len(units)  # gradients of the backward pass that are to come
        self._released = [False] * len(units)
        self._hooks: List[Any] = []

    def unit_of(self, index: int) -> int:
        """The unit of a parameter."""
        return self._unit_of[index]

    def start(self, zero: Zero, parameters: Sequence[torch.Tensor],
              synchronizing: Callable[[], bool]) -> None:
        """Takes over the parameters, which are initialized, and frees their memory."""
        self._zero, self._parameters, self._synchronizing = zero, parameters, synchronizing
        _tensors.keep_freed_memory()
        for unit, (module, indices) in enumerate(self._units):
            for index in indices:
                parameter = parameters[index]
                parameter.data = torch.empty(parameter.shape, dtype=parameter.dtype)
                _tensors.resize_storage(parameter.data, 0)
            self._hooks.append(module.register_forward_pre_hook(
                lambda module, inputs, unit=unit: self._before_forward(unit)))
            self._hooks.append(module.register_forward_hook(
                lambda module, inputs, outputs, unit=unit: self._after_forward(unit, outputs)))

    def close(self) -> None:
        """Lets the model be."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _bring(self, unit: int, purpose: Pass) -> None:
        if self._present[unit] is not None:
            return
        self._zero.gather(unit, purpose)
        self._present[unit] = purpose
        with torch.no_grad():
            for index in self._units[unit][1]:
                target = self._parameters[index].data
                _tensors.resize_storage(target, target.numel())
                source = torch.frombuffer(self._zero.parameter(index), dtype=target.dtype)
                target.copy_(source.view(target.shape))

    def _let_go(self, unit: int) -> None:
        purpose, self._present[unit] = self._present[unit], None
        if purpose is None:
            return
        for index in self._units[unit][1]:
            _tensors.resize_storage(self._parameters[index].data, 0)
        self._zero.release(unit, purpose)

    def _before_forward(self, unit: int) -> None:
        self._bring(unit, Pass.FORWARD if torch.is_grad_enabled() else Pass.EVALUATION)

    def _after_forward(self, unit: int, outputs: Any) -> None:
        if self._present[unit] in (Pass.FORWARD, Pass.EVALUATION):
            self._let_go(unit)
        for tensor in _tensors_in(outputs):
            if tensor.requires_grad:
                tensor.register_hook(lambda _, unit=unit: self._before_backward(unit))

    def _before_backward(self, unit: int) -> None:
        if self._present[unit] is not None:
            return
        # Without synchronization gradients stay where they are, and the unit is open for more.
        self._bring(unit, Pass.BACKWARD if self._synchronizing() else Pass.FORWARD)
        self._missing[unit] = len(self._units[unit][1])
        if not self._synchronizing():
            _tensors.after_backward(lambda: self._let_go(unit))

    def took(self, index: int) -> None:
        """A parameter's gradient has been given to the library."""
        unit = self._unit_of[index]
        self._missing[unit] -= 1
        if self._present[unit] == Pass.BACKWARD and self._missing[unit] == 0:
            self._let_go(unit)
            self._released[unit] = True

    def end_backward(self) -> None:
        """Releases what backward has not brought all gradients of; from the last unit on."""
        for unit in reversed(range(len(self._units))):
            if self._present[unit] is not None:
                self._let_go(unit)
            elif not self._released[unit]:
                self._zero.release(unit, Pass.BACKWARD)
            self._released[unit] = False

    @contextlib.contextmanager
    def all_gathered(self) -> Iterator[None]:
        """Has all parameters there within it, to be read."""
        for unit in range(len(self._units)):
            self._bring(unit, Pass.EVALUATION)
        try:
            yield
        finally:
            for unit in range(len(self._units)):
                self._let_go(unit)


def _tensors_in(outputs: Any) -> Iterator[torch.Tensor]:
    if isinstance(outputs, torch.Tensor):
        yield outputs
    elif isinstance(outputs, dict):
        for value in outputs.values():
            yield from _tensors_in(value)
    elif isinstance(outputs, (list, tuple)):
        for value in outputs:
            yield from _tensors_in(value)
