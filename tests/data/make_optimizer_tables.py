#!/usr/bin/env python3
"""Makes the tables that optimizer/kernels/optimizer_parity_test, optimizer/learning_rate_parity_test
and optimizer/loss_scaler_parity_test compare ringzero with.

    tools/setup --with torch
    python3 tests/data/make_optimizer_tables.py tests/data

optimizer_steps.txt     100 steps of PyTorch's optimizers (1.13, CPU, float32) on a few elements; Lion,
                        which PyTorch lacks, is its paper's program 1 in float32 arithmetic
learning_rates.txt      DeepSpeed's schedulers as its engine drives them (optimizer step, then
                        scheduler step), transcribed here from their published formulas
loss_scales.txt         DeepSpeed's DynamicLossScaler, likewise, over traces of overflows

Floats stand in hexadecimal (float.hex), so that nothing is lost. Gradients are not in the files: they
are integers over a power of two, made from the step and the element in the same way by the tests.
"""
import math
import sys

STEPS = 100
ELEMENTS = 6
SHOWN = (1, 2, 3, 10, 50, 100)


def gradient(step, element):
    """Between -2 and 2, exact in float32; some of every step's are 0."""
    x = (step * 2654435761 + element * 40503 + 12345) % 4294967296
    x = ((x >> 7) * 2246822519) % 4294967296
    return ((x >> 16) % 257 - 128) / 64.0


def start(element):
    return (element * 5 - 11) / 8.0


def floats(values):
    return " ".join(float(v).hex() for v in values)


def steps_of_torch(name, make):
    import torch

    p = torch.nn.Parameter(torch.tensor([start(e) for e in range(ELEMENTS)]))
    optimizer = make([p])
    for step in range(1, STEPS + 1):
        p.grad = torch.tensor([gradient(step, e) for e in range(ELEMENTS)])
        optimizer.step()
        if step in SHOWN:
            yield "%s %d %s" % (name, step, floats(p.detach().tolist()))


def steps_of_lion(name, lr, beta1, beta2, weight_decay):
    import numpy

    f = numpy.float32
    p = numpy.array([start(e) for e in range(ELEMENTS)], f)
    m = numpy.zeros(ELEMENTS, f)
    for step in range(1, STEPS + 1):
        g = numpy.array([gradient(step, e) for e in range(ELEMENTS)], f)
        c = f(beta1) * m + f(1 - beta1) * g
        p = p - f(lr) * (numpy.sign(c) + f(weight_decay) * p)
        m = f(beta2) * m + f(1 - beta2) * g
        if step in SHOWN:
            yield "%s %d %s" % (name, step, floats(p.tolist()))


def optimizer_tables():
    from torch import optim

    yield from steps_of_torch("adamw", lambda p: optim.AdamW(p, lr=0.01, weight_decay=0.125))
    yield from steps_of_torch(
        "adamw_betas", lambda p: optim.AdamW(p, lr=0.5, betas=(0.5, 0.75), eps=0.25, weight_decay=0))
    yield from steps_of_torch("adam", lambda p: optim.Adam(p, lr=0.01))
    yield from steps_of_torch("adam_l2", lambda p: optim.Adam(p, lr=0.01, weight_decay=0.125))
    yield from steps_of_torch("sgd", lambda p: optim.SGD(p, lr=0.01, weight_decay=0.125))
    yield from steps_of_torch("momentum", lambda p: optim.SGD(p, lr=0.01, momentum=0.9))
    yield from steps_of_torch(
        "dampening",
        lambda p: optim.SGD(p, lr=0.01, momentum=0.9, dampening=0.25, weight_decay=0.125))
    yield from steps_of_torch(
        "nesterov",
        lambda p: optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.125))
    yield from steps_of_torch("adagrad", lambda p: optim.Adagrad(p, lr=0.1))
    yield from steps_of_torch(
        "adagrad_decay", lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.25, weight_decay=0.125))
    yield from steps_of_lion("lion", 0.01, 0.9, 0.99, 0.125)


class WarmupLR:
    """DeepSpeed's WarmupLR: the rate that is in force is that of the last batch iteration."""

    def __init__(self, min_lr, max_lr, warmup, kind):
        self.min_lr, self.max_lr, self.warmup, self.kind = min_lr, max_lr, max(2, warmup), kind
        self.last = -1

    def warm(self):
        if self.kind == "log":
            return 1.0 / math.log(self.warmup) * math.log(self.last + 1)
        return self.last / self.warmup

    def after(self):
        return 1.0

    def rate(self):
        if self.last < 0:
            return self.min_lr
        gamma = self.warm() if self.last < self.warmup else self.after()
        return self.min_lr + (self.max_lr - self.min_lr) * gamma


class WarmupDecayLR(WarmupLR):
    def __init__(self, min_lr, max_lr, warmup, kind, total):
        super().__init__(min_lr, max_lr, warmup, kind)
        self.total = total

    def after(self):
        return max(0.0, float(self.total - self.last) / float(max(1.0, self.total - self.warmup)))


