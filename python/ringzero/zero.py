"""The ZeRO optimizer of the library: parameters and a configuration in, steps and reports out.

ringzero.torch builds on it; it has no PyTorch in it.
"""

import ctypes
import enum
import json
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from . import _library, dtypes
from .communicator import Communicator
from .request import call_interruptibly


class Pass(enum.IntEnum):
    """What parameters are gathered and released for."""

    FORWARD = 0
    BACKWARD = 1
    EVALUATION = 2


class State(enum.IntEnum):
    """What a rank owns: see rz_zero_state."""

    MASTER = 0
    MOMENT1 = 1
    MOMENT2 = 2
    PARAMETERS = 3


class Parameter(NamedTuple):
    """A parameter of a model, in the order of declaration; what is used together has one unit."""

    name: str
    shape: Tuple[int, ...]
    unit: int = 0


class StepReport(NamedTuple):
    """What a step did; see rz_step_report_t. Times are in seconds."""

    step: int
    skipped: bool
    non_finite_count: int
    norm: float
    clipped_norm: float
    learning_rate: float
    loss_scale: float
    step_seconds: float
    optimizer_seconds: float
    exposed_seconds: float
    hidden_seconds: float
    payload_bytes: int
    control_bytes: int


class Zero:
    """One rank's model states, sharded as the stage says, stepped together with all other ranks.

    The order of calls is that of rz_zero_t: initialize; then in each step gather, add_gradient and
    release where the stage asks for them, and step. All but views and reports are collective; so is
    making one where a shard_group_size makes several groups of ranks. The memory of views is the
    library's: it is kept as long as this object is.

    Args:
      comm: whose ranks.
      parameters: alike on all ranks.
      config: DeepSpeed's keys (docs/configuration.md).
      gradient_views: gradients are written into views; stages 0 and 1, without micro-steps and a
        communication_data_type other than the parameters'.

    Raises:
      InvalidArgumentError: a parameter or a key that cannot be; the text names it.
      UnsupportedError: a key that is known and not honoured.
    """

    def __init__(self, comm: Communicator, parameters: Sequence[Parameter],
                 config: Mapping[str, Any], gradient_views: bool = False) -> None:
        self._comm = comm
        self._handle = ctypes.c_void_p()
        comm.loans.end_unused()
        table, kept = _table(parameters)
        options = _library.ZeroOptions(ctypes.sizeof(_library.ZeroOptions),
                                       json.dumps(config).encode(), int(gradient_views))
        comm.loans.add(self, "rz_zero_destroy", self._handle)
        call_interruptibly(comm.handle, "rz_zero_create", comm.handle, table, len(parameters),
                           ctypes.byref(options), ctypes.byref(self._handle))
        del kept
        number = ctypes.c_int32()
        _library.call("rz_zero_dtype", self._handle, ctypes.byref(number))
        self.dtype = dtypes.DType(number.value)

    def initialize(self, values_of: Callable[[int, Any], None]) -> None:
        """Sets all parameters to what rank 0 says, all states to zero, and the step count to 0.

        Args:
          values_of: called on rank 0 alone with the index of each parameter and a ctypes array of
            floats, [elements], to be filled.
        """
        raised: List[BaseException] = []

        def initializer(_: Any, index: int, values: Any, count: int) -> None:
            try:
                if count > 0:
                    address = ctypes.cast(values, ctypes.c_void_p).value or 0
                    values_of(index, (ctypes.c_float * count).from_address(address))
            except BaseException as error:  # pylint: disable=broad-except
                raised.append(error)

        try:
            self._wait("rz_zero_initialize", _library.INITIALIZER(initializer), None)
        finally:
            if raised:
                raise raised[0]  # also where an interrupt has ended the wait

    def parameter(self, index: int) -> Any:
        """The working parameter, as a ctypes array of bytes of `dtype`; to be read."""
        return self._view("rz_zero_parameter", index)

    def gradient(self, index: int) -> Any:
        """The gradient that is to be written before each step, as a ctypes array of bytes."""
        return self._view("rz_zero_gradient", index)

    def _view(self, name: str, index: int) -> Any:
        pointer, count = ctypes.c_void_p(), ctypes.c_size_t()
        _library.call(name, self._handle, index, ctypes.byref(pointer), ctypes.byref(count))
        return self._memory_at(pointer, count.value * dtypes.size_of(self.dtype))

    def _memory_at(self, pointer: ctypes.c_void_p, nbytes: int) -> Any:
        if nbytes == 0:
            return (ctypes.c_uint8 * 0)()
        view: Any = (ctypes.c_uint8 * nbytes).from_address(pointer.value or 0)
        view.owner = self  # the memory lives as long as its views
        return view

    def add_gradient(self, index: int, address: Optional[int], count: int,
                     dtype: dtypes.DType) -> None:
        """Adds elements in memory as the gradient of a parameter; they are read during the call."""
        self._wait("rz_zero_add_gradient", index, address, count, dtype)

    def end_micro_step(self) -> None:
        """Ends a micro-step that is not the step's last."""
        self._wait("rz_zero_end_micro_step")

    def gather(self, unit: int, purpose: Pass) -> None:
        """Brings the parameters of a unit here."""
        self._wait("rz_zero_gather", unit, purpose)

    def prefetch(self, unit: int, purpose: Pass) -> None:
        """Begins that ahead of use, without waiting."""
        self._wait("rz_zero_prefetch", unit, purpose)

    def release(self, unit: int, purpose: Pass) -> None:
        """The unit has been used."""
        self._wait("rz_zero_release", unit, purpose)

    def step(self, learning_rates: Optional[Sequence[float]] = None) -> StepReport:
        """Takes a step.

        Args:
          learning_rates: of the parameters that no group of the configuration matches, and then of
            each group; None is what the configuration's schedule says.
        """
        filled = _library.StepReport(ctypes.sizeof(_library.StepReport))
        if learning_rates is None:
            self._wait("rz_zero_step", -1.0, ctypes.byref(filled))
        else:
            rates = (ctypes.c_double * len(learning_rates))(*learning_rates)
            self._wait("rz_zero_step_groups", rates, len(rates), ctypes.byref(filled))
        values = {name: getattr(filled, name) for name in StepReport._fields}
        values["skipped"] = bool(values["skipped"])
        return StepReport(**values)

    def state(self, state: State) -> Any:
        """What this rank owns, as a ctypes array of bytes; it may be written, and then resume."""
        pointer, nbytes = ctypes.c_void_p(), ctypes.c_size_t()
        _library.call("rz_zero_state", self._handle, state, ctypes.byref(pointer),
                      ctypes.byref(nbytes))
        return self._memory_at(pointer, nbytes.value)

    def resume(self, steps: int) -> None:
        """Goes on after so many steps, with states that were written."""
        _library.call("rz_zero_resume", self._handle, steps)

    @property
    def steps_taken(self) -> int:
        """Steps that were taken and not skipped."""
        steps = ctypes.c_int64()
        _library.call("rz_zero_steps_taken", self._handle, ctypes.byref(steps))
        return steps.value

    def gradient_scale(self, samples: int) -> float:
        """What the sum over this rank's samples is multiplied by, of `samples` over all ranks."""
        scale = ctypes.c_double()
        _library.call("rz_zero_gradient_scale", self._handle, samples, ctypes.byref(scale))
        return scale.value

    def memory(self) -> Dict[str, float]:
        """Bytes of model states that this rank holds, by purpose, and the closed formula's."""
        filled = _library.MemoryReport(ctypes.sizeof(_library.MemoryReport))
        _library.call("rz_zero_memory", self._handle, ctypes.byref(filled))
        return {name: getattr(filled, name) for name, *_ in filled._fields_ if name != "size"}

    def close(self) -> None:
        """Frees the memory, of which no view may be used any more. Again: nothing happens."""
        if self._handle:
            _library.call("rz_zero_destroy", self._handle)
            self._handle.value = None

    def _wait(self, name: str, *arguments: Any) -> None:
        call_interruptibly(self._comm.handle, name, self._handle, *arguments)


def _table(parameters: Sequence[Parameter]) -> Tuple[Any, List[Any]]:
    """The library's table, and what it points to."""
    kept: List[Any] = []
    table = (_library.Parameter * len(parameters))()
    for entry, parameter in zip(table, parameters):
        shape = (ctypes.c_int64 * len(parameter.shape))(*parameter.shape)
        kept.append(shape)
        entry.name = parameter.name.encode()
        entry.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        entry.dimensions = len(parameter.shape)
        entry.unit = parameter.unit
    return table, kept
