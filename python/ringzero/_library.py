"""libringzero.so: where it is, its structs and its functions."""

import ctypes
import operator
import os
import re
import sys
from ctypes import (
    POINTER, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p)
from typing import Any, Callable, Dict, List, Optional

from . import errors

NAME = "libringzero.so"

# The interface this package was written for; a library has it from this version on.
MAJOR, MINOR = 0, 1


class ServerOptions(ctypes.Structure):
    """rz_server_options_t."""

    _fields_ = [("size", c_size_t), ("listen", c_char_p), ("token_file", c_char_p),
                ("insecure", c_int32)]


class JobOptions(ctypes.Structure):
    """rz_job_options_t."""

    _fields_ = [("size", c_size_t), ("rendezvous", c_char_p), ("job", c_char_p),
                ("world_size", c_int32), ("rank", c_int32), ("token_file", c_char_p),
                ("connect_timeout", c_double), ("join_timeout", c_double),
                ("transport", c_char_p), ("agreement", c_uint64)]


class CommOptions(ctypes.Structure):
    """rz_comm_options_t."""

    _fields_ = [("size", c_size_t), ("numeric_mode", c_int32), ("algorithms", c_char_p),
                ("timeout", c_double), ("flight_dir", c_char_p), ("no_shared_memory", c_int32),
                ("no_call_checks", c_int32)]


class RebuildOptions(ctypes.Structure):
    """rz_rebuild_options_t."""

    _fields_ = [("size", c_size_t), ("min_ranks", c_int32), ("timeout", c_double)]


class CommMetrics(ctypes.Structure):
    """rz_comm_metrics_t."""

    _fields_ = [("size", c_size_t)] + [
        (name, c_int64)
        for name in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                     "all_to_all", "gather", "scatter", "messages", "control", "between_hosts")]


class Parameter(ctypes.Structure):
    """rz_parameter_t."""

    _fields_ = [("name", c_char_p), ("shape", POINTER(c_int64)), ("dimensions", c_int32),
                ("unit", c_int32)]


class ZeroOptions(ctypes.Structure):
    """rz_zero_options_t."""

    _fields_ = [("size", c_size_t), ("config", c_char_p), ("gradient_views", c_int32)]


class StepReport(ctypes.Structure):
    """rz_step_report_t."""

    _fields_ = [("size", c_size_t), ("step", c_int64), ("skipped", c_int32),
                ("non_finite_count", c_int64)] + [
        (name, c_double)
        for name in ("norm", "clipped_norm", "learning_rate", "loss_scale", "step_seconds",
                     "optimizer_seconds", "exposed_seconds", "hidden_seconds")] + [
        ("payload_bytes", c_int64), ("control_bytes", c_int64)]


class MemoryReport(ctypes.Structure):
    """rz_memory_report_t."""

    _fields_ = [("size", c_size_t)] + [
        (name, c_int64)
        for name in ("parameters", "gradients", "master", "moment1", "moment2", "total")] + [
        ("total_by_formula", c_double), ("total_padding", c_double), ("other", c_int64),
        ("other_peak", c_int64)]


INITIALIZER = ctypes.CFUNCTYPE(None, c_void_p, c_size_t, POINTER(c_float), c_size_t)
REDUCE_FUNCTION = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p, c_size_t, c_int32,
                                   c_void_p)

# What functions that the library calls have raised, to be the cause of what its call ends with.
raised: List[BaseException] = []


def _int32(value: Any) -> int:
    number = operator.index(value)
    if not -2**31 <= number < 2**31:
        raise OverflowError(f"{number} does not fit into 32 bits")
    return number


def int32_field(name: str, value: Any) -> int:
    """A number for a structure, whose fields ctypes would cut too.

    Raises:
      InvalidArgumentError: it is none, or does not fit.
    """
    try:
        return _int32(value)
    except (OverflowError, TypeError) as error:
        raise errors.InvalidArgumentError(f"{name} is {value!r}: {error}") from None


class _Int32(c_int32):
    """An int32_t that a caller of this package gives; ctypes would cut off what does not fit."""

    @classmethod
    def from_param(cls, value: Any) -> c_int32:
        """What ctypes passes for the argument."""
        return c_int32(_int32(value))


_COUNTS = POINTER(c_size_t)
_REQUEST = POINTER(c_void_p)