class WarmupCosineLR(WarmupLR):
    def __init__(self, lr, warmup_min_ratio, warmup, kind, total, cos_min_ratio):
        super().__init__(warmup_min_ratio, 1.0, warmup, kind)
        self.lr, self.total, self.cos_min_ratio = lr, total, cos_min_ratio

    def rate(self):
        if self.last < 0:
            return 0.0
        if self.last < self.warmup:
            return self.lr * (self.min_lr + self.warm() * (1.0 - self.min_lr))
        progress = min(1.0, (self.last - self.warmup + 1) / max(1, self.total - self.warmup))
        ratio = (1 + math.cos(math.pi * progress)) / 2
        return self.lr * max(0.0, self.cos_min_ratio + (1.0 - self.cos_min_ratio) * ratio)


def schedule_tables():
    schedules = {
        "warmup_log": WarmupLR(0.0, 0.001, 40, "log"),
        "warmup_linear": WarmupLR(0.0001, 0.001, 40, "linear"),
        "warmup_one_step": WarmupLR(0.0, 0.001, 1, "log"),
        "decay_log": WarmupDecayLR(0.0001, 0.001, 25, "log", 90),
        "decay_short": WarmupDecayLR(0.0, 0.001, 40, "linear", 30),
        "cosine_log": WarmupCosineLR(0.002, 0.1, 25, "log", 90, 0.0001),
        "cosine_linear": WarmupCosineLR(0.002, 0.0, 10, "linear", 60, 0.25),
        "cosine_short": WarmupCosineLR(0.002, 0.0, 40, "linear", 30, 0.25),
    }
    for name, schedule in schedules.items():
        rates = []
        for _ in range(STEPS):
            rates.append(schedule.rate())  # the optimizer steps with it
            schedule.last += 1  # then the engine steps the scheduler
        yield "%s %s" % (name, floats(rates))


class DynamicLossScaler:
    def __init__(self, scale, window, minimum, hysteresis, consecutive):
        self.scale, self.window, self.minimum = scale, window, minimum
        self.full, self.left, self.consecutive = hysteresis, hysteresis, consecutive
        self.iteration, self.last_overflow = 0, -1

    def update(self, overflow):
        if overflow:
            if self.full == 1 or self.left == 1:
                if self.scale == self.minimum:
                    raise OverflowError
                self.scale = max(self.scale / 2.0, self.minimum)
            else:
                self.left -= 1
            self.last_overflow = self.iteration
        else:
            if self.consecutive:
                self.left = self.full
            stable = self.iteration - self.last_overflow - 1
            if stable > 0 and stable % self.window == 0:
                if not self.consecutive:
                    self.left = self.full
                self.scale *= 2.0
        self.iteration += 1


def scaler_tables():
    """name scale window minimum hysteresis consecutive, then OVERFLOW SCALE-AFTER COUNT in runs."""
    cases = (
        ("deepspeed", DynamicLossScaler(65536.0, 1000, 1.0, 2, False), 3600,
         ((0, 3), (10, 12), (1200, 1203), (1300, 1301), (2400, 2402), (2405, 2406))),
        ("short_window", DynamicLossScaler(1024.0, 5, 1.0, 2, False), 80,
         ((0, 1), (6, 7), (13, 15), (22, 26), (40, 41), (46, 47))),
        ("consecutive", DynamicLossScaler(1024.0, 4, 0.5, 3, True), 80,
         ((0, 4), (6, 8), (9, 11), (20, 25), (26, 27), (50, 53))),
        ("sinks", DynamicLossScaler(96.0, 100, 1.0, 1, False), 80,
         ((0, 2), (4, 5), (7, 20))),
    )
    for name, scaler, count, overflows in cases:
        numbers = "%g %d %g %d %d" % (scaler.scale, scaler.window, scaler.minimum, scaler.full,
                                      scaler.consecutive)
        runs = []
        for i in range(count):
            overflow = any(first <= i < end for first, end in overflows)
            try:
                scaler.update(overflow)
                after = "%g" % scaler.scale
            except OverflowError:
                after = "error"
            if runs and runs[-1][:2] == [overflow, after]:
                runs[-1][2] += 1
            else:
                runs.append([overflow, after, 1])
            if after == "error":
                break
        yield "%s %s %s" % (name, numbers, " ".join("%d %s %d" % tuple(run) for run in runs))


def main():
    folder = sys.argv[1]
    for name, lines in (("optimizer_steps.txt", optimizer_tables()),
                        ("learning_rates.txt", schedule_tables()),
                        ("loss_scales.txt", scaler_tables())):
        with open("%s/%s" % (folder, name), "w") as file:
            file.write("# Made by tests/data/make_optimizer_tables.py\n")
            for line in lines:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
