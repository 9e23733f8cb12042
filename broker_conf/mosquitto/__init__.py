"""mosquitto: the configuration to deploy, and a broker that runs it for the demo, benchmarks and tests."""

from broker_conf.mosquitto.broker import Broker

__all__ = ["Broker"]