# The arguments of every function that returns an rz_result_t.
_ARGUMENTS: Dict[str, List[Any]] = {
    "rz_server_start": [POINTER(ServerOptions), POINTER(c_void_p)],
    "rz_server_address": [c_void_p, c_char_p, c_size_t],
    "rz_server_stop": [c_void_p],
    "rz_init": [POINTER(JobOptions), POINTER(c_void_p)],
    "rz_job_barrier": [c_void_p, c_char_p, c_double],
    "rz_job_fail": [c_void_p, c_char_p],
    "rz_finalize": [c_void_p],
    "rz_comm_create": [c_void_p, POINTER(CommOptions), POINTER(c_void_p)],
    "rz_comm_split": [c_void_p, _Int32, _Int32, POINTER(c_void_p)],
    "rz_comm_rebuild": [c_void_p, POINTER(RebuildOptions), POINTER(c_void_p)],
    "rz_comm_destroy": [c_void_p],
    "rz_comm_abort": [c_void_p, c_char_p],
    "rz_comm_get_error": [c_void_p, POINTER(c_int32), c_char_p, c_size_t],
    "rz_comm_rank": [c_void_p, POINTER(c_int32)],
    "rz_comm_count": [c_void_p, POINTER(c_int32)],
    "rz_comm_hosts": [c_void_p, POINTER(c_int32)],
    "rz_mem_alloc": [POINTER(c_void_p), c_size_t, c_void_p],
    "rz_mem_free": [c_void_p, c_void_p],
    "rz_op_create_premul_sum": [POINTER(c_int32), c_void_p, c_int32, c_void_p],
    "rz_op_create": [POINTER(c_int32), REDUCE_FUNCTION, c_void_p, c_uint32, c_void_p],
    "rz_op_destroy": [c_int32, c_void_p],
    "rz_all_reduce": [c_void_p, c_void_p, c_size_t, c_int32, _Int32, c_void_p, _REQUEST],
    "rz_reduce": [c_void_p, c_void_p, c_size_t, c_int32, _Int32, _Int32, c_void_p, _REQUEST],
    "rz_reduce_scatter": [c_void_p, c_void_p, c_size_t, c_int32, _Int32, c_void_p, _REQUEST],
    "rz_reduce_scatter_v": [c_void_p, c_void_p, _COUNTS, c_int32, _Int32, c_void_p, _REQUEST],
    "rz_all_gather": [c_void_p, c_void_p, c_size_t, c_int32, c_void_p, _REQUEST],
    "rz_all_gather_v": [c_void_p, c_void_p, _COUNTS, c_int32, c_void_p, _REQUEST],
    "rz_gather": [c_void_p, c_void_p, c_size_t, c_int32, _Int32, c_void_p, _REQUEST],
    "rz_scatter": [c_void_p, c_void_p, c_size_t, c_int32, _Int32, c_void_p, _REQUEST],
    "rz_broadcast": [c_void_p, c_void_p, c_size_t, c_int32, _Int32, c_void_p, _REQUEST],
    "rz_all_to_all": [c_void_p, c_void_p, c_size_t, c_int32, c_void_p, _REQUEST],
    "rz_all_to_all_v": [c_void_p, _COUNTS, c_void_p, _COUNTS, c_int32, c_void_p, _REQUEST],
    "rz_barrier": [c_void_p, _REQUEST],
    "rz_send": [c_void_p, c_size_t, c_int32, _Int32, c_void_p, _REQUEST],
    "rz_recv": [c_void_p, c_size_t, c_int32, _Int32, c_void_p, _REQUEST],
    "rz_wait": [_REQUEST, c_double],
    "rz_test": [_REQUEST, POINTER(c_int32)],
    "rz_group_start": [c_void_p],
    "rz_group_end": [c_void_p, _REQUEST],
    "rz_comm_get_metrics": [c_void_p, POINTER(CommMetrics)],
    "rz_comm_dump_flight_record": [c_void_p, c_char_p],
    "rz_zero_create": [c_void_p, POINTER(Parameter), c_size_t, POINTER(ZeroOptions),
                       POINTER(c_void_p)],
    "rz_zero_destroy": [c_void_p],
    "rz_zero_initialize": [c_void_p, INITIALIZER, c_void_p],
    "rz_zero_dtype": [c_void_p, POINTER(c_int32)],
    "rz_zero_parameter": [c_void_p, c_size_t, POINTER(c_void_p), POINTER(c_size_t)],
    "rz_zero_gradient": [c_void_p, c_size_t, POINTER(c_void_p), POINTER(c_size_t)],
    "rz_zero_add_gradient": [c_void_p, c_size_t, c_void_p, c_size_t, c_int32],
    "rz_zero_end_micro_step": [c_void_p],
    "rz_zero_gather": [c_void_p, c_size_t, c_int32],
    "rz_zero_prefetch": [c_void_p, c_size_t, c_int32],
    "rz_zero_release": [c_void_p, c_size_t, c_int32],
    "rz_zero_step": [c_void_p, c_double, POINTER(StepReport)],
    "rz_zero_step_groups": [c_void_p, POINTER(c_double), c_size_t, POINTER(StepReport)],
    "rz_zero_state": [c_void_p, c_int32, POINTER(c_void_p), POINTER(c_size_t)],
    "rz_zero_resume": [c_void_p, c_int64],
    "rz_zero_steps_taken": [c_void_p, POINTER(c_int64)],
    "rz_zero_learning_rate": [c_void_p, POINTER(c_double)],
    "rz_zero_gradient_scale": [c_void_p, c_int64, POINTER(c_double)],
    "rz_zero_memory": [c_void_p, POINTER(MemoryReport)],
}


