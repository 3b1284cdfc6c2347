"""Ports for a job in torchrun's environment: MASTER_PORT, and the next one for the rendezvous."""

import random
import socket


def two_free_ports():
    """The first of two free ports in a row, below those that systems give to whoever asks for any."""
    for port in random.sample(range(10000, 30000), 1000):
        try:
            for each in (port, port + 1):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", each))
            return port
        except OSError:
            pass
    raise OSError("no two free ports in a row from 10000 to 30000")


if __name__ == "__main__":
    print(two_free_ports())
