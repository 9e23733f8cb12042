"""Boards: cryptography on a Cortex-M0, readings and messages on a serial line."""