def _candidates() -> List[str]:
    """Where the library may be, the first that exists wins."""
    chosen = os.environ.get("RZ_LIBRARY")
    if chosen:
        return [os.path.join(chosen, NAME) if os.path.isdir(chosen) else chosen]
    here = os.path.dirname(os.path.abspath(__file__))
    # An installed package is PREFIX/lib/pythonX.Y/site-packages/ringzero.
    prefixes = [os.path.abspath(os.path.join(here, *[os.pardir] * 4)), sys.prefix, "/usr/local"]
    return [os.path.join(here, NAME)] + [
        os.path.join(prefix, "lib", NAME) for prefix in prefixes]


def find() -> str:
    """The path of libringzero.so, or its bare name, which the system's loader looks for.

    Raises:
      LibraryError: RZ_LIBRARY names no file.
    """
    candidates = _candidates()
    for path in candidates:
        if os.path.exists(path):
            return path
    if os.environ.get("RZ_LIBRARY"):
        raise errors.LibraryError(
            f"RZ_LIBRARY is {os.environ['RZ_LIBRARY']!r}, and there is no {candidates[0]}; "
            f"set it to the path of {NAME} or of its folder, or unset it")
    return NAME


def _open() -> ctypes.CDLL:
    path = find()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        places = ", ".join(_candidates())
        raise errors.LibraryError(
            f"cannot load {path}: {error}. Looked at {places} and where the system looks. Install "
            f"ringzero or its wheel, or set RZ_LIBRARY to the path of {NAME}") from None
    for name, arguments in _ARGUMENTS.items():
        function = getattr(library, name, None)
        if function is None:
            raise errors.LibraryError(f"{path} has no {name}; it is not of this package's version")
        function.argtypes = arguments
        function.restype = c_int32
    for name in ("rz_last_error", "rz_version_string", "rz_features"):
        getattr(library, name).restype = c_char_p
    version = library.rz_version_string().decode()
    if not version[:1].isdigit():  # its other half is missing, and this says why
        raise errors.LibraryError(version)
    if version.split(".")[:2] != [str(MAJOR), str(MINOR)]:
        raise errors.LibraryError(
            f"{path} has version {version}, and this package is for {MAJOR}.{MINOR}")
    return library


_loaded: Optional[ctypes.CDLL] = None


def library() -> ctypes.CDLL:
    """The library, loaded at the first use. ctypes lets go of the GIL during its calls."""
    global _loaded  # pylint: disable=global-statement
    if _loaded is None:
        _loaded = _open()
    return _loaded


def check(result: int) -> None:
    """Raises the exception for a result that is not RZ_OK, with this thread's text."""
    if result == 0:
        return
    error = errors.of_status(result, library().rz_last_error().decode("utf-8", "replace"))
    if not raised or result not in (errors.AbortedError.status, errors.UnavailableError.status):
        raise error
    cause = raised[0]
    raised.clear()
    if not isinstance(cause, Exception):  # KeyboardInterrupt, SystemExit
        raise cause
    raise error from cause


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns an rz_result_t, and raises what it says.

    Raises:
      InvalidArgumentError: also for what is no number, or none that the function can be given.
    """
    function: Callable[..., int] = getattr(library(), name)
    try:
        result = function(*arguments)
    except ctypes.ArgumentError as error:
        why = re.sub(r"<class '\w+'>: ", "", str(error))
        raise errors.InvalidArgumentError(f"{name}: {why}") from None
    check(result)


def text(value: Optional[str]) -> Optional[bytes]:
    """Text for the library; None is its default.

    Raises:
      InvalidArgumentError: it has a NUL, where the library's text would end.
    """
    if value is None:
        return None
    encoded = os.fsencode(value)
    if b"\0" in encoded:
        raise errors.InvalidArgumentError(f"{value!r} has a NUL, where text ends; leave it out")
    return encoded
