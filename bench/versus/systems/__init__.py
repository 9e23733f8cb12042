"""The systems that are compared, each in a module of its own."""

from bench.versus.system import System
from bench.versus.systems.covey import Covey
from bench.versus.systems.mosquitto import Mosquitto, SavingMosquitto
from bench.versus.systems.nats import AlwaysNats, Nats

SYSTEMS: dict[str, type[System]] = {each.name: each for each in (Covey, SavingMosquitto, Mosquitto, AlwaysNats, Nats)}
