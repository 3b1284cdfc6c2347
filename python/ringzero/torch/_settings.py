"""PyTorch's settings of optimizers in the words of ringzero's configuration."""

from typing import Any, Dict, List, Mapping, Sequence

import torch

from ringzero import errors

# What each optimizer is set with, and PyTorch's defaults.
DEFAULTS: Dict[str, Dict[str, Any]] = {
    "adamw": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
    "adam": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0},
    "sgd": {"lr": 1e-3, "momentum": 0.0, "dampening": 0.0, "nesterov": False, "weight_decay": 0.0},
    "lion": {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0.0},
    "adagrad": {"lr": 1e-2, "lr_decay": 0.0, "eps": 1e-10, "weight_decay": 0.0},
}

_TYPES = {"adamw": "AdamW", "adam": "Adam", "sgd": "SGD", "lion": "Lion", "adagrad": "Adagrad"}

# What parameter groups may have of their own.
_OF_A_GROUP = ("weight_decay", "betas", "eps")

# Elements of a bucket, so that reductions start within backward, and few are held at a time.
_BUCKET = 1 << 22

# Settings of PyTorch that change nothing here, or that are not there.
_WITHOUT_EFFECT = ("foreach", "fused", "capturable", "differentiable")
_ABSENT = ("amsgrad", "maximize", "initial_accumulator_value")


def defaults_of(optim: str, given: Mapping[str, Any]) -> Dict[str, Any]:
    """All settings of an optimizer, with those that are given.

    Raises:
      InvalidArgumentError: there is no such optimizer or setting.
      UnsupportedError: a setting of PyTorch that ringzero does not have.
    """
    if optim not in DEFAULTS:
        raise errors.InvalidArgumentError(
            f"there is no optimizer {optim!r}; expected one of {', '.join(DEFAULTS)}")
    settings = dict(DEFAULTS[optim])
    for name, value in given.items():
        if name in settings:
            settings[name] = value
        elif name in _ABSENT and value:
            raise errors.UnsupportedError(f"{optim} has no {name} in ringzero; leave it out")
        elif name not in _WITHOUT_EFFECT + _ABSENT:
            raise errors.InvalidArgumentError(
                f"{optim} has no setting {name!r}; expected {', '.join(settings)}")
    return settings


def fixed_settings(group: Mapping[str, Any], optim: str) -> Dict[str, Any]:
    """What of a parameter group is fixed when the optimizer is made: all but the learning rate."""
    return {name: group[name] for name in DEFAULTS[optim] if name != "lr"}


def _common(groups: Sequence[Mapping[str, Any]], optim: str) -> Dict[str, Any]:
    for name in DEFAULTS[optim]:
        if name != "lr" and name not in _OF_A_GROUP and any(
                group[name] != groups[0][name] for group in groups):
            raise errors.UnsupportedError(
                f"parameter groups have different {name}: "
                f"{[group[name] for group in groups]}; it is one for all")
    return {name: groups[0][name] for name in DEFAULTS[optim]}


def config_of(optim: str, groups: Sequence[Mapping[str, Any]], stage: int, dtype: torch.dtype,
              given: Mapping[str, Any], views: bool) -> Dict[str, Any]:
    """ringzero's configuration; the parameters of group i are named "i/...".

    Args:
      groups: those with parameters.
      views: whether gradients are views; otherwise they are reduced while backward goes on.
      given: more of DeepSpeed's keys; optimizer, scheduler and stage come from PyTorch's side.

    Raises:
      InvalidArgumentError: `given` has one of those.
      UnsupportedError: groups differ in what is one for all.
    """
    for key in ("optimizer", "scheduler"):
        if key in given:
            raise errors.InvalidArgumentError(
                f"config has {key!r}; give optim= and its settings, and a torch.optim.lr_scheduler")
    if dict(given.get("zero_optimization", {})).get("stage", stage) != stage:
        raise errors.InvalidArgumentError(
            f"stage is {stage}, and config says {given['zero_optimization']['stage']}")
    config: Dict[str, Any] = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0}
    config.update({key: dict(value) if isinstance(value, Mapping) else value
                   for key, value in given.items()})
    zero = config.setdefault("zero_optimization", {})
    zero["stage"] = stage
    if not views:
        zero.setdefault("reduce_bucket_size", _BUCKET)
    if dtype == torch.bfloat16:
        config["bf16"] = {"enabled": True}
    params = _common(groups, optim)
    if optim == "adam":
        params["adam_w_mode"] = False
    params["betas"] = list(params["betas"]) if "betas" in params else None
    config["optimizer"] = {"type": _TYPES[optim], "params": {
        name: value for name, value in params.items() if value is not None}}
    if len(groups) > 1:
        own: List[Dict[str, Any]] = []
        for i, group in enumerate(groups):
            entry: Dict[str, Any] = {"match": f"{i}/*"}
            entry.update({name: list(group[name]) if name == "betas" else group[name]
                          for name in _OF_A_GROUP if name in group})
            own.append(entry)
        config.setdefault("ringzero", {})["parameter_groups"] = own
    return config
