"""ZeroOptimizer: ringzero's ZeRO as an optimizer of PyTorch."""

import contextlib
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Union

import torch

from ringzero import errors
from ringzero.communicator import Communicator
from ringzero.zero import Parameter, State, StepReport, Zero

from . import _settings, _tensors
from ._units import Units, units_of

Parameters = Union[torch.nn.Module, Iterable[Any]]

_STATE_VERSION = 1


class ZeroOptimizer(torch.optim.Optimizer):
    """Steps a model together with all ranks, which hold shards of the optimizer's states.

    Every rank has the same model and gives gradients of the mean loss of its own samples; the step
    is taken with their mean over ranks. The model starts from rank 0's values on all ranks.

    Stage 1 shards the optimizer's states. The parameters become views of ringzero's memory, and so
    do their gradients (with `overlap`, or a `communication_data_type`, they are taken as backward
    has them instead): nothing is copied. Stage 2 shards gradients too: each is taken out of
    `parameter.grad`, which becomes None, when backward has it, and reduced with its bucket while
    backward goes on. Stage 3 shards parameters too: those of a module are there during its forward
    and backward alone.

    Learning rates are read from param_groups at each step, so schedulers of PyTorch work; other
    settings are fixed. All ranks make the same calls. Used by one thread.

    Args:
      params: the model, parameters, (name, parameter) pairs, or param groups. Stage 3: the model.
      optim: "adamw", "adam", "sgd", "lion" or "adagrad"; with PyTorch's settings as `settings`.
      stage: 0 (nothing is sharded), 1, 2 or 3.
      config: more of DeepSpeed's keys (docs/configuration.md), e.g. {"gradient_clipping": 1.0}.
      comm: whose ranks; default the world.
      overlap: whether gradients are reduced while backward goes on; always so in stages 2 and 3.
      settings: lr, betas, eps, weight_decay, momentum, ...

    Raises:
      UnsupportedError: tensors on devices, types other than float32 and bfloat16, sparse gradients,
        stage 3 with several groups or parameters that modules share, settings that change.
      InvalidArgumentError: what cannot be; the text names it.
    """

    def __init__(self, params: Parameters, optim: str = "adamw", stage: int = 1,
                 config: Optional[Mapping[str, Any]] = None, comm: Optional[Communicator] = None,
                 overlap: bool = False, **settings: Any) -> None:
        if stage not in (0, 1, 2, 3):
            raise errors.InvalidArgumentError(f"stage is {stage!r}; expected 0, 1, 2 or 3")
        module = params if isinstance(params, torch.nn.Module) else None
        if stage == 3 and module is None:
            raise errors.UnsupportedError(
                "stage 3 gathers parameters around the forward of their modules; give the model: "
                "ZeroOptimizer(model, stage=3)")
        groups, names = _groups_of(params)
        self._built = False
        super().__init__(groups, _settings.defaults_of(optim, settings))
        self._built = True
        self._optim, self._stage = optim, stage
        self._comm = _tensors.world_or(comm)
        self._synchronizing = True
        self.last_report: Optional[StepReport] = None

        self._used_groups = [i for i, group in enumerate(self.param_groups)
                             if any(p.requires_grad for p in group["params"])]
        used = [self.param_groups[i] for i in self._used_groups]
        self._fixed = [_settings.fixed_settings(group, optim) for group in used]
        self._parameters: List[torch.Tensor] = []
        self._names: List[str] = []
        for i, group in enumerate(used):
            for parameter in group["params"]:
                if parameter.requires_grad:
                    self._parameters.append(parameter)
                    self._names.append(f"{i}/{names[id(parameter)]}")
        self._check_parameters()
        self._units = (Units(module, units_of(module, self._parameters, self._names))
                       if stage == 3 and module is not None else None)
        # Views have the parameters' type.
        self._views = (stage < 2 and not overlap and
                       "communication_data_type" not in (config or {}))
        self._zero = Zero(
            self._comm,
            [Parameter(name, tuple(parameter.shape),
                       self._units.unit_of(index) if self._units is not None else 0)
             for index, (name, parameter) in enumerate(zip(self._names, self._parameters))],
            _settings.config_of(optim, used, stage, self._parameters[0].dtype, config or {},
                                 self._views),
            self._views)
        self._announced = [False] * len(self._parameters)
        self._adopted: List[torch.Tensor] = []
        self._gradients: List[torch.Tensor] = []
        self._hooks: List[Any] = []
        self._start(module)
        self._comm.dependents.add(self)

    def _check_parameters(self) -> None:
        if not self._parameters:
            raise errors.InvalidArgumentError("there is no parameter that requires a gradient")
        kind = self._parameters[0].dtype
        for name, parameter in zip(self._names, self._parameters):
            _tensors.check_parameter(name, parameter)
            if parameter.dtype != kind:
                raise errors.UnsupportedError(
                    f"parameter {name} is of {parameter.dtype} and {self._names[0]} of {kind}; one "
                    f"optimizer has one type")

    def _start(self, module: Optional[torch.nn.Module]) -> None:
        self._zero.initialize(self._initial_values)
        own = {id(parameter) for parameter in self._parameters}
        others = [parameter.data for group in self.param_groups for parameter in group["params"]
                  if id(parameter) not in own]
        buffers = [] if module is None else [buffer.data for buffer in module.buffers()]
        _tensors.broadcast(self._comm, others + buffers)
        if not self._views:
            for index, parameter in enumerate(self._parameters):
                self._hooks.append(_tensors.after_accumulation(
                    parameter, lambda index=index: self._take(index)))
        if self._units is not None:
            self._units.start(self._zero, self._parameters, lambda: self._synchronizing)
        else:
            self._adopt()

    def _initial_values(self, index: int, values: Any) -> None:
        parameter = self._parameters[index]
        target = torch.frombuffer(values, dtype=torch.float32)
        target.copy_(parameter.detach().reshape(-1))

    def _adopt(self) -> None:
        # The model works on ringzero's memory from here on.
        for index, parameter in enumerate(self._parameters):
            parameter.data = _tensors.view_of(self._zero.parameter(index), parameter.dtype,
                                              parameter.shape, [parameter])
            self._adopted.append(parameter.data)
            if self._views:
                gradient = _tensors.view_of(self._zero.gradient(index), parameter.dtype,
                                            parameter.shape)
                gradient.zero_()
                self._gradients.append(gradient)
                parameter.grad = gradient

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Groups are given when the optimizer is made: UnsupportedError."""
        if self._built:
            raise errors.UnsupportedError(
                "parameter groups are laid out once; give all of them to ZeroOptimizer(...)")
        super().add_param_group(param_group)

    # Gradients.

    def _take(self, index: int) -> None:
        """Gives the library a gradient that backward has, and lets go of it."""
        parameter = self._parameters[index]
        if not self._synchronizing or parameter.grad is None:
            return
        name = self._names[index]
        if self._announced[index]:
            raise errors.FailedPreconditionError(
                f"backward came twice to {name} within a step; run all but the last backward of a "
                f"step within `with optimizer.no_sync():`")
        gradient = _tensors.dense_gradient(name, parameter.grad)
        if gradient.dtype != parameter.dtype:
            gradient = gradient.to(parameter.dtype)
        self._zero.add_gradient(index, gradient.data_ptr(), gradient.numel(),
                                _tensors.DTYPES[parameter.dtype])
        self._announced[index] = True
        parameter.grad = None
        if self._units is not None:
            self._units.took(index)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward within it only adds up in parameter.grad, on this rank; for accumulation."""
        before, self._synchronizing = self._synchronizing, False
        try:
            yield
        finally:
            self._synchronizing = before

    def _fill_views(self) -> None:
        for parameter, gradient, name in zip(self._parameters, self._gradients, self._names):
            if parameter.grad is gradient:
                continue
            if parameter.grad is None:
                gradient.zero_()
            elif parameter.grad.data_ptr() != gradient.data_ptr():
                gradient.copy_(_tensors.dense_gradient(name, parameter.grad))
            parameter.grad = gradient

    def _announce_rest(self) -> None:
        # In the order of backward, the same on all ranks.
        for index in reversed(range(len(self._parameters))):
            if not self._announced[index] and self._parameters[index].grad is not None:
                self._take(index)
        if self._units is not None:
            self._units.end_backward()
        self._announced = [False] * len(self._parameters)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Makes all gradients zero; with views, in place."""
        if self._views:
            for parameter, gradient in zip(self._parameters, self._gradients):
                gradient.zero_()
                parameter.grad = gradient
            return
        super().zero_grad(set_to_none=set_to_none)

    # Steps.

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Takes a step with all ranks; last_report says what it did.

        Returns:
          the closure's loss; None without one.

        Raises:
          OutOfRangeError: too many steps in a row had gradients that are not finite.
          UnsupportedError: a setting other than the learning rate was changed.
          otherwise: what the communicator has failed with.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        used = [self.param_groups[i] for i in self._used_groups]
        for group, fixed in zip(used, self._fixed):
            if _settings.fixed_settings(group, self._optim) != fixed:
                raise errors.UnsupportedError(
                    f"settings are {_settings.fixed_settings(group, self._optim)} and were {fixed}; "
                    f"only the learning rate may change")
        self._check_memory()
        if self._views:
            self._fill_views()
        else:
            self._announce_rest()
        rates = [float(group["lr"]) for group in used]
        self.last_report = self._zero.step(rates if len(rates) == 1 else [0.0] + rates)
        return loss

    def _check_memory(self) -> None:
        if self._units is not None:
            return
        for parameter, adopted, name in zip(self._parameters, self._adopted, self._names):
            if parameter.data_ptr() != adopted.data_ptr():
                raise errors.FailedPreconditionError(
                    f"{name} has left ringzero's memory (model.to(...), or parameter.data = ...); "
                    f"make the optimizer after that, and change values in place")

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        """Within it, in stage 3, all parameters are there, to be read, e.g. by model.state_dict().

        Between steps; collective. In other stages they always are.
        """
        if self._units is None:
            yield
            return
        with self._units.all_gathered():
            yield

    def memory(self) -> Dict[str, float]:
        """Bytes of model states that this rank holds, and the closed formula's."""
        return self._zero.memory()

    def close(self) -> None:
        """Ends it and gives the model memory of its own, in stage 3 none; closing the communicator does.

        Again: nothing happens.
        """
        for handle, _ in self._hooks:
            handle.remove()
        self._hooks = []
        if self._units is not None:
            self._units.close()
        for parameter in self._parameters if self._units is None else []:
            parameter.data = parameter.data.clone()
            if self._views:
                parameter.grad = None
        self._adopted, self._gradients = [], []
        self._comm.dependents.discard(self)
        self._zero.close()

    # What is saved.

    def _identity(self) -> Dict[str, Any]:
        return {"version": _STATE_VERSION, "optim": self._optim, "stage": self._stage,
                "rank": self._comm.rank, "world_size": self._comm.size,
                "parameters": [(name, tuple(parameter.shape), str(parameter.dtype))
                               for name, parameter in zip(self._names, self._parameters)]}

    def state_dict(self) -> Dict[str, Any]:
        """This rank's shard of the states, with param_groups; each rank saves its own.

        The parameters are the model's state_dict(), but in stage 3 they are in here.
        """
        state = super().state_dict()
        shards = {kind.name.lower(): torch.frombuffer(memory, dtype=torch.uint8).clone()
                  for kind in State for memory in [self._zero.state(kind)] if len(memory) > 0}
        state["ringzero"] = {**self._identity(), "steps": self._zero.steps_taken,
                             "shards": shards}
        return state

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Goes on from what state_dict() of the same rank gave, of as many ranks.

        Raises:
          InvalidArgumentError: it is of another rank, number of ranks, model, optimizer or stage.
        """
        found = state_dict.get("ringzero")
        if found is None:
            raise errors.InvalidArgumentError(
                "this state is of another optimizer; expected one of ZeroOptimizer.state_dict()")
        for key, expected in self._identity().items():
            if found.get(key) != expected:
                raise errors.InvalidArgumentError(
                    f"this state has {key} {found.get(key)}, and this optimizer {expected}; each "
                    f"rank loads what it has saved")
        super().load_state_dict({"state": {}, "param_groups": state_dict["param_groups"]})
        for kind in State:
            memory = self._zero.state(kind)
            if len(memory) > 0:
                torch.frombuffer(memory, dtype=torch.uint8).copy_(
                    found["shards"][kind.name.lower()])
        self._zero.resume(found["steps"])


def _groups_of(params: Parameters) -> Tuple[List[Dict[str, Any]], Dict[int, str]]:
    """Param groups of plain parameters, and the name of each by its id."""
    names: Dict[int, str] = {}

    def plain(entries: Iterable[Any]) -> List[torch.Tensor]:
        found = []
        for entry in [entries] if isinstance(entries, torch.Tensor) else entries:
            name, parameter = entry if isinstance(entry, tuple) else (None, entry)
            names.setdefault(id(parameter), name or f"parameter {len(names)}")
            found.append(parameter)
        return found

    if isinstance(params, torch.nn.Module):
        return [{"params": plain(params.named_parameters())}], names
    entries = [params] if isinstance(params, dict) else list(params)
    if entries and isinstance(entries[0], dict):
        return [{**group, "params": plain(group["params"])} for group in entries], names
    return [{"params": plain(entries)}], names
