"""Configurations of MQTT brokers that serve as Covey's relay, one folder for each, booted by the tests."""
